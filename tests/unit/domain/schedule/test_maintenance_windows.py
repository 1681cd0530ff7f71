"""Maintenance windows: what a cron expression means, and what clocks that are changed do to it."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker.domain.errors import InvalidValue
from stoker.domain.intent.policies import MaintenanceWindowPolicy
from stoker.domain.schedule.maintenance_windows import check_window, is_open, next_edge

HOUR, MINUTE = 3600.0, 60.0
BERLIN = "Europe/Berlin"


def at(text: str, zone: str = "UTC") -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).astimezone(UTC)


def opening(cron: str, after: str, zone: str = "UTC", *, duration: float = MINUTE) -> str:
    """When the next window opens, in UTC."""
    edge = next_edge([MaintenanceWindowPolicy(cron, duration, zone)], at(after))
    assert edge is not None
    return edge.strftime("%Y-%m-%d %H:%M")


@pytest.mark.parametrize(
    ("cron", "after", "opens"),
    [
        ("0 2 * * 6", "2026-11-16 00:00", "2026-11-21 02:00"),  # a Saturday
        ("0 2 * * SAT", "2026-11-16 00:00", "2026-11-21 02:00"),
        ("*/20 * * * *", "2026-11-16 00:01", "2026-11-16 00:20"),
        ("5/20 * * * *", "2026-11-16 00:06", "2026-11-16 00:25"),
        ("0 8-10/2 * * *", "2026-11-16 08:30", "2026-11-16 10:00"),
        ("30 1,3 * * *", "2026-11-16 01:31", "2026-11-16 03:30"),
        ("0 0 * jan-mar *", "2026-11-16 00:00", "2027-01-01 00:00"),
        ("0 0 * * 7", "2026-11-16 00:00", "2026-11-22 00:00"),  # Sunday, like 0
        ("0 0 * * fri-sun", "2026-11-22 12:00", "2026-11-27 00:00"),
        ("0 0 29 2 *", "2026-11-16 00:00", "2028-02-29 00:00"),
        ("0 0 29 2 *", "2096-03-01 00:00", "2104-02-29 00:00"),  # 2100 has none
        ("0 0 29 2 */7", "2092-03-01 00:00", "2128-02-29 00:00"),  # a Sunday as well
        ("0 0 31 * *", "2026-11-16 00:00", "2026-12-31 00:00"),
        ("0 0 13 * 5", "2026-11-09 12:00", "2026-11-13 00:00"),  # either day fits
        ("0 0 13 * 5", "2026-11-13 12:00", "2026-11-20 00:00"),
        ("0 0 13 * *", "2026-11-13 12:00", "2026-12-13 00:00"),
        ("0 0 */2 * 1", "2026-11-16 00:01", "2026-11-23 00:00"),  # both, because one begins with a star
    ],
)
def test_a_window_opens_when_cron_says(cron: str, after: str, opens: str) -> None:
    assert opening(cron, after) == opens


@pytest.mark.parametrize(
    ("cron", "says"),
    [
        ("0 2 * *", "five fields"),
        ("0 2 * * 6 2026", "five fields"),
        ("60 2 * * 6", "minute '60' of a cron expression is not a number from 0 to 59"),
        ("0 24 * * *", "hour '24'"),
        ("0 0 0 * *", "day of month '0'"),
        ("0 0 * 13 *", "month '13'"),
        ("0 0 * foo *", "or a name such as feb"),
        ("0 0 * * 8", "day of week '8'"),
        ("*/0 * * * *", "minute '0'"),
        ("0 22-2 * * *", "runs backwards"),
        ("0 0 31 2 *", "never comes"),
        ("0 0 31 4,6,9,11 *", "never comes"),
        ("0 0 30 2 */2", "never comes"),
        (", * * * *", "minute ''"),
        ("1- * * * *", "minute ''"),
        ("² * * * *", "minute '²'"),
    ],
)
def test_what_is_no_cron_expression_is_refused_with_a_sentence(cron: str, says: str) -> None:
    with pytest.raises(InvalidValue, match="maintenanceWindows: ") as refused:
        check_window(MaintenanceWindowPolicy(cron, HOUR))
    assert says in refused.value.message


def test_a_day_of_the_week_beside_it_makes_an_impossible_date_possible() -> None:
    assert opening("0 0 31 2 1", "2026-02-03 00:00") == "2026-02-09 00:00"


@pytest.mark.parametrize("zone", ["Europe/Berln", "../etc/passwd", "Europe", "", "A\0B"])
def test_a_zone_that_does_not_exist_is_refused(zone: str) -> None:
    with pytest.raises(InvalidValue, match="there is no time zone"):
        check_window(MaintenanceWindowPolicy("0 2 * * *", HOUR, zone))


def test_a_system_without_zones_is_reported_with_what_it_lacks() -> None:
    code = """
