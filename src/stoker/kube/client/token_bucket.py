"""A bound on how fast we ask, for work that may be slow but must not crowd out others.

Discovery of every kind asks at 5 a second (bursts of 10); ordinary work has no
bound of ours, the server's own fairness answers 429 and says when to come back.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from stoker.domain.clock import Clock


@dataclass(frozen=True, slots=True)
class RequestRate:
    """So many requests a second in the long run, so many at once after a pause."""

    qps: float
    burst: int

    def __post_init__(self) -> None:
        if self.qps <= 0 or self.burst < 1:
            raise ValueError(f"a rate of {self.qps} a second with bursts of {self.burst} lets nothing pass")


class TokenBucket:
    """Hands out turns in the order in which they are asked for."""

    __slots__ = ("_clock", "_next_free", "_rate")

    def __init__(self, rate: RequestRate, clock: Clock) -> None:
        self._rate = rate
        self._clock = clock
        self._next_free = -math.inf

    async def take(self) -> None:
        """Wait for a turn. The turn is booked before the wait, so waiters cannot overtake each other."""
        now = self._clock.monotonic()
        spacing = 1.0 / self._rate.qps
        # The moment at which this request would start if requests were spaced evenly; a burst
        # is the right to be early by that many spacings.
        slot = max(self._next_free, now - (self._rate.burst - 1) * spacing)
        self._next_free = slot + spacing
        if slot > now:
            await self._clock.sleep(slot - now)
