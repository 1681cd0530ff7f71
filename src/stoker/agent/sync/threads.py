"""Runs blocking work in a worker thread and stops it when its task is cancelled."""

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
    """Tune memory allocation and garbage collection of this process, once.

    glibc gives each thread its own heap and never returns it to the system; a single heap is enough for all
    threads. A walk creates tens of thousands of short-lived objects and no reference cycles; with the default
    threshold the cycle collector took a fifth of its time.
    """
    gc.set_threshold(max(gc.get_threshold()[0], GC_THRESHOLD))
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 1)


async def run_in_thread(work: Callable[[threading.Event], T]) -> T:
    """Return the result of `work`; on cancellation wait until it stops, because it holds file descriptors."""
    _tune_process()
    stop = threading.Event()
    return await run_in_worker(lambda: work(stop), stop.set)
