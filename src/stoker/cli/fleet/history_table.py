"""Text output of `stoker history` and `stoker diff`: a table of syncs, and the changes of one sync."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

from stoker.cli.fleet.status_table import SHORT
from stoker.cli.fleet.tables import format_age, table_lines
from stoker.domain.clock import parse_rfc3339
from stoker.fleet.history import HistoryRow

_HEAD = ("GATEWAY", "SYNC", "WHEN", "RESULT", "COMMIT", "REF", "FILES", "TOOK", "SNAPSHOT")
_SIGNS = {"added": "+", "modified": "~", "deleted": "-"}


def history_lines(found: Sequence[HistoryRow], now: datetime) -> Iterator[str]:
    if not found:
        yield "no sync has finished yet"
        return
    yield from table_lines(_HEAD, [_row(one, now) for one in found])


def diff_lines(past: HistoryRow) -> Iterator[str]:
    """Lines for what a sync changed, as far as the status has it: counts, and the first paths."""
    diff = past.entry.diff
    if diff is None:
        yield f"{past.gateway}: this sync has no record of its changes"
        return
    came = (diff.from_commit or "nothing")[:SHORT]
    yield f"{past.gateway}: {came} -> {(diff.to_commit or past.entry.commit or '')[:SHORT]}"
    changes = diff.changes or ()
    for one in changes:
        yield f"{_SIGNS[one.action]} {one.path}"
    total = sum(one or 0 for one in (diff.files_added, diff.files_modified, diff.files_deleted))
    if total > len(changes):
        yield f"… and {total - len(changes)} more"


def _row(past: HistoryRow, now: datetime) -> list[str]:
    entry = past.entry
    when = format_age(parse_rfc3339(entry.timestamp), now)
    files = "" if entry.files_changed is None else str(entry.files_changed)
    said = [entry.result or "", (entry.commit or "")[:SHORT], entry.ref or "", files]
    return [past.gateway, str(past.number), when, *said, entry.duration or "", entry.snapshot_id or ""]
