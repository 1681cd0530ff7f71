"""Times in the forms that the Kubernetes API writes and reads."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from stoker.domain.clock import EPOCH, SystemClock, parse_rfc3339, rfc3339, rfc3339_micro, rfc3339_or

MOMENT = datetime(2026, 3, 2, 8, 15, 4, 5060, tzinfo=UTC)


def test_times_are_written_in_utc() -> None:
    there = MOMENT.astimezone(timezone(timedelta(hours=5, minutes=30)))
    assert rfc3339(there) == "2026-03-02T08:15:04Z"
    assert rfc3339_micro(there) == "2026-03-02T08:15:04.005060Z"


@pytest.mark.parametrize("text", ["2026-03-02T08:15:04.005060Z", "2026-03-02T10:15:04.005060+02:00"])
def test_times_are_read_back_in_utc(text: str) -> None:
    assert parse_rfc3339(text) == MOMENT


@pytest.mark.parametrize(
    "text",
    [
        "0001-01-01T00:00:00+14:00",
        "9999-12-31T23:59:59-14:00",
        "2026-03-02T08:15:04",
        "2026-03-02",
        "soon",
        "",
    ],
)
def test_what_is_no_moment_in_utc_is_refused_in_one_way(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - whatever its words are
        parse_rfc3339(text)
    assert rfc3339_or(text, None) is None
    assert rfc3339_or(text, MOMENT) is MOMENT


def test_the_default_is_returned_only_without_a_time() -> None:
    assert rfc3339_or("2026-03-02T08:15:04.005060Z", None) == MOMENT
    assert rfc3339_or(None, EPOCH).timestamp() == 0


async def test_the_system_clock_moves() -> None:
    clock = SystemClock()
    start = clock.monotonic()
    await clock.sleep(0.01)
    await clock.sleep(-1)
    assert clock.monotonic() >= start + 0.01
    assert clock.now().tzinfo is UTC
