"""A clock that a test advances by hand.

`ManualClock` replaces `stoker.domain.clock.SystemClock`: no time passes until `advance`, which wakes sleepers
one after the other, each at its own time. So a loop with a pause of a minute runs ten times in
`advance(600)`. The wall clock can jump without the monotonic clock, as on a machine whose time was set.
"""

from __future__ import annotations

import asyncio
import bisect
import itertools
from datetime import UTC, datetime, timedelta

from stoker_testkit.wait_until import eventually_async

START = datetime(2026, 1, 1, tzinfo=UTC)

SETTLE_TURNS = 50
"""Iterations of the event loop that a woken task gets before time moves on.

Enough for code that computes and queues between two sleeps. It is not enough for code that waits for a real
socket there: advance in steps, and wait with `sleeping` until it sleeps again.
"""


class ManualClock:
    """A `Clock` for one event loop; its time changes only by `advance` and `jump`."""

    def __init__(self, start: datetime = START) -> None:
        self._now = start
        self._monotonic = 0.0
        self._order = itertools.count()
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []

    def now(self) -> datetime:
        return self._now

    def monotonic(self) -> float:
        return self._monotonic

    async def sleep(self, seconds: float) -> None:
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        sleeper = (self._monotonic + seconds, next(self._order), woken)
        bisect.insort(self._sleepers, sleeper)
        try:
            await woken
        finally:
            if sleeper in self._sleepers:  # cancelled while asleep
                self._sleepers.remove(sleeper)

    @property
    def alarms(self) -> tuple[float, ...]:
        """The monotonic times at which the current sleepers wake, soonest first."""
        return tuple(moment for moment, _, _ in self._sleepers)

    async def advance(self, seconds: float) -> None:
        """Let time pass; sleepers wake in order, and may sleep again before time moves on."""
        await self._settle()
        end = self._monotonic + seconds
        while self._sleepers and self._sleepers[0][0] <= end:
            moment, _, woken = self._sleepers.pop(0)
            self._move_to(moment)
            if not woken.done():
                woken.set_result(None)
            await self._settle()
        self._move_to(end)

    def jump(self, seconds: float) -> None:
        """Set the wall clock forward or back; sleeps are not affected."""
        self._now += timedelta(seconds=seconds)

    async def sleeping(self, count: int = 1, timeout: float = 10.0) -> None:
        """Wait, in real time, until at least `count` tasks are asleep."""
        await eventually_async(
            lambda: len(self._sleepers) >= count,
            timeout,
            lambda: f"{count} sleepers on the clock, where there are {len(self._sleepers)}",
        )

    def _move_to(self, moment: float) -> None:
        self._now += timedelta(seconds=moment - self._monotonic)
        self._monotonic = moment

    async def _settle(self) -> None:
        for _ in range(SETTLE_TURNS):
            await asyncio.sleep(0)
