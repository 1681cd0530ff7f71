"""The lock that allows one sync at a time on a data folder.

It is in `.sync-state/` on the data volume itself, where every process that could write there finds it,
whatever node it runs on.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from stoker.domain.errors import Retry, Wait
from stoker.domain.failpoints import reach_failpoint
from stoker.domain.reasons import Reason
from stoker.engine.layout.protected_paths import STATE
from stoker.fs.data_folder import PRIVATE_MODE, DataFolder, open_folder, os_error_reason

RETRY_AFTER = 5.0

_LOCK = "lock"
_OPEN = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK


@contextmanager
def lock_folder(folder: DataFolder) -> Iterator[None]:
    """Hold the lock of this data folder; the kernel releases it when the process ends."""
    try:
        with state_folder(folder) as state:
            fd = os.open(_LOCK, _OPEN, 0o600, dir_fd=state)
    except OSError as error:
        raise unusable_folder_error(folder, error) from error
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Wait(
                f"another sync is at work on {folder.place}",
                after=RETRY_AFTER,
                reason=Reason.SYNC_IN_PROGRESS,
            ) from None
        yield
    finally:
        os.close(fd)


@contextmanager
def state_folder(folder: DataFolder) -> Iterator[int]:
    """Open `.sync-state/`; create it if it is missing, and make it private to this user."""
    try:
        fd = open_folder(folder.fd, STATE)
    except FileNotFoundError:
        reach_failpoint("state.mkdir.before")
        with suppress(FileExistsError):
            os.mkdir(STATE, PRIVATE_MODE, dir_fd=folder.fd)
        os.fsync(folder.fd)
        reach_failpoint("state.mkdir.after")
        fd = open_folder(folder.fd, STATE)
    try:
        if os.fstat(fd).st_mode & 0o7777 != PRIVATE_MODE:
            os.fchmod(fd, PRIVATE_MODE)
        yield fd
    finally:
        os.close(fd)


def unusable_folder_error(folder: DataFolder, error: OSError) -> Retry:
    return Retry(f"{folder.place / STATE} {os_error_reason(error)}", reason=Reason.DATA_VOLUME_FAILED)
