"""Git values of the engine: blob ids, the files of a commit, the entries that were refused.

`stoker.git` builds these from git's objects, `stoker.fs` compares live files with them, and
every decision in between uses only them: no content passes through the engine, only its id.
A name that is not a canonical path never becomes an entry. It becomes a `RefusedEntry`, which
holds the name and nothing of the content.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import NamedTuple

from stoker.domain.errors import InvalidValue
from stoker.domain.paths import RelPath
from stoker.domain.reasons import Reason
from stoker.domain.text import escape_unprintable

_BLOB = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


class BlobId(str):
    """The id that git gives to a content, SHA-1 or SHA-256 depending on the repository."""

    __slots__ = ()

    def __new__(cls, text: str) -> BlobId:
        if not _BLOB.fullmatch(text):
            raise InvalidValue(f"{text[:80]!r} is not a blob id of 40 or 64 hexadecimal digits")
        return super().__new__(cls, text)


class BlobHash:
    """Computes the id of a content that arrives in chunks and whose size is known in advance."""

    __slots__ = ("_digest",)

    def __init__(self, size: int, *, digits: int = 40) -> None:
        """`digits` is the length of an id of the same repository; it selects SHA-1 or SHA-256."""
        header = b"blob %d\0" % size
        # SHA-1 here only names git objects; no trust decision depends on it.
        self._digest = hashlib.sha1(header, usedforsecurity=False) if digits == 40 else hashlib.sha256(header)

    def update(self, chunk: bytes) -> None:
        self._digest.update(chunk)

    def blob(self) -> BlobId:
        return str.__new__(BlobId, self._digest.hexdigest())


class FileVersion(NamedTuple):
    """The version of a file: its blob id and whether it is executable. Other modes do not exist here."""

    blob: BlobId
    executable: bool = False

    @property
    def mode(self) -> int:
        return 0o755 if self.executable else 0o644


class TreeChange(NamedTuple):
    """A regular file that differs between two commits; None on the side where it does not exist."""

    path: str
    before: FileVersion | None
    after: FileVersion | None


class RefusedEntryKind(StrEnum):
    """Why an entry of a repository is not delivered."""

    SYMLINK = "is a symlink in the repository, which is never followed"
    SUBMODULE = "is a submodule, which is never fetched"
    LFS_POINTER = "is a Git LFS pointer, not the content itself"
    BAD_NAME = "has a name that is not allowed"
    AMBIGUOUS = "is there twice in one tree"

    @property
    def by_design(self) -> bool:
        """Whether skipping it is what a user expects, and no sign that something is wrong."""
        return self in (RefusedEntryKind.SYMLINK, RefusedEntryKind.SUBMODULE)


class RefusedEntry(NamedTuple):
    """An entry that is not delivered, and why."""

    name: str
    """Printable form of the name; it is not a path."""
    nearest: RelPath
    """The entry's own path, or the deepest canonical folder above it if the name itself is not canonical."""
    kind: RefusedEntryKind
    detail: str = ""

    def __str__(self) -> str:
        return self.detail or self.kind.value


class CommitTree(NamedTuple):
    """A whole commit: the files that can be delivered, by canonical path, and the entries that cannot."""

    files: Mapping[str, FileVersion] = MappingProxyType({})
    refused: tuple[RefusedEntry, ...] = ()


class Blob(NamedTuple):
    """A content as a stream; read the chunks once, and before requesting the next blob."""

    id: BlobId
    size: int
    chunks: Iterator[bytes]


def blob_of(content: bytes, *, digits: int = 40) -> BlobId:
    """Return the blob id of a content in memory."""
    digest = BlobHash(len(content), digits=digits)
    digest.update(content)
    return digest.blob()


def printable_name(name: str) -> str:
    """Return a name from outside as one printable line; control characters for a terminal are escaped."""
    text = escape_unprintable(name)
    return text if len(text) <= 200 else text[:197] + "..."


_COMMANDS = str.maketrans({char: f"\\x{ord(char):02x}" for char in "[]#@!"})


def inert_name(name: str) -> str:
    """Return a name from outside in a form that is safe in a commit message or a pull request.

    Forges and CI services act on text there: `[skip ci]`, `***NO_CI***`, `closes #1`, `@team`.
    """
    return printable_name(name).translate(_COMMANDS).replace("***", r"\x2a\x2a\x2a")


class PathNote(NamedTuple):
    """A path and a sentence about it, for the report."""

    path: str
    why: str


class HeldPath(NamedTuple):
    """A folder that must not be changed at present, and why, usually an open Designer session."""

    place: str
    """A folder below the data folder, such as `projects/Line 1`."""
    why: str
    user: str = ""
    reason: Reason = Reason.DESIGNER_SESSION_ACTIVE

    def covers(self, path: str) -> bool:
        return path == self.place or path.startswith(self.place + "/")
