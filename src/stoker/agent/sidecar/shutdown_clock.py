"""A clock that lets nobody sleep long once the process was told to end.

Around a pass there are waits for a gateway that is down, or has just come up; nothing
is being done meanwhile, and all of it is made up for by the next process. A pod that
goes away must not spend its last seconds on them: the work that runs is finished, a long
wait is broken off, as if the pass had been cut off there.
"""

from __future__ import annotations

import asyncio
from datetime import datetime

from stoker.domain.clock import Clock

LONGEST = 2.0


class ShutdownClock:
    """The time of another clock; `hurry` ends every long sleep, and with it the task that sleeps."""

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
        sleeping = asyncio.ensure_future(self._clock.sleep(seconds))
        told = asyncio.ensure_future(self._told.wait())
        try:
            await asyncio.wait((sleeping, told), return_when=asyncio.FIRST_COMPLETED)
            if not sleeping.done():
                raise asyncio.CancelledError
        finally:
            for task in (sleeping, told):
                task.cancel()
            await asyncio.gather(sleeping, told, return_exceptions=True)
