"""Maintenance windows: when a gateway may be changed. Pure; the time is an argument.

A window opens at each time that its cron expression names in its time zone, and stays
open for its duration. At a change of daylight saving time:

- a time that is skipped (02:30 in spring) opens the window later by the skipped amount,
  at the moment it would have come without the change;
- a time that occurs twice (02:30 in autumn) opens the window once, the first time. If the
  hour is `*`, it means elapsed hours, and each of the two opens the window.

A duration is elapsed time, whatever clocks show meanwhile. Several windows are open while
any of them is open; without any window a gateway may always be changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from typing import NamedTuple

from stoker.domain.errors import InvalidValue, Misconfigured, Stalled
from stoker.domain.intent.policies import MaintenanceWindowPolicy
from stoker.domain.schedule.cron import CronSchedule

MAX_LOOKAHEAD = timedelta(days=8)
"""How far ahead the end of an open window is looked for."""
_AROUND = timedelta(days=3)
# Samoa skipped a whole day in 2011; no zone has skipped more.
_LARGEST_CHANGE = timedelta(hours=26)
_NO_TIME = timedelta()


def check_window(window: MaintenanceWindowPolicy) -> None:
    """Raise, with a message for the user, if a window is malformed or never opens."""
    _parse_window(window)


def is_open(windows: Sequence[MaintenanceWindowPolicy], now: datetime) -> bool:
    """Return whether changes are allowed now."""
    return not windows or any(_window_end(window, now) > now for window in windows)


def next_edge(windows: Sequence[MaintenanceWindowPolicy], now: datetime) -> datetime | None:
    """Return when the windows open next or, while open, when they close; None: not within `MAX_LOOKAHEAD`."""
    if not windows:
        return None
    if not is_open(windows, now):
        return min((found for window in windows if (found := _parse_window(window).after(now))), default=None)
    end = now
    while (further := max(_window_end(window, end) for window in windows)) > end:
        end = further
        if end - now > MAX_LOOKAHEAD:
            return None
    return end


def _window_end(window: MaintenanceWindowPolicy, now: datetime) -> datetime:
    """Return when the window that opened last before `now` closes, or when it closed."""
    opened = _parse_window(window).before(now)
    return opened + timedelta(seconds=window.duration) if opened is not None else now


class _WindowOpenings(NamedTuple):
    """The moments at which a window opens, in UTC."""

    cron: CronSchedule
    zone: tzinfo

    def after(self, now: datetime) -> datetime | None:
        """Return the first opening later than `now`."""
        here = _wall_clock(now, self.zone)
        found: datetime | None = None
        until: datetime | None = None
        for wall in self.cron.onward(here - self._margin(here)):
            if until is not None and wall > until:
                break
            for moment in self._moments(wall):
                if moment > now and (found is None or moment < found):
                    found = moment
            if found is not None and until is None:
                until = wall + self._margin(wall)  # a skipped time may open after a later wall clock time
        return found

    def before(self, now: datetime) -> datetime | None:
        """Return the last opening that is not later than `now`."""
        here = _wall_clock(now, self.zone)
        found: datetime | None = None
        until: datetime | None = None
        for wall in self.cron.backward(here + self._margin(here)):
            if until is not None and wall < until:
                break
            for moment in self._moments(wall):
                if moment <= now and (found is None or moment > found):
                    found = moment
            if found is not None and until is None:
                until = wall - self._margin(wall)
        return found

    def _moments(self, wall: datetime) -> Iterator[datetime]:
        first = wall.replace(tzinfo=self.zone, fold=0).astimezone(UTC)
        yield first
        if self.cron.every_hour:
            second = wall.replace(tzinfo=self.zone, fold=1).astimezone(UTC)
            if second > first:  # for a skipped time, fold=0 gives the later moment
                yield second

    def _margin(self, wall: datetime) -> timedelta:
        """Return how far wall clock times can be out of order: zero unless the offset changes nearby."""
        around = {(wall + distance).replace(tzinfo=self.zone).utcoffset() for distance in (-_AROUND, _AROUND)}
        return _NO_TIME if len(around) == 1 else _LARGEST_CHANGE


def _wall_clock(now: datetime, zone: tzinfo) -> datetime:
    return now.astimezone(zone).replace(tzinfo=None, fold=0)


@lru_cache(maxsize=256)
def _parse_window(window: MaintenanceWindowPolicy) -> _WindowOpenings:
    try:
        cron, zone = CronSchedule.read(window.cron), _time_zone(window.time_zone)
    except Stalled as error:
        raise type(error)(f"maintenanceWindows: {error.message}", reason=error.reason) from None
    if window.duration <= 0:
        raise InvalidValue(f"maintenanceWindows: a window ({window.cron}) of no duration never opens")
    return _WindowOpenings(cron, zone)


def _time_zone(name: str) -> tzinfo:
    if name in ("UTC", "Etc/UTC"):
        return UTC
    from zoneinfo import ZoneInfo, available_timezones  # noqa: PLC0415 - few installations have windows

    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        if not available_timezones():
            raise Misconfigured(
                f"time zone {name!r} cannot be read: no time zones are installed here; add tzdata, or use UTC"
            ) from None
        raise InvalidValue(f"there is no time zone {name[:64]!r}") from None
