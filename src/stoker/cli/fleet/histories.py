"""What the gateways of a resource have been through: their last syncs, and what each of them changed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import NamedTuple

import msgspec

from stoker.api.blocks.status import SyncHistoryEntry
from stoker.cli.fleet.standings import SHORT, Standing
from stoker.cli.fleet.tables import age, table
from stoker.domain.clock import parse_rfc3339
from stoker.domain.errors import InvalidValue

_HEAD = ("GATEWAY", "SYNC", "WHEN", "RESULT", "COMMIT", "REF", "FILES", "TOOK", "SNAPSHOT")
_SIGNS = {"added": "+", "modified": "~", "deleted": "-"}


class Past(NamedTuple):
    """One sync of one gateway; 1 is its newest."""

    gateway: str
    number: int
    entry: SyncHistoryEntry

    def as_json(self) -> dict[str, object]:
        return {"gateway": self.gateway, "sync": self.number, **msgspec.to_builtins(self.entry)}


def pasts(standing: Standing, gateway: str | None) -> list[Past]:
    """All syncs that are remembered, those of one gateway together, its newest first."""
    names = [one.name for one in standing.gateways]
    if gateway is not None and gateway not in names:
        known = ", ".join(names[:20]) or "none"
        raise InvalidValue(
            f"{standing.namespace}/{standing.name} has no gateway {gateway!r}; it has: {known}"
        )
    return [
        Past(one.name, number, entry)
        for one in standing.gateways
        if gateway in (None, one.name)
        for number, entry in enumerate(one.sync_history or (), 1)
    ]


def history_lines(found: Sequence[Past], now: datetime) -> Iterator[str]:
    if not found:
        yield "no sync has ended yet"
        return
    yield from table(_HEAD, [_row(one, now) for one in found])


def chosen(found: Sequence[Past], number: int) -> Past:
    """The one that was asked for, of a gateway's syncs."""
    for one in found:
        if one.number == number:
            return one
    raise InvalidValue(f"there is no sync {number}; {len(found)} are remembered, and 1 is the newest")


def diff_lines(past: Past) -> Iterator[str]:
    """What a sync changed, as far as the status keeps it: counts, and the first paths."""
    diff = past.entry.diff
    if diff is None:
        yield f"{past.gateway}: nothing is known of what this sync changed"
        return
    came = (diff.from_commit or "nothing")[:SHORT]
    yield f"{past.gateway}: {came} -> {(diff.to_commit or past.entry.commit or '')[:SHORT]}"
    changes = diff.changes or ()
    for one in changes:
        yield f"{_SIGNS[one.action]} {one.path}"
    total = sum(one or 0 for one in (diff.files_added, diff.files_modified, diff.files_deleted))
    if total > len(changes):
        yield f"… and {total - len(changes)} more"


def _row(past: Past, now: datetime) -> list[str]:
    entry = past.entry
    when = age(parse_rfc3339(entry.timestamp), now)
    files = "" if entry.files_changed is None else str(entry.files_changed)
    said = [entry.result or "", (entry.commit or "")[:SHORT], entry.ref or "", files]
    return [past.gateway, str(past.number), when, *said, entry.duration or "", entry.snapshot_id or ""]
