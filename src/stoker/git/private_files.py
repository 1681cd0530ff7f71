"""Folders and files that only this user may enter.

Mirrors hold what a credential opened, and the helper scripts are run by git: a
folder that somebody else can write, or a symlink that they planted, would hand
them both. So a folder is created with mode 0700 or must already be ours.

What must lie in a file for the time of one call (an ssh key) gets a folder with a
name that nobody can guess, which goes away with the call. One that a killed
process left behind is known by its lock, which the kernel has let go of.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from stoker.domain.errors import Misconfigured

_FOR_ONE_CALL = "call-"
_YOUNG_SECONDS = 10.0  # a folder is locked a moment after it is made


def private_folder(path: Path) -> Path:
    """The folder, made if missing, for this user alone; raises if it is or could be somebody else's."""
    path = path.absolute()  # git is started elsewhere
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = path.lstat()
        if not stat.S_ISDIR(found.st_mode):
            raise Misconfigured(f"{path} is not a folder of its own; choose another cache folder")
        if found.st_uid != os.geteuid():
            raise Misconfigured(f"folder {path} belongs to user {found.st_uid}; choose another cache folder")
        if stat.S_IMODE(found.st_mode) != 0o700:
            path.chmod(0o700)
    except OSError as error:
        raise Misconfigured(f"folder {path} cannot be used: {error.strerror}") from error
    return path


def write_private(path: Path, content: bytes, mode: int) -> None:
    """Put a file there as a whole, so that a process which is about to read it never sees half of it."""
    # Not named after the process: two containers that share a cache have the same process id.
    beside = path.with_name(f"{path.name}.{os.urandom(8).hex()}.tmp")
    fd = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
    with os.fdopen(fd, "wb") as file:
        file.write(content)
        os.fchmod(fd, mode)
    beside.replace(path)


def install_script(path: Path, script: bytes) -> Path:
    """A program of ours at that place, whatever was there."""
    if not path.is_file() or path.read_bytes() != script:
        write_private(path, script, 0o700)
    return path


def remove_tree(path: Path) -> None:
    """Take away a folder and all in it, as far as that can be done."""
    import shutil  # noqa: PLC0415 - brings all kinds of archives with it, and most calls remove nothing

    shutil.rmtree(path, ignore_errors=True)


@contextmanager
def folder_for_one_call(parent: Path) -> Iterator[Path]:
    """A new folder inside `parent`, removed at the end, however the end comes about."""
    folder = parent / f"{_FOR_ONE_CALL}{os.urandom(16).hex()}"
    folder.mkdir(mode=0o700)
    held = -1
    try:
        held = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        fcntl.flock(held, fcntl.LOCK_SH)
        yield folder
    finally:
        remove_tree(folder)
        if held >= 0:
            os.close(held)


def remove_leftovers(parent: Path) -> None:
    """Remove such folders of processes that were killed."""
    for folder in parent.glob(f"{_FOR_ONE_CALL}*"):
        with contextlib.suppress(OSError):  # it went away meanwhile, or is still held
            fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if time.time() - os.fstat(fd).st_mtime > _YOUNG_SECONDS:
                    remove_tree(folder)
            finally:
                os.close(fd)
