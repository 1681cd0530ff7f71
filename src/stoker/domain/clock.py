"""Time, as an argument.

Nothing in the product reads the wall clock or sleeps by itself: it is handed a
`Clock`, so that tests move time by hand (`stoker_testkit.manual_clock`) and a clock
that jumps by a year cannot confuse a deadline, which is always monotonic.
"""

from __future__ import annotations

import asyncio
import sys
import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """What a part of the product may know about time."""

    def now(self) -> datetime:
        """The wall clock in UTC, for people to read; never for measuring."""
        ...

    def monotonic(self) -> float:
        """Seconds that only grow, also while this process is stopped; for deadlines and durations."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Let at least that many monotonic seconds pass."""
        ...


class SystemClock:
    """The machine's own time.

    On Linux the monotonic clock is the one that also counts while the machine is
    suspended (CLOCK_BOOTTIME). Python's own (CLOCK_MONOTONIC) stops meanwhile: a
    leader that is woken after a minute would believe that its Lease was renewed a
    moment ago, and a watch that its silence was short.
    """

    __slots__ = ()

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.clock_gettime(time.CLOCK_BOOTTIME) if sys.platform == "linux" else time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(max(0.0, seconds))


def rfc3339(moment: datetime) -> str:
    """The form in which the Kubernetes API writes a time: whole seconds, UTC."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def rfc3339_micro(moment: datetime) -> str:
    """The form of a Lease or an Event series: microseconds, UTC."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def parse_rfc3339(text: str) -> datetime:
    """Read either form back; whatever cannot be a moment in UTC is a ValueError."""
    try:
        return datetime.fromisoformat(text).astimezone(UTC)
    except OverflowError:  # the first and the last hours of the calendar, in a zone in which they are others
        raise ValueError(f"{text[:64]!r} is no moment in UTC") from None
