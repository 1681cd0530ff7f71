"""The sync history of gateways, compressed until a page opens a gateway. Pure.

The last ten syncs of a thousand gateways, with the first paths of each, are most of a status and rarely
viewed. Compressed, they need a tenth of the memory.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Iterator

import msgspec

from stoker.api.spec.status import DiffSummary, GatewayStatus, SyncHistoryEntry
from stoker.dashboard.view_models import ChangedPathView, SnapshotView, SyncDiffView, SyncHistoryView

_UNITS = {"B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_AMOUNT = re.compile(r"(\d{1,9})(B|kB|MB|GB|TB)")


class GatewayHistory(msgspec.Struct, frozen=True):
    """The sync history and the snapshots of one gateway."""

    gateway: str
    history: tuple[SyncHistoryView, ...] = ()
    snapshots: tuple[SnapshotView, ...] = ()


_pasts = msgspec.json.Decoder(list[GatewayHistory])


def pack_history(gateways: Iterable[GatewayStatus]) -> bytes:
    """Compress the history of all gateways of a resource; empty if there is none."""
    pasts = [one for one in map(_gateway_history, gateways) if one.history or one.snapshots]
    return zlib.compress(msgspec.json.encode(pasts), 1) if pasts else b""


def unpack_history(gateway: str, kept: bytes) -> GatewayHistory:
    """Return the history of one gateway."""
    found = _pasts.decode(zlib.decompress(kept)) if kept else []
    return next((one for one in found if one.gateway == gateway), GatewayHistory(gateway))


def _gateway_history(one: GatewayStatus) -> GatewayHistory:
    history = tuple(_history_entry(number, entry) for number, entry in enumerate(one.sync_history or (), 1))
    return GatewayHistory(one.name, history, tuple(_snapshot_views(one)))


def _history_entry(number: int, entry: SyncHistoryEntry) -> SyncHistoryView:
    return SyncHistoryView(
        number=number,
        timestamp=entry.timestamp,
        result=entry.result or "",
        commit=entry.commit or "",
        ref=entry.ref or "",
        files_changed=entry.files_changed or 0,
        duration=entry.duration or "",
        snapshot_id=entry.snapshot_id or "",
        diff=_diff_view(entry.diff) if entry.diff is not None else None,
    )


def _diff_view(diff: DiffSummary) -> SyncDiffView:
    return SyncDiffView(
        from_commit=diff.from_commit or "",
        to_commit=diff.to_commit or "",
        added=diff.files_added or 0,
        modified=diff.files_modified or 0,
        deleted=diff.files_deleted or 0,
        changes=tuple(ChangedPathView(action=each.action, path=each.path) for each in diff.changes or ()),
    )


def _snapshot_views(one: GatewayStatus) -> Iterator[SnapshotView]:
    """Yield the newest snapshot, which the status describes, and older snapshots of its history.

    The number of kept snapshots limits the result, because older snapshots no longer exist.
    """
    newest = one.last_snapshot
    if newest is None:
        return
    yield SnapshotView(id=newest.id, size=_parse_size(newest.size or ""), timestamp=newest.timestamp)
    known = {newest.id}
    for entry in one.sync_history or ():
        if entry.snapshot_id and entry.snapshot_id not in known and len(known) < (one.snapshots_kept or 1):
            known.add(entry.snapshot_id)
            yield SnapshotView(id=entry.snapshot_id, timestamp=entry.timestamp)


def _parse_size(amount: str) -> int:
    """Parse a size as the status has it, such as 180MB; 0 if it does not fit."""
    match = _AMOUNT.fullmatch(amount)
    return int(match[1]) * _UNITS[match[2]] if match else 0
