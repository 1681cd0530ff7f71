"""Folders and files that only the current user can read or write.

Mirrors hold content that was fetched with a credential, and git runs the helper scripts. A folder that
another user can write, or a symlink that another user planted, would expose both. So a folder is created
with mode 0700 or must already belong to the current user.

Data that must be in a file during one call (an ssh key) gets a folder with an unguessable name, which is
removed at the end of the call. A folder that a killed process left behind is recognized by its lock, which
the kernel has released.
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
_YOUNG_SECONDS = 10.0  # a folder is created first and locked a moment later


def private_folder(path: Path) -> Path:
    """Return the folder, created if missing; raise unless it belongs to this user alone."""
    path = path.absolute()  # git starts in another working directory
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
    """Write a file atomically, so that a reader never sees half of it."""
    # The name does not use the process id: two containers that share a cache can have the same.
    beside = path.with_name(f"{path.name}.{os.urandom(8).hex()}.tmp")
    fd = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
    with os.fdopen(fd, "wb") as file:
        file.write(content)
        os.fchmod(fd, mode)
    beside.replace(path)


def install_script(path: Path, script: bytes) -> Path:
    """Install a helper script, replacing any other content."""
    if not path.is_file() or path.read_bytes() != script:
        write_private(path, script, 0o700)
    return path


def remove_tree(path: Path) -> None:
    """Remove a folder with its contents; errors are ignored."""
    import shutil  # noqa: PLC0415 - imports all archive formats, and most calls remove nothing

    shutil.rmtree(path, ignore_errors=True)


@contextmanager
def folder_for_one_call(parent: Path) -> Iterator[Path]:
    """Yield a new folder inside `parent` and remove it afterwards, also after an error."""
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
    """Remove folders of `folder_for_one_call` that killed processes left behind."""
    for folder in parent.glob(f"{_FOR_ONE_CALL}*"):
        with contextlib.suppress(OSError):  # another process removed it, or still holds it
            fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if time.time() - os.fstat(fd).st_mtime > _YOUNG_SECONDS:
                    remove_tree(folder)
            finally:
                os.close(fd)
