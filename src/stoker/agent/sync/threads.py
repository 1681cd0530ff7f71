"""Work that would hold up the event loop, in a thread of its own, stopped when its task is cancelled."""

from __future__ import annotations

import ctypes
import gc
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from typing import TypeVar

from stoker.git.process.pipe import run_in_worker

T = TypeVar("T")

GC_THRESHOLD = 50_000
_M_ARENA_MAX = -8


@cache
def _tune_process() -> None:
    """The process as it suits this work, once.

    glibc gives each thread a heap of its own and never takes it back; one is enough for
    all of them. A walk makes short-lived objects by the ten thousand and no cycles; looking
    for those after every few hundred cost a fifth of its time.
    """
    gc.set_threshold(max(gc.get_threshold()[0], GC_THRESHOLD))
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 1)


async def run_in_thread(work: Callable[[threading.Event], T]) -> T:
    """What the work returns; on cancellation wait for it to stop, for it holds descriptors."""
    _tune_process()
    stop = threading.Event()
    return await run_in_worker(lambda: work(stop), stop.set)
