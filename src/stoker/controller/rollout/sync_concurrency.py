"""Limits how many gateways sync at once, and how many begin in a minute. Pure.

Without `rateLimit` there is no limit. With it, `maxConcurrentSyncs` defaults to half of the gateways, at
least one. `maxSyncsPerMinute` counts over every 60 seconds. `burstLimit` is how many may begin at once after
an idle time; it is a token bucket that refills at the rate per minute. The first gateway in the queue begins
first.

The status records when gateways began, in whole seconds. Old times are dropped only when new times are
written, so that time alone causes no status write.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from stoker.domain.clock import parse_rfc3339
from stoker.domain.intent.delivery import RateLimitPolicy

MINUTE = 60.0
RATE_WINDOW = timedelta(seconds=MINUTE + 1)
"""A second more, because recorded times are cut to whole seconds."""
QUEUE_GROWTH_SECONDS = 60.0
"""Seconds after which a queue that does not become shorter is reported."""
NO_RATE_LIMIT = 1000
MIN_WAIT_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class SyncCapacity:
    """How many gateways may begin now, and the seconds until there is room if only time is missing."""

    places: int
    again_in: float | None = None


def max_concurrent_syncs(limit: RateLimitPolicy, gateways: int) -> int:
    return limit.max_concurrent if limit.max_concurrent is not None else max(1, gateways // 2)


def recent_starts(begun: Sequence[str], now: datetime) -> list[datetime]:
    """The recent start times, oldest first; a time in the future counts as now."""
    times = sorted(min(parse_rfc3339(one), now) for one in begun)
    return [one for one in times if now - one < RATE_WINDOW]


def rate_limit_room(limit: RateLimitPolicy, begun: Sequence[datetime], now: datetime) -> SyncCapacity:
    """How many gateways may begin by the rate per minute and the burst limit."""
    per_minute = limit.per_minute if limit.per_minute is not None else limit.burst
    if per_minute is None:
        return SyncCapacity(NO_RATE_LIMIT)
    by_minute = per_minute - len(begun)
    if by_minute <= 0:
        oldest = begun[-per_minute] if per_minute else now
        return SyncCapacity(0, _seconds(oldest + RATE_WINDOW - now))
    if limit.burst is None:
        return SyncCapacity(by_minute)
    tokens, wait = _bucket_tokens(limit.burst, per_minute, begun, now)
    return SyncCapacity(min(by_minute, tokens), wait if tokens <= 0 else None)


def _bucket_tokens(
    burst: int, per_minute: int, begun: Sequence[datetime], now: datetime
) -> tuple[int, float]:
    """Compute the level of a token bucket of size `burst` from the recorded start times."""
    each = MINUTE / per_minute
    level, last = float(burst), begun[0] if begun else now
    for moment in begun:
        level = max(0.0, _refill_bucket(level, burst, (moment - last).total_seconds() / each) - 1.0)
        last = moment
    level = _refill_bucket(level, burst, (now - last).total_seconds() / each)
    whole = int(level + 1e-9)
    return whole, max(0.1, (1.0 - (level - whole)) * each)


def _refill_bucket(level: float, burst: int, more: float) -> float:
    return min(float(burst), level + more)


def _seconds(span: timedelta) -> float:
    return max(0.1, span.total_seconds())
