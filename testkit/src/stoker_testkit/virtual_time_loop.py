"""An event loop that does not wait: when nobody has anything to do, its time jumps to the next alarm.

Code that sleeps, times out and renews for minutes runs in milliseconds, with its
real order of events, and twice the same. For code that waits for timers and for
its own tasks only; a real socket would be found silent for ever.

`ManualClock` is for one loop that a test moves by hand; this is for several that
run against each other.
"""

from __future__ import annotations

import asyncio
import functools
import selectors
from collections.abc import Callable, Coroutine
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class _Hasty(selectors.DefaultSelector):
    """Instead of waiting it lets the loop's time pass."""

    passed = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise RuntimeError("every task waits, and no alarm is set: this would last for ever")
        self.passed += max(0.0, timeout)
        return super().select(0)


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """Begins at 0; `time()` is the sum of all that it did not wait for."""

    def __init__(self) -> None:
        self._hasty = _Hasty()
        super().__init__(self._hasty)

    def time(self) -> float:
        return self._hasty.passed


async def pass_time(seconds: float) -> None:
    """Let so much of the loop's time go by; on a loop that would really wait it is a mistake."""
    if not isinstance(asyncio.get_running_loop(), VirtualTimeLoop):
        raise RuntimeError("time passes at once only on a VirtualTimeLoop")
    await asyncio.sleep(seconds)


def run(main: Coroutine[object, object, T]) -> T:
    """Run it to its end on a loop of its own."""
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(main)


def in_virtual_time(test: Callable[P, Coroutine[object, object, T]]) -> Callable[P, T]:
    """Make a coroutine function one that runs so."""

    @functools.wraps(test)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> T:
        return run(test(*args, **kwargs))

    return wrapped
