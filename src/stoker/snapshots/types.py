"""What a snapshot is made of, and how large any of it may be.

A snapshot is a manifest and the contents that it names. A content is known by the
id that git gives it, lies once in a pack, and may be named by many files of many
snapshots. A number or a path that does not fit in here is refused where the bytes
of a manifest are read (`stoker.snapshots.manifest`), never later.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from stoker.domain.errors import Retry, Stalled
from stoker.domain.git_objects import BlobId, FileVersion
from stoker.domain.intent.policies import SnapshotScope
from stoker.domain.reasons import Reason

MAX_FILES = 1_000_000
MAX_FILE_BYTES = 64 << 30
MAX_EXTRA = 1 << 20
MAX_OMITTED = 10_000
"""More than these cannot be left alone one by one: then it is no snapshot."""

ContinueCheck = Callable[[], None]
"""Called between two files; raises when whoever asked wants it to end."""


def never_stop() -> None:
    """Nobody wants it to end."""


class ScannedFile(NamedTuple):
    """One file as it lies in the data folder."""

    path: str
    """Canonical, below the data folder."""
    size: int
    mode: int
    blob: BlobId | None = None
    """What it holds, if that is known without reading it; it is read all the same where nobody keeps that."""


class SnapshotOrigin(NamedTuple):
    """What the files were at, in the words of the ledger."""

    commit: str = ""
    ref: str = ""
    settings: str = ""


class SnapshotFile(NamedTuple):
    """One file as a snapshot has it."""

    blob: BlobId
    size: int
    mode: int

    @property
    def version(self) -> FileVersion:
        return FileVersion(self.blob, bool(self.mode & 0o100))


class PackCodec(IntEnum):
    """How a content lies in its pack."""

    PLAIN = 0
    ZLIB = 1


class PackLocation(NamedTuple):
    """Where a content lies."""

    pack: str
    offset: int
    stored: int
    codec: int
    size: int


@dataclass(frozen=True, slots=True)
class SnapshotHeader:
    """What a snapshot says of itself before it names a file."""

    id: str
    gateway: str
    taken_at: float
    scope: SnapshotScope
    origin: SnapshotOrigin
    digits: int
    """The length of a blob id: 40, or 64 where the repository has SHA-256."""
    files: int
    size: int
    """Of all files together."""
    packs: Mapping[str, int]
    """By name, the bytes of each pack that it needs."""
    used: Mapping[str, int]
    """By name, how many of those bytes it needs."""


@dataclass(frozen=True, slots=True)
class SnapshotManifest:
    """All of a snapshot but the contents."""

    id: str
    gateway: str
    taken_at: float
    scope: SnapshotScope
    origin: SnapshotOrigin
    files: Mapping[str, SnapshotFile]
    left_out: tuple[str, ...]
    """What lay there and could not be read: whoever restores leaves these paths alone."""
    extra: bytes
    """What whoever took it wanted to have back with it."""
    size: int
    packs: Mapping[str, int]
    contents: Mapping[BlobId, PackLocation]
    digits: int


class Snapshot(NamedTuple):
    """One line of the list."""

    id: str
    taken_at: float = 0.0
    size: int = 0
    files: int = 0
    scope: SnapshotScope = SnapshotScope.MANAGED
    origin: SnapshotOrigin = SnapshotOrigin()
    stored: int = 0
    """The bytes that this one added to what was there."""
    trouble: str = ""
    """Why it cannot be used; then nothing but its id is known."""


def corrupt_snapshot(message: str) -> Stalled:
    return Stalled(message, reason=Reason.SNAPSHOT_CORRUPT)


def storage_failed(message: str) -> Retry:
    return Retry(message, reason=Reason.SNAPSHOT_FAILED)
