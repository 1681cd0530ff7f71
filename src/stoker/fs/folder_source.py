"""A local folder as a source, for `stoker dev watch`: every state of the folder is a commit of its own.

Uncommitted files count like any others, git is not used, and the `.git` folder is ignored. A file is hashed
only if its stat data changed, so after one file was saved only that file is read. Symlinks and nested
repositories are refused by name, as in a commit. Nothing is written and no symlink is followed.

A file may change between listing and copying. Its content then no longer has the listed id, the sync stops
before it touches anything, and the next sync, which the same edit triggers, takes the new content.
"""

from __future__ import annotations

import hashlib
import os
import stat
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Collection, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from stoker.domain.errors import InvalidValue, Misconfigured, Retry
from stoker.domain.git_objects import (
    Blob,
    BlobHash,
    BlobId,
    CommitTree,
    FileVersion,
    RefusedEntry,
    RefusedEntryKind,
    TreeChange,
    printable_name,
)
from stoker.domain.paths import RelPath
from stoker.domain.reasons import Reason
from stoker.domain.refs import CommitId, GitRef
from stoker.fs.data_folder import open_regular

MAX_CACHED_TREES = 8
MAX_FILES = 200_000
_CHUNK = 1 << 20
_GIT = ".git"
# A file younger than this when it is hashed may change again without its times showing it.
_AT_REST_NS = 50_000_000

_OPEN_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class _KnownFile(NamedTuple):
    """A file as it was when it was last read."""

    stamp: tuple[int, int, int, int]
    size: int
    version: FileVersion


@dataclass(slots=True)
class _FolderListing:
    """The result of one walk over the folder."""

    files: dict[str, FileVersion] = field(default_factory=dict)
    refused: list[RefusedEntry] = field(default_factory=list)
    known: dict[str, _KnownFile] = field(default_factory=dict)


