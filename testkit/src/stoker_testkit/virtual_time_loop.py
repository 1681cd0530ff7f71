"""An event loop that never waits: when no task can run, its time jumps to the next timer.

Code that sleeps, times out and renews for minutes runs in milliseconds, with its real order of events, and
with the same result each time. It is only for code that waits for timers and for its own tasks; the loop
would never wait for a real socket.

`ManualClock` is for one loop that a test advances by hand; this is for several loops that run against
each other.
"""

from __future__ import annotations

import asyncio
import functools
import selectors
from collections.abc import Callable, Coroutine
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class _VirtualTimeSelector(selectors.DefaultSelector):
    """A selector that advances the loop's time instead of waiting."""

    passed = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise RuntimeError("every task waits, and no alarm is set: this would last for ever")
        self.passed += max(0.0, timeout)
        return super().select(0)


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """Starts at time 0; `time()` is the sum of all waits that it skipped."""

    def __init__(self) -> None:
        self._hasty = _VirtualTimeSelector()
        super().__init__(self._hasty)

    def time(self) -> float:
        return self._hasty.passed


async def pass_time(seconds: float) -> None:
    """Let this much of the loop's time pass; raises on a loop that would really wait."""
    if not isinstance(asyncio.get_running_loop(), VirtualTimeLoop):
        raise RuntimeError("time passes at once only on a VirtualTimeLoop")
    await asyncio.sleep(seconds)


def run(main: Coroutine[object, object, T]) -> T:
    """Run a coroutine to its end on a new virtual-time loop."""
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(main)


def in_virtual_time(test: Callable[P, Coroutine[object, object, T]]) -> Callable[P, T]:
    """Decorate a coroutine function so that it runs on a virtual-time loop."""

    @functools.wraps(test)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> T:
        return run(test(*args, **kwargs))

    return wrapped
