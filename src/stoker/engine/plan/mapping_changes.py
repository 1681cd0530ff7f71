"""Compares the mappings of the last sync with those of this one, for the guards of a plan.

The ledger keeps each mapping that delivered files as the user wrote it (`source -> destination`), and the
managed places. From these it computes the abandoned destinations, the destinations of mappings that were
removed although another mapping keeps the destination, and the destinations that are wider than before.
With unchanged settings there is nothing to compare. It reads no file and decides nothing.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from stoker.domain.errors import InvalidValue
from stoker.domain.paths import RelPath
from stoker.engine.layout.counts import managed_places
from stoker.engine.layout.desired_files import ARROW, NO_PLACES, ROOT, DesiredFiles, ManagedPaths
from stoker.engine.plan.ledger import Ledger
from stoker.engine.plan.plan import SyncPlan


class _Written(NamedTuple):
    """Source and destination of a mapping as the user wrote them, without slashes at their ends."""

    source: str
    destination: str


def abandoned_places(desired: DesiredFiles, ledger: Ledger) -> ManagedPaths:
    """Return places of the last sync that this sync no longer has because the mappings changed.

    A wider destination may cover them: `projects` misspelt as `.` must not empty `projects`. With unchanged
    mappings only the commit can remove a place, for example a folder below a root mapping.
    """
    if ledger.settings == desired.settings:
        return NO_PLACES
    before, now = _places(ledger), desired.managed
    removed = _removed(ledger.mappings, desired.delivered | desired.undelivered)
    return ManagedPaths((before.folders - now.folders) | removed, before.files - now.files)


def foreign_overwrites(plan: SyncPlan, desired: DesiredFiles, ledger: Ledger | None) -> tuple[RelPath, ...]:
    """Return files of others that the plan overwrites because a destination is wider than at the last sync.

    A destination that neither contains nor equals a place of the last sync is not a wider one: it receives
    the files of the commit, as at a first sync.
    """
    if ledger is None or ledger.settings == desired.settings:
        return ()
    before = _places(ledger)
    earlier = before.folders | {_destination(_read(label)) for label in ledger.mappings}
    wider = ManagedPaths(
        frozenset(
            folder
            for folder in desired.destinations.folders - earlier
            if any(place.is_below(folder) for place in before.folders | before.files)
        )
    )
    if not wider.folders:
        return ()
    return tuple(
        write.path
        for write in plan.writes
        if write.replaces
        and write.path not in ledger.files
        and wider.hold(write.path)
        and not before.hold(write.path)
    )


def _places(ledger: Ledger) -> ManagedPaths:
    given = managed_places(ledger.given)
    return ManagedPaths(given.folders.union(map(RelPath.known, ledger.folders)), given.files)


def _removed(before: Collection[str], now: Collection[str]) -> frozenset[RelPath]:
    """Return the destinations of removed mappings, without those that a wider mapping repeats."""
    kept = [_read(label) for label in now]
    gone = [_read(label) for label in before if label not in now]
    removed = [mapping for mapping in gone if not any(_repeats(other, mapping) for other in kept)]
    # A destination that cannot be determined may be any place, so the root represents it.
    return frozenset(_destination(mapping) or ROOT for mapping in removed)


def _read(label: str) -> _Written | None:
    """Parse a label; None where the text does not show which part of it is the destination."""
    sides = label.split(ARROW)
    return _Written(*(side.removeprefix("./").strip("/") for side in sides)) if len(sides) == 2 else None


def _destination(mapping: _Written | None) -> RelPath | None:
    """Return the destination; None if unknown, because template values may have changed since."""
    if mapping is None or "{{" in mapping.destination:
        return None
    try:
        return RelPath.clean(mapping.destination)
    except InvalidValue:
        return None


def _repeats(wider: _Written | None, mapping: _Written | None) -> bool:
    """Whether a mapping delivers all files of another mapping to the same destinations."""
    if wider is None or mapping is None:
        return False
    below = _below(mapping.source, wider.source)
    return below is not None and below == _below(mapping.destination, wider.destination)


def _below(path: str, folder: str) -> str | None:
    if folder in ("", "."):
        return "" if path == "." else path
    if path == folder:
        return ""
    return path[len(folder) + 1 :] if path.startswith(f"{folder}/") else None
