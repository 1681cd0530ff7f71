"""What a local git prints, read in a worker thread with a limit on its silence.

Used where an answer is long and parsed as it comes. A caller that is cancelled ends
git, which ends the thread: no thread is left behind, and nobody waits for one.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import select
import subprocess
import sys
import time
from collections.abc import Callable
from typing import TypeVar

from stoker.git.errors import GitFailed

T = TypeVar("T")

SILENCE_TIMEOUT = 120.0
READ_BYTES = 1 << 17
_PIPE_BYTES = 1 << 18
# git prints in pieces of 4 KiB. Waking up for each costs more than using what is in it, so after a small one
# it is given a moment to fill the pipe.
_SMALL = 1 << 14
_MOMENT = 0.0003


class PipedOutput:
    """The answers of one process."""

    __slots__ = ("_fd", "_hasty", "_poll")

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        if process.stdout is None:
            raise ValueError("the process was started without pipes")
        self._fd = process.stdout.fileno()
        if sys.platform == "linux":
            # The switches between two processes cost more than the memory of a larger pipe.
            with contextlib.suppress(OSError):
                fcntl.fcntl(self._fd, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
        self._hasty = False
        self._poll = select.poll()
        self._poll.register(self._fd, select.POLLIN)

    def read(self) -> bytes:
        """What there is, at least a byte; nothing at the end."""
        if self._hasty:
            time.sleep(_MOMENT)
        if not self._poll.poll(SILENCE_TIMEOUT * 1000):
            raise GitFailed(f"git was silent for {SILENCE_TIMEOUT:g} s while the mirror was read")
        chunk = os.read(self._fd, READ_BYTES)
        self._hasty = len(chunk) < _SMALL
        return chunk


async def run_in_worker(work: Callable[[], T], abort: Callable[[], None]) -> T:
    """What the work returns; if the caller is cancelled, `abort` must make the work end soon."""
    running = asyncio.get_running_loop().run_in_executor(None, work)
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        abort()
        while not running.done():  # however often we are told to hurry
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait([running])
        raise
    finally:
        if running.done() and not running.cancelled():
            running.exception()  # looked at, so that nobody is told it never was
