"""The last syncs of each gateway of a resource, read from the resource's status."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from stoker.api.spec.status import SyncHistoryEntry
from stoker.domain.errors import InvalidValue
from stoker.fleet.status import ResourceStatus


class HistoryRow(NamedTuple):
    """One sync of one gateway; number 1 is the newest."""

    gateway: str
    number: int
    entry: SyncHistoryEntry

    def as_json(self) -> dict[str, object]:
        return {"gateway": self.gateway, "sync": self.number, **msgspec.to_builtins(self.entry)}


def sync_history(standing: ResourceStatus, gateway: str | None) -> list[HistoryRow]:
    """All syncs in the status, grouped by gateway, the newest of each gateway first."""
    names = [one.name for one in standing.gateways]
    if gateway is not None and gateway not in names:
        known = ", ".join(names[:20]) or "none"
        raise InvalidValue(
            f"{standing.namespace}/{standing.name} has no gateway {gateway!r}; it has: {known}"
        )
    return [
        HistoryRow(one.name, number, entry)
        for one in standing.gateways
        if gateway in (None, one.name)
        for number, entry in enumerate(one.sync_history or (), 1)
    ]


def choose_sync(found: Sequence[HistoryRow], number: int) -> HistoryRow:
    """Return the sync with this number from the syncs of one gateway."""
    for one in found:
        if one.number == number:
            return one
    raise InvalidValue(f"there is no sync {number}; {len(found)} are remembered, and 1 is the newest")
