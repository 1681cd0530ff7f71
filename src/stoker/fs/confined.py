"""A data folder, entered only through a descriptor and never through a symlink.

Every operation walks from the folder's own descriptor, one name at a time, and
refuses to pass a symlink. A path that was checked as text could be swapped for a
symlink before it is used; a descriptor cannot. Nothing outside the folder can be
reached from here, whatever lies on the volume. Errors are the system's own
(`OSError`); `why` turns one into words.
"""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from stoker.domain.errors import Misconfigured
from stoker.domain.paths import RelPath
from stoker.engine.protecting import STAGING

FOLDER_MODE = 0o755
PRIVATE_MODE = 0o700

_ENTER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# A pipe that somebody planted must not make an open wait for a writer.
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class DataFolder:
    """The root of everything that a pass may touch."""

    def __init__(self, fd: int, place: Path) -> None:
        self.fd = fd
        self.place = place

    @classmethod
    @contextmanager
    def opened(cls, place: Path) -> Iterator[DataFolder]:
        try:
            fd = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise Misconfigured(f"data folder {place} cannot be opened: {error.strerror}") from error
        try:
            yield cls(fd, place)
        finally:
            os.close(fd)

    @contextmanager
    def entered(self, folder: RelPath, *, make: int | None = None) -> Iterator[int]:
        """A descriptor of a folder; with `make`, missing folders are made with that mode."""
        fd = os.dup(self.fd)
        try:
            for part in folder.parts:
                below = _enter(fd, part, make)
                os.close(fd)
                fd = below
            yield fd
        finally:
            os.close(fd)

    @contextmanager
    def reading(self, path: RelPath) -> Iterator[int]:
        """A descriptor of a regular file, to be read."""
        with self.entered(path.parent) as folder:
            fd = open_regular(folder, path.name)
        try:
            yield fd
        finally:
            os.close(fd)

    def remove(self, path: RelPath) -> None:
        """Delete a file; whatever is not a regular file stays."""
        with self.entered(path.parent) as folder:
            _require_regular(os.stat(path.name, dir_fd=folder, follow_symlinks=False))
            os.unlink(path.name, dir_fd=folder)

    def prune(self, folder: RelPath) -> bool:
        """Remove a folder if it is empty, and say whether it went."""
        try:
            with self.entered(folder.parent) as above:
                os.rmdir(folder.name, dir_fd=above)
        except OSError:
            return False
        return True

    def set_mode(self, path: RelPath, mode: int) -> None:
        with self.reading(path) as fd:
            os.fchmod(fd, mode)

    @contextmanager
    def staging(self) -> Iterator[int]:
        """A descriptor of the staging folder, empty at first and gone in the end.

        What an earlier pass left behind when it was killed is thrown away.
        """
        self._discard(STAGING)
        with self.entered(STAGING, make=PRIVATE_MODE) as fd:
            try:
                yield fd
            finally:
                with suppress(OSError):
                    self._discard(STAGING)

    def publish(self, staging: int, name: str, folder: int, target: str) -> None:
        """Move a staged file to its place, in one step: a reader sees the old file or the new one."""
        with suppress(FileNotFoundError):
            there = os.stat(target, dir_fd=folder, follow_symlinks=False)
            if stat.S_ISDIR(there.st_mode):
                _remove_empty(folder, target)
            else:
                _require_regular(there)
        os.rename(name, target, src_dir_fd=staging, dst_dir_fd=folder)

    def flush(self, folders: set[RelPath], *, at_most: int = 64) -> None:
        """Make the names in these folders durable; above `at_most` one call for the volume is cheaper."""
        if len(folders) > at_most:
            sync_volume(self.fd)
            return
        for folder in sorted(folders):
            with suppress(FileNotFoundError, NotADirectoryError), self.entered(folder) as fd:
                os.fsync(fd)

    def _discard(self, folder: RelPath) -> None:
        with suppress(FileNotFoundError), self.entered(folder):  # which says by name what is no folder
            shutil.rmtree(folder, dir_fd=self.fd)


def _enter(above: int, name: str, make: int | None) -> int:
    try:
        return _opened(above, name)
    except FileNotFoundError:
        if make is None:
            raise
    with suppress(FileExistsError):
        os.mkdir(name, make, dir_fd=above)
    fd = _opened(above, name)
    os.fchmod(fd, make)  # whatever the umask took away
    return fd


def _opened(above: int, name: str) -> int:
    try:
        return os.open(name, _ENTER, dir_fd=above)
    except NotADirectoryError:
        kind = os.stat(name, dir_fd=above, follow_symlinks=False).st_mode
        what = "a symlink, which is never followed" if stat.S_ISLNK(kind) else "not a folder"
        raise NotADirectoryError(errno.ENOTDIR, f"{name!r} is {what}") from None


def _remove_empty(above: int, name: str) -> None:
    """Remove a folder in which there are only folders; raises at the first thing that is not one."""
    fd = os.open(name, _ENTER, dir_fd=above)
    try:
        with os.scandir(fd) as entries:
            for inside in [entry.name for entry in entries]:
                _remove_empty(fd, inside)
    finally:
        os.close(fd)
    os.rmdir(name, dir_fd=above)


def open_regular(folder: int, name: str) -> int:
    """A descriptor of a regular file in a folder; symlinks, pipes and devices are refused."""
    fd = os.open(name, _READ, dir_fd=folder)
    try:
        _require_regular(os.fstat(fd))
    except OSError:
        os.close(fd)
        raise
    return fd


def create(folder: int, name: str, mode: int = 0o600) -> int:
    """A descriptor of a new file, to be written; raises if there is anything of that name."""
    return os.open(name, _CREATE, mode, dir_fd=folder)


def sync_volume(fd: int) -> None:
    """Make everything durable that was written to the volume of `fd`."""
    syncfs = getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None)
    if syncfs is None:
        os.sync()
    elif syncfs(fd) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def why(error: OSError) -> str:
    """The reason in words."""
    if error.errno == errno.ELOOP:
        return "is a symlink on the data volume, which is never followed"
    if error.errno == errno.EXDEV:
        return "lies on another volume than the data folder"
    return f"failed: {error.strerror or error}"


def _require_regular(found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        what = "a symlink" if stat.S_ISLNK(found.st_mode) else "not a regular file"
        raise OSError(errno.EINVAL, f"what lies there is {what}")
