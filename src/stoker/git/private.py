"""Folders and files that only this user may enter.

Mirrors hold what a credential opened, and the askpass helper is run by git: a
folder that somebody else can write, or a symlink that they planted, would hand
them both. So a folder is created with mode 0700 or must already be ours.
"""

from __future__ import annotations

import os
import secrets
import stat
from pathlib import Path

from stoker.domain.errors import Misconfigured


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
    beside = path.with_name(f"{path.name}.{secrets.token_hex(8)}.tmp")
    fd = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
    with os.fdopen(fd, "wb") as file:
        file.write(content)
        os.fchmod(fd, mode)
    beside.replace(path)
