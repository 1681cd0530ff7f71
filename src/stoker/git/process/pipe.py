"""Reads the output of a local git in a worker thread, with a timeout between two pieces of output.

Used for long output that is parsed while it arrives. When the caller is cancelled, it kills git, which
ends the thread, so that no thread is left behind.
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
# git prints in pieces of 4 KiB. Waking up for each costs more than processing it, so after a small read the
# reader pauses to let git fill the pipe.
_SMALL = 1 << 14
_MOMENT = 0.0003


class PipedOutput:
    """The standard output of one process."""

    __slots__ = ("_fd", "_hasty", "_poll")

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        if process.stdout is None:
            raise ValueError("the process was started without pipes")
        self._fd = process.stdout.fileno()
        if sys.platform == "linux":
            # Context switches between the two processes cost more than the memory of a larger pipe.
            with contextlib.suppress(OSError):
                fcntl.fcntl(self._fd, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
        self._hasty = False
        self._poll = select.poll()
        self._poll.register(self._fd, select.POLLIN)

    def read(self) -> bytes:
        """Wait for output and return it; empty at the end of the output."""
        if self._hasty:
            time.sleep(_MOMENT)
        if not self._poll.poll(SILENCE_TIMEOUT * 1000):
            raise GitFailed(f"git was silent for {SILENCE_TIMEOUT:g} s while the mirror was read")
        chunk = os.read(self._fd, READ_BYTES)
        self._hasty = len(chunk) < _SMALL
        return chunk


async def run_in_worker(work: Callable[[], T], abort: Callable[[], None]) -> T:
    """Run `work` in a thread and return its result; on cancellation, `abort` must make it end soon."""
    running = asyncio.get_running_loop().run_in_executor(None, work)
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        abort()
        while not running.done():  # even if the task is cancelled again
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait([running])
        raise
    finally:
        if running.done() and not running.cancelled():
            running.exception()  # retrieve it, or asyncio logs "exception was never retrieved"
