"""Maintenance windows: when a gateway may be changed. Pure; the time is an argument.

A window opens at each time that its cron expression names in its time zone, and stays
open for its duration. Where clocks are changed:

- a time that is skipped (02:30 in spring) opens the window as much later as was
  skipped, which is when it would have come without the change;
- a time that comes twice (02:30 in autumn) opens it once, the first time. Where the
  hour is `*` it means hours as they pass, and each of the two opens it.

A duration is time that passes, whatever clocks show meanwhile. Several windows are one
that is open while any of them is; none at all means that it is always open.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from typing import NamedTuple

from stoker.domain.cron import CronSchedule
from stoker.domain.errors import InvalidValue, Misconfigured, Stalled
from stoker.domain.intent.policies import MaintenanceWindowPolicy

MAX_LOOKAHEAD = timedelta(days=8)
"""How far ahead the end of an open window is looked for."""
_AROUND = timedelta(days=3)
# Samoa once left out a whole day; nobody left out more.
_LARGEST_CHANGE = timedelta(hours=26)
_NO_TIME = timedelta()


def check_window(window: MaintenanceWindowPolicy) -> None:
    """Raises, with a sentence, for a window that cannot be understood or never opens."""
    _parse_window(window)


def is_open(windows: Sequence[MaintenanceWindowPolicy], now: datetime) -> bool:
    """Whether something may be changed now."""
    return not windows or any(_window_end(window, now) > now for window in windows)


def next_edge(windows: Sequence[MaintenanceWindowPolicy], now: datetime) -> datetime | None:
    """When it opens next or, while it is open, when it closes; None: not within the foreseen time."""
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
    """When what opened last by now closes, or has closed."""
    opened = _parse_window(window).before(now)
    return opened + timedelta(seconds=window.duration) if opened is not None else now


class _WindowOpenings(NamedTuple):
    """The moments at which a window opens, in UTC."""

    cron: CronSchedule
    zone: tzinfo

    def after(self, now: datetime) -> datetime | None:
        """The first one later than `now`."""
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
                until = wall + self._margin(wall)  # a time that was skipped may come after a later one
        return found

    def before(self, now: datetime) -> datetime | None:
        """The last one that is not later than `now`."""
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
            if second > first:  # a time that is skipped has its later reading first
                yield second

    def _margin(self, wall: datetime) -> timedelta:
        """How far the order of wall clock times can be wrong: not at all, where no clock is changed."""
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
    from zoneinfo import ZoneInfo, available_timezones  # noqa: PLC0415 - few have windows

    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        if not available_timezones():
            raise Misconfigured(
                f"time zone {name!r} cannot be read: no time zones are installed here; add tzdata, or use UTC"
            ) from None
        raise InvalidValue(f"there is no time zone {name[:64]!r}") from None
