"""Cron expressions of five fields, as times of a wall clock. Pure.

    minute  hour  day of month  month  day of week

Each field is `*`, a number, a name, a range, a step or a list of these. As in cron, a day
must match both day fields if one of them begins with `*`, and either of them otherwise:
`0 2 13 * 5` is every thirteenth and every Friday. `stoker.domain.schedule.maintenance_windows`
converts these wall clock times to moments in a time zone.
"""

from __future__ import annotations

from calendar import monthrange
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from typing import NamedTuple

from stoker.domain.errors import InvalidValue

MAX_EXPRESSION_LENGTH = 128
_SEARCH_YEARS = 41
"""A 29 February that is also a given weekday occurs within this many years, also around 2100."""

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")


class _CronField(NamedTuple):
    """Name and range of one of the five fields."""

    name: str
    least: int
    most: int
    names: tuple[str, ...] = ()


_KINDS = (
    _CronField("minute", 0, 59),
    _CronField("hour", 0, 23),
    _CronField("day of month", 1, 31),
    _CronField("month", 1, 12, _MONTHS),
    _CronField("day of week", 0, 7, _DAYS),
)
_WEEK = _KINDS[4]


@dataclass(frozen=True, slots=True)
class CronSchedule:
    """A parsed cron expression."""

    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    """0 is Sunday."""
    every_hour: bool
    """The hour field begins with `*`: it means every elapsed hour, not an hour on the clock."""
    both_days: bool
    """Whether a day must match both day fields, or only one of them."""

    @classmethod
    def read(cls, text: str) -> CronSchedule:
        """Parse an expression; raise `InvalidValue` if it is malformed or names a day that never occurs."""
        fields = text.split()
        if len(fields) != len(_KINDS) or len(text) > MAX_EXPRESSION_LENGTH:
            raise InvalidValue(
                f"{text[:MAX_EXPRESSION_LENGTH]!r} is not a cron expression of five fields, as 0 2 * * 6"
            )
        minutes, hours, days, months, week = (
            _field_values(kind, field) for kind, field in zip(_KINDS, fields, strict=True)
        )
        read = cls(
            minutes=tuple(sorted(minutes)),
            hours=tuple(sorted(hours)),
            days=frozenset(days),
            months=frozenset(months),
            weekdays=frozenset(day % 7 for day in week),
            every_hour=fields[1].startswith("*"),
            both_days=fields[2].startswith("*") or fields[4].startswith("*"),
        )
        # 2000 is a leap year, so it has every possible day; over the years each falls on every weekday.
        if read.both_days and all(min(days) > monthrange(2000, month)[1] for month in months):
            raise InvalidValue(f"{text!r} names a day that never comes")
        return read

    def fits(self, day: date) -> bool:
        if day.month not in self.months:
            return False
        of_month, of_week = day.day in self.days, day.isoweekday() % 7 in self.weekdays
        return of_month and of_week if self.both_days else of_month or of_week

    def onward(self, begin: datetime) -> Iterator[datetime]:
        """Yield the times from `begin` on, ascending; wall clock times, so without a time zone."""
        day, last = begin.date(), begin.year + _SEARCH_YEARS
        while day.year <= last:
            if day.month not in self.months:
                day = (day.replace(day=1) + timedelta(days=31)).replace(day=1)
                continue
            if self.fits(day):
                yield from (moment for moment in self._on(day) if moment >= begin)
            day += timedelta(days=1)

    def backward(self, begin: datetime) -> Iterator[datetime]:
        """Yield the times up to `begin`, descending."""
        day, last = begin.date(), begin.year - _SEARCH_YEARS
        while day.year >= last:
            if day.month not in self.months:
                day = day.replace(day=1) - timedelta(days=1)
                continue
            if self.fits(day):
                yield from (moment for moment in reversed([*self._on(day)]) if moment <= begin)
            day -= timedelta(days=1)

    def _on(self, day: date) -> Iterator[datetime]:
        return (datetime.combine(day, time(hour, minute)) for hour in self.hours for minute in self.minutes)


def _field_values(kind: _CronField, field: str) -> set[int]:
    return {value for part in field.split(",") for value in _parse_part(kind, part)}


def _parse_part(kind: _CronField, part: str) -> range:
    base, slash, step = part.partition("/")
    every = _parse_number(kind, step, 1, kind.most) if slash else 1
    if base == "*":
        return range(kind.least, kind.most + 1, every)
    first, dash, last = base.partition("-")
    begin = _parse_value(kind, first)
    if not dash:
        return range(begin, (kind.most if slash else begin) + 1, every)
    end = _parse_value(kind, last)
    if kind is _WEEK and end == 0:  # Sunday as the end of a range: it is day 0 and day 7
        end = 7
    if end < begin:
        raise InvalidValue(f"{kind.name} {part!r} of a cron expression runs backwards")
    return range(begin, end + 1, every)


def _parse_value(kind: _CronField, text: str) -> int:
    if text.lower() in kind.names:
        return kind.names.index(text.lower()) + kind.least
    return _parse_number(kind, text, kind.least, kind.most)


def _parse_number(kind: _CronField, text: str, least: int, most: int) -> int:
    if text.isascii() and text.isdecimal() and len(text) <= 4 and least <= int(text) <= most:
        return int(text)
    names = f" or a name such as {kind.names[1]}" if kind.names else ""
    raise InvalidValue(
        f"{kind.name} {text[:20]!r} of a cron expression is not a number from {least} to {most}{names}"
    )
