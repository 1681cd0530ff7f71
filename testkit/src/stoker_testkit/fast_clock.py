"""A clock whose time passes only while somebody sleeps, and then faster than real time.

For tests of code that waits and polls beside real servers: a sleep of ten seconds takes a fraction of
one, and how long a request takes on a busy machine does not count, so that deadlines are kept
and sums of sleeps are exact. `stoker_testkit.manual_clock` is for code without real servers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta


class FastClock:
    """`speed`: how many seconds pass in a real one."""

    def __init__(self, speed: float = 25.0) -> None:
        self.skipped = 0.0
        """Add to it to let time pass at once."""
        self.leaps: Callable[[], bool] = lambda: False
        """Whether sleeping takes no real time at all."""
        self.slept: list[float] = []
        self._speed = speed
        self._elapsed = 0.0

    def now(self) -> datetime:
        return datetime.now(UTC) + timedelta(seconds=self.skipped)

    def monotonic(self) -> float:
        return self._elapsed + self.skipped

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        if self.leaps():
            self.skipped += seconds
            await asyncio.sleep(0)
            return
        until = self._elapsed + seconds
        await asyncio.sleep(seconds / self._speed)
        self._elapsed = max(self._elapsed, until)  # sleeps side by side take the time of the longest
