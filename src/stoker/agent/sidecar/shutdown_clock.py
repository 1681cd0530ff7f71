"""A clock that interrupts long sleeps once the process has to end.

Around a sync there are waits for a gateway that is down or has just started. No work happens during them, and
the next process repeats them. A terminating pod must not spend its last seconds on them: running work
finishes, but a long wait is cancelled as if the sync had been cut off there.
"""

from __future__ import annotations

import asyncio
from datetime import datetime

from stoker.domain.clock import Clock
from stoker.kube.client.deadlines import wait_for_first

LONGEST = 2.0


class ShutdownClock:
    """Another clock's time; `hurry` ends every long sleep by cancelling the sleeping task."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._told = asyncio.Event()

    def hurry(self) -> None:
        self._told.set()

    def now(self) -> datetime:
        return self._clock.now()

    def monotonic(self) -> float:
        return self._clock.monotonic()

    async def sleep(self, seconds: float) -> None:
        if seconds <= LONGEST:
            await self._clock.sleep(seconds)
            return
        slept = 0
        if await wait_for_first(self._clock.sleep(seconds), self._told.wait()) != slept:
            raise asyncio.CancelledError
