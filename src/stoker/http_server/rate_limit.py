"""Limits how often a source may fail before its requests are refused for a while.

Only failures count: a request is charged on arrival and refunded once its sender is authenticated. A Git
server behind one ingress address is therefore never blocked by its own traffic, and many slow requests at
once cannot bypass the count. Requests without credentials have a budget of their own: a flood of them,
even from the same address, does not use up the budget of requests with credentials.

A second budget is shared by all sources. While it is used up, only a source with more than half of its
own budget left is served: that is true of a Git server and not of a flood.

Pure except for the clock. Memory is limited: a source with a full budget is forgotten, and above the
limit the source that was unseen for the longest time.
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
    """The budget that a request is charged to."""

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
        """Charge a request and return 0 to admit it, or return the seconds until the source may retry."""
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
        """Refund a charged request, because its sender was authenticated."""
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
    """Parse the networks of the proxies whose X-Forwarded-For is trusted."""
    try:
        return tuple(ipaddress.ip_network(text) for text in texts)
    except ValueError as error:
        raise Misconfigured(f"trusted proxy: {error}") from None


def caller_address(peer: str | None, forwarded_for: str, trusted: Sequence[CallerNetwork]) -> str:
    """Return the address that a request is counted under.

    That is the peer's address; behind a trusted proxy, it is the last address in X-Forwarded-For that is
    not a trusted proxy. IPv6 addresses are reduced to their /64, which usually is one customer's network.
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