class FolderSource:
    """A `SourceReader` over the working copy at `root`; with `below`, over that part of it."""

    def __init__(self, root: Path, *, below: RelPath | None = None) -> None:
        self.root = root.absolute()
        self._below = below if below is not None else RelPath("")
        self._known: dict[str, _KnownFile] = {}
        self._trees: OrderedDict[str, CommitTree] = OrderedDict()
        self._seen_at: dict[str, int] = {}
        self._places: dict[BlobId, str] = {}

    async def resolve(self, ref: GitRef) -> CommitId:
        """Return an id for the current state, whatever the ref.

        It is a digest of names, modes and contents.
        """
        look = self._look()
        digest = hashlib.sha1(usedforsecurity=False)
        for path in sorted(look.files):
            version = look.files[path]
            digest.update(f"{version.mode:o} {version.blob} {path}\0".encode())
        for refusal in look.refused:
            digest.update(f"{refusal.kind.name} {refusal.name}\0".encode(errors="surrogatepass"))
        commit = CommitId(digest.hexdigest())
        self._known = look.known
        self._trees[commit] = CommitTree(look.files, tuple(look.refused))
        self._trees.move_to_end(commit)
        self._seen_at.setdefault(commit, int(time.time()))
        self._places = {version.blob: path for path, version in look.files.items()}
        while len(self._trees) > MAX_CACHED_TREES:
            gone, _ = self._trees.popitem(last=False)
            self._seen_at.pop(gone, None)
        return commit

    @asynccontextmanager
    async def held(self) -> AsyncIterator[None]:
        yield

    async def fetch(self, commit: CommitId, ref: GitRef) -> None:
        self._tree(commit)

    async def vouch(self, commit: CommitId, ref: GitRef, before: CommitId | None) -> None:
        """Accept everything: uncommitted files have no signature, and the editing user runs this process."""

    async def tree(self, commit: CommitId) -> CommitTree:
        return self._tree(commit)

    async def changes(self, before: CommitId, after: CommitId) -> tuple[TreeChange, ...] | None:
        old, new = self._trees.get(before), self._tree(after)
        if old is None or old.refused != new.refused:
            return None
        paths = sorted(old.files.keys() | new.files.keys())
        both = ((path, old.files.get(path), new.files.get(path)) for path in paths)
        return tuple(TreeChange(path, was, now) for path, was, now in both if was != now)

    async def look_up(self, commit: CommitId, paths: Collection[str]) -> dict[str, FileVersion]:
        files = self._tree(commit).files
        return {path: files[path] for path in paths if path in files}

    async def committed_at(self, commit: CommitId) -> int:
        self._tree(commit)
        return self._seen_at[commit]

    async def complete(self, blobs: Collection[BlobId]) -> None:
        """Do nothing: all contents are local."""

    def contents(self, blobs: Sequence[BlobId]) -> Iterator[Blob]:
        for blob in blobs:
            path = self._places.get(blob)
            if path is None:
                raise _changed_while_reading(f"content {blob}")
            with _open_below(self.root, RelPath(path).parent) as folder:
                try:
                    fd = open_regular(folder, RelPath(path).name)
                except OSError:
                    raise _changed_while_reading(path) from None
            try:
                size = os.fstat(fd).st_size
                chunks = _checked_chunks(fd, size, blob, path)
                yield Blob(blob, size, chunks)
                for _ in chunks:  # read what the caller did not, so that the content is verified
                    pass
            finally:
                os.close(fd)

    def discard(self) -> None:
        """Forget the known files, so that everything is read again."""
        self._known = {}

    def _tree(self, commit: CommitId) -> CommitTree:
        tree = self._trees.get(commit)
        if tree is None:
            raise _changed_while_reading(str(self.root))
        return tree

    def _look(self) -> _FolderListing:
        look = _FolderListing()
        try:
            with _open_below(self.root, self._below) as fd:
                self._walk(fd, self._below, look)
        except FileNotFoundError:
            raise Misconfigured(f"folder {self.root / self._below} does not exist") from None
        except OSError as error:
            raise Misconfigured(
                f"folder {self.root / self._below} cannot be read: {error.strerror}"
            ) from None
        return look

    def _walk(self, folder: int, place: RelPath, look: _FolderListing) -> None:
        with os.scandir(folder) as found:
            entries = sorted(found, key=lambda entry: entry.name)
        if any(entry.name == _GIT for entry in entries) and place:
            look.refused.append(RefusedEntry(place, place, RefusedEntryKind.SUBMODULE))
            return
        for entry in entries:
            if entry.name != _GIT:
                self._take(entry, folder, place, look)

    def _take(self, entry: os.DirEntry[str], folder: int, place: RelPath, look: _FolderListing) -> None:
        try:
            path = place.joined(RelPath(entry.name))
        except InvalidValue as error:
            name = printable_name(f"{place}/{entry.name}" if place else entry.name)
            look.refused.append(
                RefusedEntry(name, place, RefusedEntryKind.BAD_NAME, printable_name(error.message))
            )
            return
        try:
            found = os.stat(entry.name, dir_fd=folder, follow_symlinks=False)
            if stat.S_ISDIR(found.st_mode):
                fd = os.open(entry.name, _OPEN_FOLDER_FLAGS, dir_fd=folder)
                try:
                    self._walk(fd, path, look)
                finally:
                    os.close(fd)
            elif stat.S_ISREG(found.st_mode):
                self._hash(folder, path, found, look)
            elif stat.S_ISLNK(found.st_mode):
                look.refused.append(RefusedEntry(path, path, RefusedEntryKind.SYMLINK))
        except FileNotFoundError:
            return  # deleted during the walk
        if len(look.files) > MAX_FILES:
            raise Misconfigured(f"folder {self.root / self._below} holds more than {MAX_FILES} files")

    def _hash(self, folder: int, path: RelPath, found: os.stat_result, look: _FolderListing) -> None:
        stamp = (found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino)
        known = self._known.get(path)
        if known is None or known.stamp != stamp:
            young = time.time_ns() - max(found.st_mtime_ns, found.st_ctime_ns) < _AT_REST_NS
            version = FileVersion(_hash_blob(folder, path.name), bool(found.st_mode & stat.S_IXUSR))
            known = _KnownFile((-1, 0, 0, 0) if young else stamp, found.st_size, version)
        look.files[path] = known.version
        look.known[path] = known


@contextmanager
def _open_below(root: Path, place: RelPath) -> Iterator[int]:
    """Open a folder below the root, name by name."""
    fd = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for part in place.parts:
            below = os.open(part, _OPEN_FOLDER_FLAGS, dir_fd=fd)
            os.close(fd)
            fd = below
        yield fd
    finally:
        os.close(fd)


def _hash_blob(folder: int, name: str) -> BlobId:
    fd = open_regular(folder, name)
    try:
        digest = BlobHash(os.fstat(fd).st_size)
        while chunk := os.read(fd, _CHUNK):
            digest.update(chunk)
        return digest.blob()
    finally:
        os.close(fd)


def _checked_chunks(fd: int, size: int, blob: BlobId, path: str) -> Iterator[bytes]:
    """Iterate over the content in chunks; raise if it does not have the listed blob id."""
    digest, left = BlobHash(size), size
    if not size and digest.blob() != blob:
        raise _changed_while_reading(path)
    while left and (chunk := os.read(fd, min(left, _CHUNK))):
        digest.update(chunk)
        left -= len(chunk)
        if not left and digest.blob() != blob:
            raise _changed_while_reading(path)
        yield chunk
    if left:
        raise _changed_while_reading(path)


def _changed_while_reading(what: str) -> Retry:
    return Retry(
        f"{what} changed while it was read; it is taken with the next look", reason=Reason.TRANSIENT_ERROR
    )
