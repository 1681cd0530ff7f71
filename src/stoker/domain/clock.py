"""Time as an argument.

No other module of the product reads the wall clock or sleeps by itself. Each receives a
`Clock`, so that tests control time (`stoker_testkit.manual_clock`). Deadlines are always
monotonic: a wall clock that jumps by a year must not move a deadline.
"""

from __future__ import annotations

import asyncio
import sys
import time
from datetime import UTC, datetime
from typing import Protocol, TypeVar

T = TypeVar("T")

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LONG_AGO = datetime.min.replace(tzinfo=UTC)


class Clock(Protocol):
    """Wall clock, monotonic clock and sleep, as the rest of the product uses them."""

    def now(self) -> datetime:
        """Return the wall clock in UTC, for people to read; never for measuring."""
        ...

    def monotonic(self) -> float:
        """Return seconds that only grow, also while this process is stopped; for deadlines and durations."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Return after at least that many monotonic seconds."""
        ...


class SystemClock:
    """The clock of this machine.

    On Linux the monotonic clock is CLOCK_BOOTTIME, which also counts while the machine is
    suspended. Python's own monotonic clock (CLOCK_MONOTONIC) stops during a suspend: a
    leader that resumes after a minute would treat its Lease as just renewed, and a watch
    would treat a long silence as a short one.
    """

    __slots__ = ()

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.clock_gettime(time.CLOCK_BOOTTIME) if sys.platform == "linux" else time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(max(0.0, seconds))


def rfc3339(moment: datetime) -> str:
    """Format a time as the Kubernetes API does: whole seconds, UTC."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def rfc3339_micro(moment: datetime) -> str:
    """Format a time as in a Lease or an Event series: microseconds, UTC."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def parse_rfc3339(text: str) -> datetime:
    """Parse either form; raise ValueError for text that is no time, or a time without a zone."""
    moment = datetime.fromisoformat(text)
    if (
        moment.tzinfo is None
    ):  # RFC 3339 has no times without a zone; Python would assume that of this machine
        raise ValueError(f"{text[:64]!r} has no zone")
    try:
        return moment.astimezone(UTC)
    except OverflowError:  # 0001-01-01 or 9999-12-31 in a zone where UTC is a day outside of the calendar
        raise ValueError(f"{text[:64]!r} is no moment in UTC") from None


def rfc3339_or(text: str | None, default: T) -> datetime | T:
    """Parse either form; return `default` for a text that is missing or no time."""
    try:
        return parse_rfc3339(text or "")
    except ValueError:
        return default
