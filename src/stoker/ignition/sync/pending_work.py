"""What is still owed to the gateway: a scan, a restart, a look whether it shows what it should.

Files may be in place while the gateway was down, or this process was killed before
it could ask for a scan. The next pass then finds nothing to write; the mark tells it
that the gateway has not read everything yet. It is made before the first live change
and goes when the gateway was seen to show everything, so a kill in between leaves it.
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
    """One or several passes' worth of it."""

    scan: bool = True
    """False: it was accepted, and what it should have brought was not seen yet."""
    gone: frozenset[str] = frozenset()
    """Places, such as `projects/Line 1`, that were removed and must not be shown any more."""
    modules: frozenset[str] = frozenset()
    """Files of modules whose change takes a restart."""
    quarantined: frozenset[str] | None = None
    """Modules that the gateway had put aside before the change; None: not asked."""
    lock_ends: float = 0.0
    """Until when, by the wall clock, a scan lock is ours although nobody remembers it."""

    def and_also(self, newer: PendingWork) -> PendingWork:
        """Both. What was put aside before the older change is what neither of them is to blame for."""
        return PendingWork(
            self.scan or newer.scan,
            self.gone | newer.gone,
            self.modules | newer.modules,
            newer.quarantined if self.quarantined is None else self.quarantined,
            max(self.lock_ends, newer.lock_ends),
        )


class PendingWorkStore:
    """Whether, and what, the gateway at this data folder still has to do."""

    def __init__(self, marks: StateFiles) -> None:
        self._marks = marks

    def owed(self) -> PendingWork | None:
        content = self._marks.read(STATE_FILE)
        return None if content is None else _decode_pending_work(content)

    def incur(self, debt: PendingWork | None = None) -> None:
        """Owe this besides what is owed already."""
        debt, before = debt if debt is not None else PendingWork(), self.owed()
        self.remember(debt if before is None else before.and_also(debt))

    def remember(self, debt: PendingWork) -> None:
        """Owe exactly this."""
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
    """Of what cannot be read a scan is owed at least."""
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
