"""A clock whose monotonic time passes only during sleeps, and then faster than real time.

For tests of code that waits and polls beside real servers: a sleep of ten seconds takes a fraction of a
second. The duration of a request on a busy machine does not count, so deadlines are met and sums of sleeps
are exact. `stoker_testkit.manual_clock` is for code without real servers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta


class FastClock:
    """A clock for tests; `speed` is how many of its seconds pass in one real second of sleep."""

    def __init__(self, speed: float = 25.0) -> None:
        self.skipped = 0.0
        """Add seconds to it to let time pass at once."""
        self.leaps: Callable[[], bool] = lambda: False
        """Returns whether sleeping takes no real time at all."""
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
        self._elapsed = max(self._elapsed, until)  # concurrent sleeps take as long as the longest
