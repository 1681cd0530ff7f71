"""Work that would hold up the event loop, in a thread of its own, stopped when its task is cancelled."""

from __future__ import annotations

import asyncio
import ctypes
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from typing import TypeVar

T = TypeVar("T")

_M_ARENA_MAX = -8


@cache
def _share_memory() -> None:
    """glibc gives each thread a heap of its own and never takes it back; one is enough for all of them."""
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 1)


async def in_thread(work: Callable[[threading.Event], T]) -> T:
    """What the work returns; on cancellation wait for it to stop, for it holds descriptors."""
    _share_memory()
    stop = threading.Event()
    running = asyncio.get_running_loop().run_in_executor(None, work, stop)
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        stop.set()
        while not running.done():  # however often we are told to hurry
            with suppress(asyncio.CancelledError):
                await asyncio.wait([running])
        raise
    finally:
        if running.done() and not running.cancelled():
            running.exception()  # looked at, so that nobody is told it never was
