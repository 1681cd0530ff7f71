"""Aligned columns for terminals and pipes, and ages as kubectl writes them. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

_UNITS = ((86_400, "d"), (3_600, "h"), (60, "m"), (1, "s"))
_MAX_CELL_WIDTH = 80
_MAX_LAST_CELL_WIDTH = 1000
"""The last column may be a sentence, whose cause is often at its end."""


def table_lines(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Aligned lines; the last column is not padded, and an empty cell is a dash so that `awk` can count."""
    cells = [[*(_cell(one) for one in row[:-1]), _cell(row[-1], _MAX_LAST_CELL_WIDTH)] for row in rows]
    widths = [max(map(len, column)) for column in zip(head, *cells, strict=True)]
    for row in (head, *cells):
        yield "  ".join(one.ljust(width) for one, width in zip(row, widths, strict=True)).rstrip()


def format_age(since: datetime | None, now: datetime) -> str:
    """How long ago, in the largest unit, as kubectl shows it."""
    if since is None:
        return ""
    seconds = max(0, int((now - since).total_seconds()))
    for size, unit in _UNITS:
        if seconds >= size:
            return f"{seconds // size}{unit}"
    return "0s"


def _cell(text: str, longest: int = _MAX_CELL_WIDTH) -> str:
    shown = "".join(one if one.isprintable() else " " for one in text)
    return (shown if len(shown) <= longest else shown[: longest - 1] + "…") or "-"
