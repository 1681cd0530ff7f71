"""A data folder that is accessed only through descriptors and never through a symlink.

Every operation starts at the folder's own descriptor, opens one name at a time, and refuses a symlink. A
path that was checked as text could be replaced by a symlink before it is used; a descriptor cannot. So
nothing outside the folder can be reached, whatever is on the volume. Errors are `OSError`;
`os_error_reason` words them.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from stoker.domain.errors import Misconfigured
from stoker.domain.failpoints import reach_failpoint

PRIVATE_MODE = 0o700
_NEW = ".new"

OPEN_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
# O_NONBLOCK: opening a planted pipe must not block until it has a writer.
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK


class DataFolder:
    """The root of everything that a sync may touch."""

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
    def entered(self, folder: str) -> Iterator[int]:
        """Open a descriptor of one folder; for many folders use a `DirWalk`."""
        fd = os.dup(self.fd)
        try:
            for part in folder.split("/") if folder else ():
                below = open_folder(fd, part)
                os.close(fd)
                fd = below
            yield fd
        finally:
            os.close(fd)

    @contextmanager
    def reading(self, path: str) -> Iterator[int]:
        """Open a regular file for reading."""
        above, _, name = path.rpartition("/")
        with self.entered(above) as folder:
            fd = open_regular(folder, name)
        try:
            yield fd
        finally:
            os.close(fd)


def open_folder(above: int, name: str) -> int:
    """Open a folder in a folder; the error for any other entry names its type."""
    try:
        return os.open(name, OPEN_FOLDER_FLAGS, dir_fd=above)
    except NotADirectoryError:
        kind = os.stat(name, dir_fd=above, follow_symlinks=False).st_mode
        what = "a symlink, which is never followed" if stat.S_ISLNK(kind) else "not a folder"
        raise NotADirectoryError(errno.ENOTDIR, f"{name!r} is {what}") from None


def open_regular(folder: int, name: str, flags: int = _READ) -> int:
    """Open a regular file in a folder; symlinks, pipes and devices are refused."""
    fd = os.open(name, flags | _READ, 0o600, dir_fd=folder)
    try:
        require_regular(os.fstat(fd))
    except OSError:
        os.close(fd)
        raise
    return fd


def publish_file(source: int, name: str, folder: int, target: str) -> None:
    """Rename a staged file to its destination, atomically: a reader sees the old file or the new one."""
    with suppress(FileNotFoundError):
        there = os.stat(target, dir_fd=folder, follow_symlinks=False)
        if stat.S_ISDIR(there.st_mode):
            _remove_folder_tree(folder, target)
        else:
            require_regular(there)
    reach_failpoint("rename.before")
    os.rename(name, target, src_dir_fd=source, dst_dir_fd=folder)
    reach_failpoint("rename.after")


def remove_file(folder: int, name: str) -> None:
    """Delete a regular file and refuse anything else; a file that is already gone is not an error."""
    with suppress(FileNotFoundError):
        require_regular(os.stat(name, dir_fd=folder, follow_symlinks=False))
        reach_failpoint("unlink.before")
        os.unlink(name, dir_fd=folder)
        reach_failpoint("unlink.after")


def set_mode(folder: int, name: str, mode: int) -> None:
    fd = open_regular(folder, name)
    try:
        reach_failpoint("chmod.before")
        os.fchmod(fd, mode)
        reach_failpoint("chmod.after")
    finally:
        os.close(fd)


def remove_empty_folder(folder: int, name: str) -> bool:
    """Remove a folder if it is empty; return whether it is gone."""
    try:
        reach_failpoint("rmdir.before")
        os.rmdir(name, dir_fd=folder)
        reach_failpoint("rmdir.after")
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def _remove_folder_tree(above: int, name: str) -> None:
    """Remove a folder that contains only folders; raise at the first entry that is not one."""
    fd = os.open(name, OPEN_FOLDER_FLAGS, dir_fd=above)
    try:
        with os.scandir(fd) as entries:
            for inside in [entry.name for entry in entries]:
                _remove_folder_tree(fd, inside)
    finally:
        os.close(fd)
    os.rmdir(name, dir_fd=above)


def sync_volume(fd: int) -> None:
    """Make everything durable that was written to the volume of `fd`."""
    import ctypes  # noqa: PLC0415 - needed only by a sync that writes

    syncfs = getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None)
    if syncfs is None:
        os.sync()
    elif syncfs(fd) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def write_all(fd: int, content: bytes) -> None:
    """Write everything, because one `os.write` may write only a part."""
    written = os.write(fd, content)
    if written < len(content):
        rest = memoryview(content)[written:]
        while rest:
            rest = rest[os.write(fd, rest) :]


def replace_file(folder: int, name: str, content: bytes, *, durable: bool) -> None:
    """Write a file of an open folder atomically: a reader sees the old content or the new, never a part."""
    with suppress(FileNotFoundError):
        os.unlink(_NEW, dir_fd=folder)
    fd = os.open(_NEW, CREATE, 0o600, dir_fd=folder)
    try:
        write_all(fd, content)
        if durable:
            os.fsync(fd)
    finally:
        os.close(fd)
    os.rename(_NEW, name, src_dir_fd=folder, dst_dir_fd=folder)
    if durable:
        os.fsync(folder)


def os_error_reason(error: OSError) -> str:
    """Return the reason of an error as text."""
    if error.errno == errno.ELOOP:
        return "is a symlink on the data volume, which is never followed"
    if error.errno == errno.EXDEV:
        return "is on another volume than the data folder"
    return f"failed: {error.strerror or error}"


def require_regular(found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        what = "a symlink" if stat.S_ISLNK(found.st_mode) else "not a regular file"
        raise OSError(errno.EINVAL, f"what is there is {what}")
