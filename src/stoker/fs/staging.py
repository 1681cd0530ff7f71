"""Contents on the data volume before anybody can see them.

Everything that a plan writes is put into `.sync-staging/` first, checked against its
id, given its mode and owner, and made durable; nothing live is touched here, so a
missing blob or a full disk costs nothing. A file of a folder that is already there
lies in staging under a number, to be renamed by itself. A folder that is not there
yet is built whole, with all that the plan puts below it: one rename publishes it,
and since that does not touch the files in it, their stamps are known already.
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

# Up to this many files each is made durable by itself; beyond, one call for the volume is far cheaper.
SYNC_EACH = 64
HELD_BACK_MESSAGE = "is held back: a file of the same resource failed"

BlobReader = Callable[[Sequence[BlobId]], Iterator[Blob]]
StagingProgress = Callable[[str, int, int], None]

# With these the disk itself is at its end, and no other file would fare better.
_FATAL = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS)


@contextmanager
def staging(folder: DataFolder) -> Iterator[int]:
    """A descriptor of the staging folder, empty at first and gone in the end."""
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
    """Throw away what a pass left behind, by its end or by its death."""
    try:
        os.close(open_folder(folder.fd, STAGING))  # which says by name what is no folder
    except FileNotFoundError:
        return
    reach_failpoint("staging.clear.before")
    try:
        os.rmdir(STAGING, dir_fd=folder.fd)  # a pass that succeeded has moved everything out
    except OSError:
        import shutil  # noqa: PLC0415 - brings all kinds of archives with it, for the few that failed

        shutil.rmtree(STAGING, dir_fd=folder.fd)
    reach_failpoint("staging.clear.after")


class StagedTree(NamedTuple):
    """A folder that does not exist yet: its name in staging, and the paths of all files in it."""

    name: str
    paths: list[str]


class StagingArea:
    """What has been staged, and where it is to go."""

    def __init__(self, folder: DataFolder, fd: int, rules: FileRules) -> None:
        self.fd = fd
        self.records: dict[str, bytes] = {}
        """By path, for each file that is staged: what the ledger will say of it."""
        self.errors: dict[str, str] = {}
        self.single: dict[str, str] = {}
        """The names in staging of the files that are renamed one by one."""
        self.trees: dict[str, StagedTree] = {}
        """By the path of the topmost folder that does not exist yet."""
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
        """Stage all of it, folder by folder; raises when nothing live may be touched."""
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
        """Where a file lies, below staging."""
        if path in self.single:
            return self.single[path]
        top = self._top(path)
        return self.trees[top].name + path[len(top) :]

    def _top(self, path: str) -> str:
        """The folder of `trees` in which a file lies; empty if it lies in none."""
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
        for _ in blob.chunks:  # the next blob can be had only after all of this one
            pass

    def _hold_back(self) -> None:
        """A `resource.json` beside a file that is missing would declare the resource complete."""
        with DirWalk(self.fd) as inside:
            for path in list(self.errors):
                manifest = f"{path.rpartition('/')[0]}/{RESOURCE_MANIFEST}"
                if manifest in self.records:
                    self.errors[manifest] = HELD_BACK_MESSAGE
                    del self.records[manifest]
                    self._remove(inside, manifest)

    def _remove(self, inside: DirWalk, path: str) -> None:
        """Nothing half-done may lie in a folder that is published whole."""
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
    """Each write with its content; the reader is asked to its end, where it may object to all of it."""
    for write in writes:
        blob = next(blobs, None)
        if blob is None:
            raise Retry("the source gave fewer contents than asked for", reason=Reason.GIT_FAILED)
        yield write, blob
    if next(blobs, None) is not None:
        raise Retry("the source gave more contents than asked for", reason=Reason.GIT_FAILED)


def _topmost_missing_folder(live: DirWalk, folder: str) -> str | None:
    """The topmost folder on the way that is not there; None if there is none, or something is in the way."""
    try:
        live.enter(folder)
    except FileNotFoundError:
        return live.next_of(folder)
    except OSError:  # whoever comes to publish there finds it again, and says so
        return None
    return None


def _sync_descriptor(sync: Callable[[int], None], fd: int) -> None:
    reach_failpoint("stage.sync.before")
    sync(fd)
    reach_failpoint("stage.sync.after")
