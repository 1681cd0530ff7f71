"""A folder as a snapshot storage: `.sync-state/snapshots` of the data volume, or a separate PVC.

The folder is opened through descriptors, one path component at a time, and no symlink on the path or inside
is followed. An object is written as `.part`, synced to disk and then renamed. Files have mode 0600 and
folders 0700, because a snapshot contains files that the gateway keeps private. The volume is never filled
completely: some space always stays free for the gateway.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from stoker.domain.errors import Retry, Wait
from stoker.domain.failpoints import reach_failpoint
from stoker.domain.reasons import Reason
from stoker.snapshots.ids import PART
from stoker.snapshots.storage import MAX_OBJECTS, ObjectMissing, StoredObject
from stoker.snapshots.types import storage_failed

MIN_FREE_BYTES = 32 << 20
KEEP_PART = 50
"""`MIN_FREE_BYTES` stay free for the gateway, or 1/`KEEP_PART` of a small volume."""
RETRY_AFTER = 5.0

_OPEN_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
# O_NONBLOCK: opening a planted named pipe must not block until there is a writer.
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_LOCK = ".lock"
_SPACE_CHECK_BYTES = 8 << 20


class FolderStorage:
    """The objects of one gateway as the files of one folder."""

    leftovers_rest = 0.0  # the lock excludes other writers

    def __init__(self, root: Path, below: str) -> None:
        """Set the paths; `root` must exist, the folders of `below` are created and must not be symlinks."""
        self.where = str(root / below)
        self._root = root
        self._below = below

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        with self._entered(make=True) as folder, self._told("locked"):
            fd = os.open(_LOCK, os.O_RDWR | os.O_CREAT | _READ, 0o600, dir_fd=folder)
        try:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise Wait(
                    f"another process is at work on the snapshots in {self.where}",
                    after=RETRY_AFTER,
                    reason=Reason.SYNC_IN_PROGRESS,
                ) from None
            yield
        finally:
            os.close(fd)

    def listed(self) -> list[StoredObject]:
        found: list[StoredObject] = []
        try:
            with self._entered() as folder, self._told("listed"), os.scandir(folder) as entries:
                for entry in entries:
                    there = entry.stat(follow_symlinks=False)
                    if not stat.S_ISREG(there.st_mode) or entry.name == _LOCK:
                        continue
                    found.append(StoredObject(entry.name, there.st_size, there.st_mtime))
                    if len(found) > MAX_OBJECTS:
                        raise storage_failed(f"there are more than {MAX_OBJECTS} files in {self.where}")
        except ObjectMissing:
            return []
        return found

    def put(self, name: str, chunks: Iterable[bytes]) -> None:
        part = name + PART
        with self._entered(make=True) as folder, self._told("written"):
            with suppress(FileNotFoundError):
                os.unlink(part, dir_fd=folder)
            fd = os.open(part, _CREATE, 0o600, dir_fd=folder)
            try:
                try:
                    self._write(fd, chunks)
                finally:
                    os.close(fd)
                reach_failpoint("snapshot.rename.before")
                os.rename(part, name, src_dir_fd=folder, dst_dir_fd=folder)
                reach_failpoint("snapshot.rename.after")
            except BaseException:
                with suppress(OSError):
                    os.unlink(part, dir_fd=folder)
                raise
            reach_failpoint("snapshot.flush.before")
            os.fsync(folder)
            reach_failpoint("snapshot.flush.after")

    def get(self, name: str, start: int, length: int) -> bytes:
        with self._entered() as folder, self._told("read"):
            try:
                fd = os.open(name, _READ, dir_fd=folder)
            except FileNotFoundError:
                raise ObjectMissing(name) from None
            try:
                if not stat.S_ISREG(os.fstat(fd).st_mode):
                    raise ObjectMissing(name)
                data = os.pread(fd, length, start)
                while len(data) < length and (more := os.pread(fd, length - len(data), start + len(data))):
                    data += more
                return data
            finally:
                os.close(fd)

    def delete(self, name: str) -> None:
        gone = suppress(FileNotFoundError)
        with suppress(ObjectMissing), self._entered() as folder, self._told("deleted"), gone:
            reach_failpoint("snapshot.unlink.before")
            os.unlink(name, dir_fd=folder)
            reach_failpoint("snapshot.unlink.after")

    def _write(self, fd: int, chunks: Iterable[bytes]) -> None:
        written = looked = 0
        reach_failpoint("snapshot.write.before")
        self._look_for_room(fd)
        for chunk in chunks:
            rest = memoryview(chunk)
            while rest:
                rest = rest[os.write(fd, rest) :]
            written += len(chunk)
            if written - looked >= _SPACE_CHECK_BYTES:
                looked = written
                self._look_for_room(fd)
        reach_failpoint("snapshot.write.after")
        reach_failpoint("snapshot.sync.before")
        os.fsync(fd)
        reach_failpoint("snapshot.sync.after")

    def _look_for_room(self, fd: int) -> None:
        volume = os.fstatvfs(fd)
        if volume.f_bavail * volume.f_frsize < min(
            MIN_FREE_BYTES, volume.f_blocks * volume.f_frsize // KEEP_PART
        ):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    @contextmanager
    def _entered(self, *, make: bool = False) -> Iterator[int]:
        with self._told("entered"):
            fd = os.open(self._root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            for part in self._below.split("/"):
                with self._told("entered"):
                    below = _open_folder(fd, part, make)
                os.close(fd)
                fd = below
            yield fd
        finally:
            os.close(fd)

    @contextmanager
    def _told(self, what: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise self._trouble(what, error) from error

    def _trouble(self, what: str, error: OSError) -> Retry:
        why = "it is a symlink" if error.errno == errno.ELOOP else error.strerror or str(error)
        return storage_failed(f"the snapshots in {self.where} cannot be {what}: {why}")


def _open_folder(above: int, name: str, make: bool) -> int:
    try:
        return os.open(name, _OPEN_FOLDER_FLAGS, dir_fd=above)
    except FileNotFoundError:
        if not make:
            raise ObjectMissing(name) from None
    with suppress(FileExistsError):
        os.mkdir(name, 0o700, dir_fd=above)
    os.fsync(above)
    return os.open(name, _OPEN_FOLDER_FLAGS, dir_fd=above)
