"""Stages contents on the data volume before any reader can see them.

Everything that a plan writes is first written to `.sync-staging/`, checked against its blob id, given its
mode and owner, and made durable. No live file is touched here, so a missing blob or a full disk does no
harm. A file of an existing folder is staged under a number, and renamed on its own. A folder that does not
exist yet is staged whole, with everything that the plan writes below it: one rename publishes it, and since
that does not touch its files, their stamps are already known.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import chain
from operator import itemgetter
from typing import NamedTuple

from stoker.domain.errors import Retry
from stoker.domain.failpoints import reach_failpoint
from stoker.domain.git_objects import Blob, BlobHash, BlobId
from stoker.domain.reasons import Reason
from stoker.engine.layout.protected_paths import STAGING
from stoker.engine.plan.ledger import encode_record
from stoker.engine.plan.plan import RESOURCE_MANIFEST, WriteFile
from stoker.fs.data_folder import (
    CREATE,
    PRIVATE_MODE,
    DataFolder,
    open_folder,
    os_error_reason,
    sync_volume,
    write_all,
)
from stoker.fs.file_rules import FileRules
from stoker.fs.folder_cursor import DirWalk
from stoker.fs.stat_stamp import encode_stamp
from stoker.fs.stop_check import StopCheck, raise_if_stopped

# Up to this many files each is synced on its own; beyond that one sync of the volume is far cheaper.
SYNC_EACH = 64
HELD_BACK_MESSAGE = "is held back: a file of the same resource failed"

BlobReader = Callable[[Sequence[BlobId]], Iterator[Blob]]
StagingProgress = Callable[[str, int, int], None]

# These mean that the disk itself fails, so writing the other files would fail too.
_FATAL = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS)


@contextmanager
def staging(folder: DataFolder) -> Iterator[int]:
    """Create an empty staging folder and open it; remove it at the end."""
    discard_staging(folder)
    reach_failpoint("staging.mkdir.before")
    os.mkdir(STAGING, PRIVATE_MODE, dir_fd=folder.fd)
    reach_failpoint("staging.mkdir.after")
    fd = open_folder(folder.fd, STAGING)
    try:
        yield fd
    finally:
        os.close(fd)
        with suppress(OSError):
            discard_staging(folder)


def discard_staging(folder: DataFolder) -> None:
    """Remove the staging folder of a finished or killed sync."""
    try:
        os.close(open_folder(folder.fd, STAGING))  # raises with a clear message if it is not a folder
    except FileNotFoundError:
        return
    reach_failpoint("staging.clear.before")
    try:
        os.rmdir(STAGING, dir_fd=folder.fd)  # a successful sync has moved everything out
    except OSError:
        import shutil  # noqa: PLC0415 - imports all archive formats, needed only after a failed sync

        shutil.rmtree(STAGING, dir_fd=folder.fd)
    reach_failpoint("staging.clear.after")


class StagedTree(NamedTuple):
    """A folder that does not exist yet: its name in staging, and the paths of all files in it."""

    name: str
    paths: list[str]


class StagingArea:
    """The staged files and their destinations."""

    def __init__(self, folder: DataFolder, fd: int, rules: FileRules) -> None:
        self.fd = fd
        self.records: dict[str, bytes] = {}
        """By path, for each staged file: its future ledger record."""
        self.errors: dict[str, str] = {}
        self.single: dict[str, str] = {}
        """The names in staging of files that are renamed one by one."""
        self.trees: dict[str, StagedTree] = {}
        """By path of the topmost folder that does not exist yet."""
        self.filled_at = 0
        """When the last file was written, in nanoseconds."""
        self._folder = folder
        self._rules = rules
        self._folders = 0

    def fill(
        self,
        writes: Sequence[WriteFile],
        read: BlobReader,
        stopped: StopCheck,
        progress: StagingProgress | None,
    ) -> None:
        """Stage all writes, folder by folder; raise if no live file may be touched."""
        ordered = sorted(writes, key=itemgetter(0))
        blobs = read([write.version.blob for write in ordered])
        each = len(ordered) <= SYNC_EACH
        last: str | None = None
        top: str | None = None
        with DirWalk(self.fd, self._make, new=True) as inside, DirWalk(self._folder.fd) as live:
            for number, (write, blob) in enumerate(_pair_with_blobs(ordered, blobs)):
                raise_if_stopped(stopped)
                above, _, name = write.path.rpartition("/")
                if above != last:
                    last = above
                    if top is None or not f"{above}/".startswith(f"{top}/"):
                        top = _topmost_missing_folder(live, above)
                try:
                    self._stage(inside, top, above, name, write, blob, each)
                except OSError as error:
                    if error.errno in _FATAL:
                        raise
                    self._give_up(inside, str(write.path), blob, error)
                if progress is not None:
                    progress("staging", number + 1, len(ordered))
        self.filled_at = time.time_ns()
        self._hold_back()
        if not each or self._folders > SYNC_EACH:
            _sync_descriptor(sync_volume, self.fd)
        elif self.trees:
            self._sync_folders()

    def location(self, path: str) -> str:
        """Return the path of a file below the staging folder."""
        if path in self.single:
            return self.single[path]
        top = self._top(path)
        return self.trees[top].name + path[len(top) :]

    def _top(self, path: str) -> str:
        """Return the folder of `trees` that contains a file; empty if none does."""
        while path and path not in self.trees:
            path = path.rpartition("/")[0]
        return path

    def _stage(
        self,
        inside: DirWalk,
        top: str | None,
        above: str,
        name: str,
        write: WriteFile,
        blob: Blob,
        each: bool,
    ) -> None:
        path = str(write.path)
        if top is None:
            self.single[path] = name = str(len(self.single))
            folder = self.fd
        else:
            tree = self.trees.get(top)
            if tree is None:
                tree = self.trees[top] = StagedTree(f"t{len(self.trees)}", [])
            folder = inside.enter(tree.name + above[len(top) :])
            tree.paths.append(path)
        self.records[path] = self._write(folder, name, write, blob, each)

    def _write(self, folder: int, name: str, write: WriteFile, blob: Blob, durable: bool) -> bytes:
        version = write.version
        mode = self._rules.mode(version.mode)
        digest = BlobHash(blob.size, digits=len(version.blob))
        reach_failpoint("stage.write.before")
        fd = os.open(name, CREATE, mode, dir_fd=folder)
        try:
            for chunk in blob.chunks:
                digest.update(chunk)
                write_all(fd, chunk)
            reach_failpoint("stage.write.after")
            if digest.blob() != version.blob:
                message = f"blob {version.blob} in the mirror has another content"
                raise Retry(message, reason=Reason.GIT_FAILED)
            found = self._rules.enforce(fd, mode)
            if durable:
                _sync_descriptor(os.fdatasync, fd)
        finally:
            os.close(fd)
        return encode_record(version, encode_stamp(found))

    def _make(self, above: int, name: str, _: str) -> int:
        reach_failpoint("stage.mkdir.before")
        fd = self._rules.make_folder(above, name)
        reach_failpoint("stage.mkdir.after")
        self._folders += 1
        return fd

    def _give_up(self, inside: DirWalk, path: str, blob: Blob, error: OSError) -> None:
        self.errors[path] = os_error_reason(error)
        top = self._top(path)
        if top and self.trees[top].paths[-1:] == [path]:
            self._remove(inside, path)
        for _ in blob.chunks:  # the next blob is available only after this one was read to its end
            pass

    def _hold_back(self) -> None:
        """Hold back a `resource.json` beside a missing file; it would declare the resource complete."""
        with DirWalk(self.fd) as inside:
            for path in list(self.errors):
                manifest = f"{path.rpartition('/')[0]}/{RESOURCE_MANIFEST}"
                if manifest in self.records:
                    self.errors[manifest] = HELD_BACK_MESSAGE
                    del self.records[manifest]
                    self._remove(inside, manifest)

    def _remove(self, inside: DirWalk, path: str) -> None:
        """Remove a file from a staged folder, because an incomplete file must not be published with it."""
        top = self._top(path)
        if top:
            self.trees[top].paths.remove(path)
            above, _, name = self.location(path).rpartition("/")
            with suppress(FileNotFoundError):
                os.unlink(name, dir_fd=inside.enter(above))

    def _sync_folders(self) -> None:
        folders: set[str] = set()
        for path in chain.from_iterable(tree.paths for tree in self.trees.values()):
            folder = self.location(path).rpartition("/")[0]
            while folder and folder not in folders:
                folders.add(folder)
                folder = folder.rpartition("/")[0]
        with DirWalk(self.fd) as inside:
            for folder in sorted(folders):
                _sync_descriptor(os.fsync, inside.enter(folder))


def _pair_with_blobs(writes: Sequence[WriteFile], blobs: Iterator[Blob]) -> Iterator[tuple[WriteFile, Blob]]:
    """Pair each write with its content; read to the end of the source, which may raise only there."""
    for write in writes:
        blob = next(blobs, None)
        if blob is None:
            raise Retry("the source gave fewer contents than asked for", reason=Reason.GIT_FAILED)
        yield write, blob
    if next(blobs, None) is not None:
        raise Retry("the source gave more contents than asked for", reason=Reason.GIT_FAILED)


def _topmost_missing_folder(live: DirWalk, folder: str) -> str | None:
    """Return the topmost missing folder on a path; None if all exist, or another entry blocks the path."""
    try:
        live.enter(folder)
    except FileNotFoundError:
        return live.next_of(folder)
    except OSError:  # publishing finds the same error again and reports it
        return None
    return None


def _sync_descriptor(sync: Callable[[int], None], fd: int) -> None:
    reach_failpoint("stage.sync.before")
    sync(fd)
    reach_failpoint("stage.sync.after")
