"""The claim of the one process that keeps a data folder at a ref.

A process that follows a ref holds it as long as it runs, a single sync for its own duration.
`stoker.fs.lock` covers each sync: a rollback takes only that lock, and so works beside a process that holds
the claim. The kernel ends the claim with the process, so no claim outlives a kill. The file names the
holder, for the error message of a process that is refused.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

from stoker.domain.clock import Clock, SystemClock, rfc3339
from stoker.domain.errors import Wait
from stoker.domain.reasons import Reason
from stoker.fs.data_folder import DataFolder
from stoker.fs.lock import RETRY_AFTER, state_folder, unusable_folder_error

_NAME = "writer"
_OPEN = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_MAX_HOLDER_BYTES = 4096


class WriterClaim:
    """The claim, held from `taken` until `release`, or until the process ends."""

    def __init__(self, fd: int, command: str, clock: Clock) -> None:
        self._fd = fd
        self._command = command
        self._since = rfc3339(clock.now())
        self._ref = ""

    @classmethod
    def taken(cls, data_dir: Path, command: str, ref: str, clock: Clock | None = None) -> Self:
        """Take the claim; raise `Wait`, naming the other process, if another one holds it."""
        with DataFolder.opened(data_dir) as folder:
            try:
                fd = _lock_writer(folder)
            except OSError as error:
                raise unusable_folder_error(folder, error) from error
        claim = cls(fd, command, clock if clock is not None else SystemClock())
        claim.follow(ref)
        return claim

    def follow(self, ref: str) -> None:
        """Record which ref the holder follows from now on."""
        if ref == self._ref:
            return
        self._ref = ref
        holder = {
            "command": self._command,
            "ref": ref,
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "since": self._since,
        }
        os.ftruncate(self._fd, 0)
        os.pwrite(self._fd, json.dumps(holder).encode()[:_MAX_HOLDER_BYTES], 0)

    def release(self) -> None:
        """Release the claim; the file stays, and has no meaning without a lock on it."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


def _lock_writer(folder: DataFolder) -> int:
    with state_folder(folder) as state:
        fd = os.open(_NAME, _OPEN, 0o600, dir_fd=state)
    with _close_on_error(fd):
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Wait(
                f"data folder {folder.place} is kept by another process: {_read_holder(fd)}; "
                "one process at a time writes there: stop that one, or have it follow another ref",
                after=RETRY_AFTER,
                reason=Reason.SYNC_IN_PROGRESS,
            ) from None
    return fd


def _read_holder(fd: int) -> str:
    """Describe the holder; its process may be writing the file at this moment."""
    try:
        said = json.loads(os.pread(fd, _MAX_HOLDER_BYTES, 0))
        return "{command} of ref {ref}, process {pid} on host {host}, since {since}".format(**said)
    except (ValueError, KeyError, TypeError, IndexError):
        return "its name cannot be read"


@contextmanager
def _close_on_error(fd: int) -> Iterator[None]:
    try:
        yield
    except BaseException:
        os.close(fd)
        raise
