"""Durations and sizes are read as people write them, and bounded."""

import pytest

from stoker.domain.errors import InvalidValue
from stoker.domain.quantities import parse_duration, parse_quantity


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("60s", 60), ("5m", 300), ("1h30m", 5400), ("250ms", 0.25), ("0s", 0), ("1.5h", 5400)],
)
def test_reads_a_duration(text: str, seconds: float) -> None:
    assert parse_duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize(
    "text", ["", "60", "-5s", "1e30h", "NaN", "5 m", "5d", "s", "9" * 100 + "s", "999999999h", "1h\n"]
)
def test_refuses_a_duration_that_is_none_or_absurd(text: str) -> None:
    with pytest.raises(InvalidValue):
        parse_duration(text)


@pytest.mark.parametrize(
    ("text", "size"), [("10Mi", 10 << 20), ("1Gi", 1 << 30), ("500M", 500_000_000), ("1.5Ki", 1536), ("7", 7)]
)
def test_reads_a_size(text: str, size: int) -> None:
    assert parse_quantity(text) == size


@pytest.mark.parametrize("text", ["", "Mi", "-1Mi", "10MB", "1e9", "10 Mi", "9" * 30, "999999999999999Ti"])
def test_refuses_a_size_that_is_none_or_absurd(text: str) -> None:
    with pytest.raises(InvalidValue):
        parse_quantity(text)