import sys
sys.modules["tzdata"] = None
from stoker.domain.intent.policies import MaintenanceWindowPolicy
from stoker.domain.schedule.maintenance_windows import check_window
check_window(MaintenanceWindowPolicy("0 2 * * *", 60.0, "UTC"))
try:
    check_window(MaintenanceWindowPolicy("0 2 * * *", 60.0, "Asia/Tokyo"))
except Exception as error:
    print(type(error).__name__, error)
"""
    env = {**os.environ, "PYTHONTZPATH": ""}
    output = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    assert output.stdout.startswith("Misconfigured ")
    assert "add tzdata" in output.stdout


def test_a_window_without_duration_is_refused() -> None:
    with pytest.raises(InvalidValue, match="never opens"):
        check_window(MaintenanceWindowPolicy("0 2 * * *", 0.0))


def test_without_windows_everything_may_be_changed_at_any_time() -> None:
    now = at("2026-11-16 00:00")
    assert is_open([], now)
    assert next_edge([], now) is None


def test_a_window_is_open_from_its_first_moment_and_closed_at_its_last() -> None:
    windows = [MaintenanceWindowPolicy("0 2 * * *", HOUR)]
    opens, closes = at("2026-11-16 02:00"), at("2026-11-16 03:00")
    a_moment = timedelta(microseconds=1)
    assert not is_open(windows, opens - a_moment)
    assert is_open(windows, opens)
    assert is_open(windows, closes - a_moment)
    assert not is_open(windows, closes)
    assert next_edge(windows, opens - a_moment) == opens
    assert next_edge(windows, opens) == closes
    assert next_edge(windows, closes) == opens + timedelta(days=1)


def test_windows_that_touch_are_one() -> None:
    windows = [MaintenanceWindowPolicy("0 2 * * *", HOUR), MaintenanceWindowPolicy("0 3 * * *", 2 * HOUR)]
    assert next_edge(windows, at("2026-11-16 02:30")) == at("2026-11-16 05:00")
    assert next_edge([MaintenanceWindowPolicy("* * * * *", HOUR)], at("2026-11-16 02:30")) is None


def test_a_time_that_is_skipped_opens_the_window_as_much_later() -> None:
    assert opening("30 2 * * *", "2026-03-29 00:00", BERLIN) == "2026-03-29 01:30"  # 03:30 on the clock
    assert opening("0 2 * * *", "2026-03-29 00:00", BERLIN) == "2026-03-29 01:00"
    assert opening("0 3 * * *", "2026-03-29 00:00", BERLIN) == "2026-03-29 01:00"
    assert opening("0 3 * * *", "2026-03-29 02:00", BERLIN) == "2026-03-30 01:00"


def test_a_time_that_is_skipped_may_come_after_a_later_one() -> None:
    # Half an hour is left out at 02:00: 02:20 would be 02:50 on the clock, after 02:35.
    howe, cron = "Australia/Lord_Howe", "20,35 2 * * *"
    assert opening(cron, "2026-10-03 12:00", howe) == "2026-10-03 15:35"
    assert opening(cron, "2026-10-03 15:40", howe) == "2026-10-03 15:50"
    assert is_open([MaintenanceWindowPolicy(cron, MINUTE, howe)], at("2026-10-03 15:50"))


def test_a_time_that_comes_twice_opens_the_window_the_first_time() -> None:
    window = [MaintenanceWindowPolicy("30 2 * * *", MINUTE, BERLIN)]
    assert opening("30 2 * * *", "2026-10-24 23:00", BERLIN) == "2026-10-25 00:30"
    assert not is_open(window, at("2026-10-25 01:30"))
    assert opening("30 2 * * *", "2026-10-25 00:31", BERLIN) == "2026-10-26 01:30"


def test_hours_that_pass_are_each_an_hour_when_the_clock_is_set_back() -> None:
    window = [MaintenanceWindowPolicy("0 * * * *", MINUTE, BERLIN)]
    moments = [at(f"2026-10-25 0{hour}:00") for hour in range(4)]
    assert all(is_open(window, moment) for moment in moments)
    assert opening("0 * * * *", "2026-10-25 00:10", BERLIN) == "2026-10-25 01:00"


def test_a_duration_is_time_that_passes() -> None:
    windows = [MaintenanceWindowPolicy("0 1 * * *", 3 * HOUR, BERLIN)]
    assert next_edge(windows, at("2026-03-29 00:00")) == at("2026-03-29 03:00")  # 05:00 on the clock
    assert next_edge(windows, at("2026-10-24 23:00")) == at("2026-10-25 02:00")  # 03:00 on the clock


def test_a_day_that_was_left_out_is_made_up_for() -> None:
    # Samoa went from 29 to 31 December 2011.
    assert opening("0 12 30 * *", "2011-12-30 00:00", "Pacific/Apia") == "2011-12-30 22:00"


# The oracle reads a field of an expression by itself and looks at every minute.

_FIELDS = st.tuples(
    st.sampled_from(["0", "30", "*/20", "7-50/13", "*", "0,59"]),
    st.sampled_from(["*", "2", "1-3", "*/5", "0,2,23", "22"]),
    st.sampled_from(["*", "29", "1-15", "*/2", "28,30"]),
    st.sampled_from(["*", "3,10", "3-12/7", "3,4,10,11"]),
    st.sampled_from(["*", "0", "1-5", "7", "*/3"]),
)
_ZONES = st.sampled_from(
    ["UTC", BERLIN, "America/New_York", "Australia/Lord_Howe", "America/Sao_Paulo", "Asia/Kathmandu"]
)


def _named(field: str, value: int, least: int, most: int) -> bool:
    for part in field.split(","):
        base, _, step = part.partition("/")
        low, _, high = base.partition("-")
        begin, end = (least, most) if base == "*" else (int(low), int(high or low))
        if begin <= value <= end and (value - begin) % int(step or 1) == 0:
            return True
    return False


def _fits(fields: tuple[str, ...], wall: datetime) -> bool:
    minute, hour, day, month, week = fields
    of_month = _named(day, wall.day, 1, 31)
    of_week = any(
        _named(week, number, 0, 7) for number in ({0, 7} if wall.isoweekday() == 7 else {wall.isoweekday()})
    )
    both = day.startswith("*") or week.startswith("*")
    return (
        _named(minute, wall.minute, 0, 59)
        and _named(hour, wall.hour, 0, 23)
        and _named(month, wall.month, 1, 12)
        and ((of_month and of_week) if both else (of_month or of_week))
    )


def _opens_at(fields: tuple[str, ...], zone: ZoneInfo, moment: datetime) -> bool:
    """Whether a window opens in this minute: by the clock, or by what it would show had it not been set."""
    shown = moment.astimezone(zone)
    if _fits(fields, shown) and (shown.fold == 0 or fields[1].startswith("*")):
        return True
    for hours in (1, 2, 3):
        before = (moment - timedelta(hours=hours)).astimezone(zone).utcoffset()
        assert before is not None
        wall = (moment + before).replace(tzinfo=None)
        exists = wall.replace(tzinfo=zone).astimezone(UTC).astimezone(zone).replace(tzinfo=None) == wall
        if not exists and _fits(fields, wall):
            return True
    return False


@settings(max_examples=30, deadline=None)
@given(
    _FIELDS,
    _ZONES,
    st.sampled_from([3 * MINUTE, 45 * MINUTE, 5 * HOUR]),
    st.sampled_from(
        ["2026-03-08", "2026-03-29", "2026-04-05", "2026-10-04", "2026-10-25", "2026-11-01", "2017-10-15"]
    ),
    st.integers(-1500, 1500),
)
def test_a_check_of_every_minute_finds_the_same(
    fields: tuple[str, ...], zone: str, duration: float, day: str, minutes: int
) -> None:
    """Around the days on which clocks are changed, where a mistake would be."""
    windows = [MaintenanceWindowPolicy(" ".join(fields), duration, zone)]
    try:
        check_window(windows[0])
    except InvalidValue:
        return
    now = at(day) + timedelta(minutes=minutes)
    moments = [now + timedelta(minutes=step) for step in range(-300, 1440)]
    opened = [moment for moment in moments if _opens_at(fields, ZoneInfo(zone), moment)]
    covered = [
        any(moment - timedelta(seconds=duration) < one <= moment for one in opened)
        for moment in moments[300:]
    ]
    assert is_open(windows, now) == covered[0]
    changed = next(
        (moment for moment, state in zip(moments[300:], covered, strict=True) if state != covered[0]), None
    )
    edge = next_edge(windows, now)
    if changed is not None:
        assert edge == changed
    else:
        assert edge is None or edge > moments[-1]
