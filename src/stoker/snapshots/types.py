"""The values of a snapshot, and their limits.

A snapshot is a manifest and the contents that it names. A content is identified by its git blob id, is
stored once in a pack, and may be used by many files of many snapshots. A number or path outside the limits
is refused when the bytes of a manifest are parsed (`stoker.snapshots.manifest`), never later.
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
"""Maximum number of unreadable files that a snapshot may omit; with more, the snapshot fails."""

ContinueCheck = Callable[[], None]
"""Called between two files; raises to cancel the work."""


def never_stop() -> None:
    """Never cancel: the default `ContinueCheck`."""


class ScannedFile(NamedTuple):
    """One file of the data folder, as a scan found it."""

    path: str
    """Canonical, below the data folder."""
    size: int
    mode: int
    blob: BlobId | None = None
    """Its content's id, if known without reading it. The file is still read if no pack has that content."""


class SnapshotOrigin(NamedTuple):
    """The commit, ref and settings that the files were synced to, as in the ledger."""

    commit: str = ""
    ref: str = ""
    settings: str = ""


class SnapshotFile(NamedTuple):
    """One file of a snapshot."""

    blob: BlobId
    size: int
    mode: int

    @property
    def version(self) -> FileVersion:
        return FileVersion(self.blob, bool(self.mode & 0o100))


class PackCodec(IntEnum):
    """How a content is stored in its pack."""

    PLAIN = 0
    ZLIB = 1


class PackLocation(NamedTuple):
    """Where and how a content is stored."""

    pack: str
    offset: int
    stored: int
    codec: int
    size: int


@dataclass(frozen=True, slots=True)
class SnapshotHeader:
    """The header of a manifest, without files and contents."""

    id: str
    gateway: str
    taken_at: float
    scope: SnapshotScope
    origin: SnapshotOrigin
    digits: int
    """The length of a blob id: 40, or 64 if the git repository uses SHA-256."""
    files: int
    size: int
    """Total bytes of all files."""
    packs: Mapping[str, int]
    """The size in bytes of each pack that the snapshot uses, by name."""
    used: Mapping[str, int]
    """How many bytes of each pack the snapshot uses, by name."""


@dataclass(frozen=True, slots=True)
class SnapshotManifest:
    """A complete snapshot except for the contents."""

    id: str
    gateway: str
    taken_at: float
    scope: SnapshotScope
    origin: SnapshotOrigin
    files: Mapping[str, SnapshotFile]
    left_out: tuple[str, ...]
    """Paths that existed and could not be read; a restore must not touch them."""
    extra: bytes
    """Opaque data of the caller that is stored with the snapshot."""
    size: int
    packs: Mapping[str, int]
    contents: Mapping[BlobId, PackLocation]
    digits: int


class Snapshot(NamedTuple):
    """One snapshot in a listing."""

    id: str
    taken_at: float = 0.0
    size: int = 0
    files: int = 0
    scope: SnapshotScope = SnapshotScope.MANAGED
    origin: SnapshotOrigin = SnapshotOrigin()
    stored: int = 0
    """The bytes that this snapshot added to the storage."""
    trouble: str = ""
    """Why it cannot be used; if its manifest cannot be read, only the id is known."""


def corrupt_snapshot(message: str) -> Stalled:
    return Stalled(message, reason=Reason.SNAPSHOT_CORRUPT)


def storage_failed(message: str) -> Retry:
    return Retry(message, reason=Reason.SNAPSHOT_FAILED)
