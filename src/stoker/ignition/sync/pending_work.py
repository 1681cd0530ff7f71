"""Pending gateway work: a scan, a restart, a verification.

Files may be written while the gateway is down, or this process may be killed before it could
request a scan. The next sync then finds nothing to write; the state file records that the
gateway has not read everything yet. It is written before the first live change and removed
after verification, so a kill in between leaves it in place.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from stoker.ignition.sync.state_files import StateFiles

STATE_FILE = "scan-owed"
MAX_NAMES = 2000


@dataclass(frozen=True, slots=True)
class PendingWork:
    """The pending work of one or several syncs."""

    scan: bool = True
    """False: the scan was accepted, but its result was not verified yet."""
    gone: frozenset[str] = frozenset()
    """Folders, such as `projects/Line 1`, that were removed and must not be listed any more."""
    modules: frozenset[str] = frozenset()
    """Changed module files, which need a restart."""
    quarantined: frozenset[str] | None = None
    """Modules that were quarantined before the change; None: unknown."""
    lock_ends: float = 0.0
    """Wall clock end of a scan lock that an earlier process of ours took."""

    def and_also(self, newer: PendingWork) -> PendingWork:
        """Combine both. The older `quarantined` wins: neither change caused those."""
        return PendingWork(
            self.scan or newer.scan,
            self.gone | newer.gone,
            self.modules | newer.modules,
            newer.quarantined if self.quarantined is None else self.quarantined,
            max(self.lock_ends, newer.lock_ends),
        )


class PendingWorkStore:
    """Stores the pending work of the gateway at this data folder."""

    def __init__(self, marks: StateFiles) -> None:
        self._marks = marks

    def owed(self) -> PendingWork | None:
        content = self._marks.read(STATE_FILE)
        return None if content is None else _decode_pending_work(content)

    def incur(self, debt: PendingWork | None = None) -> None:
        """Add this to the pending work."""
        debt, before = debt if debt is not None else PendingWork(), self.owed()
        self.remember(debt if before is None else before.and_also(debt))

    def remember(self, debt: PendingWork) -> None:
        """Replace the pending work by exactly this."""
        self._marks.write(STATE_FILE, _encode_pending_work(debt))

    def settle(self) -> None:
        self._marks.clear(STATE_FILE)


def _encode_pending_work(debt: PendingWork) -> bytes:
    def listed(names: frozenset[str]) -> list[str]:
        return sorted(names)[:MAX_NAMES]

    return json.dumps(
        {
            "scan": debt.scan,
            "gone": listed(debt.gone),
            "modules": listed(debt.modules),
            "quarantined": None if debt.quarantined is None else listed(debt.quarantined),
            "lockEnds": debt.lock_ends,
        }
    ).encode()


def _decode_pending_work(content: bytes) -> PendingWork:
    """Decode the state file; an unreadable file means that at least a scan is pending."""
    try:
        said = json.loads(content)
    except (ValueError, RecursionError):
        return PendingWork()
    if not isinstance(said, dict):
        return PendingWork()
    ends = said.get("lockEnds")
    return PendingWork(
        scan=said.get("scan") is not False,
        gone=_name_set(said, "gone"),
        modules=_name_set(said, "modules"),
        quarantined=None if said.get("quarantined") is None else _name_set(said, "quarantined"),
        lock_ends=ends if isinstance(ends, float) else 0.0,
    )


def _name_set(said: Mapping[str, object], key: str) -> frozenset[str]:
    listed = said.get(key)
    return (
        frozenset(one for one in listed if isinstance(one, str)) if isinstance(listed, list) else frozenset()
    )
