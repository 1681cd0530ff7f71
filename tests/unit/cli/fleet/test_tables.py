"""Tables that people read and `awk` counts."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from stoker.cli.fleet.tables import format_age, table_lines

NOW = datetime(2026, 5, 1, tzinfo=UTC)


def test_columns_line_up_and_no_cell_is_empty() -> None:
    lines = list(
        table_lines(("NAME", "STATE", "WHY"), [["filler", "Synced", ""], ["a", "Error", "no\nroute"]])
    )
    assert lines == [
        "NAME    STATE   WHY",
        "filler  Synced  -",
        "a       Error   no route",
    ]
    assert all(len(line.split(maxsplit=2)) == 3 for line in lines)


def test_a_long_cell_does_not_push_the_others_off_the_screen() -> None:
    (_, line) = table_lines(("A", "B"), [["x" * 500, "y"]])
    assert len(line) < 100
    assert line.endswith("…  y")


def test_an_error_is_printed_in_full() -> None:
    sentence = "the repository cannot be reached: " + "x" * 120 + ": no route to host"
    (_, line) = table_lines(("GATEWAY", "WHY"), [["filler", sentence]])
    assert line.endswith(sentence)


@pytest.mark.parametrize(
    ("seconds", "message"), [(-5, "0s"), (0, "0s"), (59, "59s"), (60, "1m"), (7_300, "2h"), (200_000, "2d")]
)
def test_an_age_is_printed_in_its_largest_unit(seconds: float, message: str) -> None:
    assert format_age(NOW - timedelta(seconds=seconds), NOW) == message


def test_what_never_was_has_no_age() -> None:
    assert format_age(None, NOW) == ""
