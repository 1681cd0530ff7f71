"""What the engine knows of a repository: blob ids, the files of a commit, what was refused of it.

`stoker.git` builds these from git's objects, `stoker.fs` compares live files with
them, and every decision in between is made on them alone: no content passes
through the engine, only its id. A name that is not a canonical path never becomes
an entry; it becomes a `RefusedEntry` that says its name and nothing of its content.
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

_BLOB = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


class BlobId(str):
    """The id that git gives to a content, SHA-1 or SHA-256 as its repository has it."""

    __slots__ = ()

    def __new__(cls, text: str) -> BlobId:
        if not _BLOB.fullmatch(text):
            raise InvalidValue(f"{text[:80]!r} is not a blob id of 40 or 64 hexadecimal digits")
        return super().__new__(cls, text)


class BlobHash:
    """Computes the id of a content that arrives in pieces and whose size is known before."""

    __slots__ = ("_digest",)

    def __init__(self, size: int, *, digits: int = 40) -> None:
        """`digits` is the length of an id of the same repository: it tells which hash is used there."""
        header = b"blob %d\0" % size
        # SHA-1 here names git objects; nothing is trusted because of it.
        self._digest = hashlib.sha1(header, usedforsecurity=False) if digits == 40 else hashlib.sha256(header)

    def update(self, chunk: bytes) -> None:
        self._digest.update(chunk)

    def blob(self) -> BlobId:
        return str.__new__(BlobId, self._digest.hexdigest())


class FileVersion(NamedTuple):
    """What a file is: its content by id, and whether it may be executed. No other mode exists here."""

    blob: BlobId
    executable: bool = False

    @property
    def mode(self) -> int:
        return 0o755 if self.executable else 0o644


class TreeChange(NamedTuple):
    """A regular file that is not the same in two commits; None on the side where it is not there."""

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
        """Whether skipping it is what a user expects (C-114), and no sign that something is wrong."""
        return self in (RefusedEntryKind.SYMLINK, RefusedEntryKind.SUBMODULE)


class RefusedEntry(NamedTuple):
    """An entry that is not delivered, and why."""

    name: str
    """As it may be shown; it is not a path."""
    nearest: RelPath
    """The entry's own path, or the deepest canonical folder above it when its name is not one."""
    kind: RefusedEntryKind
    detail: str = ""

    def __str__(self) -> str:
        return self.detail or self.kind.value


class CommitTree(NamedTuple):
    """All of a commit: the files that can be delivered, by canonical path, and the entries that cannot."""

    files: Mapping[str, FileVersion] = MappingProxyType({})
    refused: tuple[RefusedEntry, ...] = ()


class Blob(NamedTuple):
    """A content on its way; the pieces are read once, and before the next blob is asked for."""

    id: BlobId
    size: int
    chunks: Iterator[bytes]


def blob_of(content: bytes, *, digits: int = 40) -> BlobId:
    """The id of a content that is at hand."""
    digest = BlobHash(len(content), digits=digits)
    digest.update(content)
    return digest.blob()


def printable_name(name: str) -> str:
    """A name from outside as one printable line; what a terminal would act on is escaped."""
    text = "".join(
        c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in name
    )
    return text if len(text) <= 200 else text[:197] + "..."


_COMMANDS = str.maketrans({char: f"\\x{ord(char):02x}" for char in "[]#@!"})


def inert_name(name: str) -> str:
    """A name from outside as it may stand in a commit message or a pull request.

    Forges and CI services act on what they read there: `[skip ci]`, `***NO_CI***`, `closes #1`, `@team`.
    """
    return printable_name(name).translate(_COMMANDS).replace("***", r"\x2a\x2a\x2a")


class PathNote(NamedTuple):
    """One path and one sentence about it, for the report."""

    path: str
    why: str


class HeldPath(NamedTuple):
    """A place in which nothing may change at present, and why: somebody works there."""

    place: str
    """A folder below the data folder, such as `projects/Line 1`."""
    why: str
    user: str = ""
    reason: Reason = Reason.DESIGNER_SESSION_ACTIVE

    def covers(self, path: str) -> bool:
        return path == self.place or path.startswith(self.place + "/")
