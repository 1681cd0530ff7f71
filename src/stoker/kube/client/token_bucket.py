"""A client-side rate limit, for work that may be slow but must not displace other requests.

Discovery of every kind is limited to 5 requests a second (bursts of 10). Ordinary work has no client-side
limit: the server's own priority and fairness answers 429 and names the delay.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from stoker.domain.clock import Clock


@dataclass(frozen=True, slots=True)
class RequestRate:
    """The average number of requests per second, and the burst after a pause."""

    qps: float
    burst: int

    def __post_init__(self) -> None:
        if self.qps <= 0 or self.burst < 1:
            raise ValueError(f"a rate of {self.qps} a second with bursts of {self.burst} lets nothing pass")


class TokenBucket:
    """Grants requests in the order of the calls."""

    __slots__ = ("_clock", "_next_free", "_rate")

    def __init__(self, rate: RequestRate, clock: Clock) -> None:
        self._rate = rate
        self._clock = clock
        self._next_free = -math.inf

    async def take(self) -> None:
        """Wait until a request is allowed.

        The slot is reserved before waiting, so waiters keep their order.
        """
        now = self._clock.monotonic()
        spacing = 1.0 / self._rate.qps
        # When this request would start if requests were spaced evenly; a burst allows it to be early by that
        # many
        # spacings.
        slot = max(self._next_free, now - (self._rate.burst - 1) * spacing)
        self._next_free = slot + spacing
        if slot > now:
            await self._clock.sleep(slot - now)
