"""How often a source may fail before it is no longer heard, for a while.

Only failures count (C-062): a request is charged when it comes in and gets its charge
back when its sender was believed, so that a forge behind one ingress address is never
starved by its own traffic, while many slow requests at once cannot outrun the count.
Requests that bring no proof at all have a budget of their own: a flood of them, even
from the same address, uses up nothing of what those with a proof are measured by.

A second budget is shared by all sources. While it is used up, only who has more than
half of its own left is heard, which a forge has and a flood has not.

Pure but for the clock. Memory is bounded: a source that is back at a full budget is
forgotten, and of too many the longest unseen.
"""

from __future__ import annotations

import ipaddress
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from stoker.domain.clock import Clock
from stoker.domain.errors import Misconfigured

MAX_SOURCES = 10_000
UNKNOWN = "unknown"

CallerNetwork = ipaddress.IPv4Network | ipaddress.IPv6Network
CallerAddress = ipaddress.IPv4Address | ipaddress.IPv6Address


class RateLimitLane(StrEnum):
    """Which budget a request is charged to."""

    WITH_PROOF = "with-proof"
    WITHOUT_PROOF = "without-proof"


@dataclass(slots=True)
class _FailureBudget:
    left: float
    seen: float


class FailureRateLimiter:
    """Counts failures by source and lane."""

    def __init__(
        self, per_minute: int, overall_per_minute: int, clock: Clock, most_sources: int = MAX_SOURCES
    ) -> None:
        self._own = float(per_minute)
        self._shared = float(overall_per_minute)
        self._clock = clock
        self._most = most_sources
        self._sources: OrderedDict[tuple[str, RateLimitLane], _FailureBudget] = OrderedDict()
        self._overall = {lane: _FailureBudget(self._shared, clock.monotonic()) for lane in RateLimitLane}

    def admit(self, source: str, lane: RateLimitLane) -> float:
        """Charge a request and let it in (0), or say after how many seconds its source is heard again."""
        now = self._clock.monotonic()
        own = self._sources.get((source, lane)) or _FailureBudget(self._own, now)
        overall = self._overall[lane]
        _refill(own, self._own, now)
        _refill(overall, self._shared, now)
        if own.left < 1:
            return (1 - own.left) * 60 / self._own
        if overall.left < 1 and own.left <= self._own / 2:
            return (1 - overall.left) * 60 / self._shared
        own.left -= 1
        overall.left = max(0.0, overall.left - 1)
        self._keep(source, lane, own)
        return 0.0

    def believed(self, source: str, lane: RateLimitLane) -> None:
        """The request that was charged did not fail."""
        own, overall = self._sources.get((source, lane)), self._overall[lane]
        overall.left = min(self._shared, overall.left + 1)
        if own is None:
            return
        own.left = min(self._own, own.left + 1)
        if own.left >= self._own:
            del self._sources[source, lane]

    def __len__(self) -> int:
        return len(self._sources)

    def _keep(self, source: str, lane: RateLimitLane, own: _FailureBudget) -> None:
        self._sources[source, lane] = own
        self._sources.move_to_end((source, lane))
        if len(self._sources) > self._most:
            self._sources.popitem(last=False)


def _refill(budget: _FailureBudget, full: float, now: float) -> None:
    budget.left = min(full, budget.left + max(0.0, now - budget.seen) * full / 60)
    budget.seen = now


def parse_networks(texts: Sequence[str]) -> tuple[CallerNetwork, ...]:
    """The networks of proxies whose word about a caller's address is taken."""
    try:
        return tuple(ipaddress.ip_network(text) for text in texts)
    except ValueError as error:
        raise Misconfigured(f"trusted proxy: {error}") from None


def caller_address(peer: str | None, forwarded_for: str, trusted: Sequence[CallerNetwork]) -> str:
    """The address that a request is counted under.

    That of the peer; where the peer is a trusted proxy, the last address in
    X-Forwarded-For that is not one. Of IPv6 the first half, which one household has.
    """
    address = _parse_ip(peer or "")
    hops = forwarded_for.split(",")[-10:] if trusted else []
    while address is not None and hops and any(address in network for network in trusted):
        said = _parse_ip(hops.pop().strip())
        if said is None:
            break
        address = said
    if address is None:
        return UNKNOWN
    if isinstance(address, ipaddress.IPv6Address):
        return str(ipaddress.ip_network((address, 64), strict=False))
    return str(address)


def _parse_ip(text: str) -> CallerAddress | None:
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None
    return (isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped) or address
