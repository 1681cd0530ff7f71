"""Compares the mappings of the last sync with those of this one, for the guards of a plan.

The ledger keeps each mapping that gave files as it was written (`source -> destination`), and the places
that were managed. From these follow the destinations that were given up, those of mappings that were
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
    """The two sides of a mapping as a person wrote them, without slashes at their ends."""

    source: str
    destination: str


def abandoned_places(desired: DesiredFiles, ledger: Ledger | None) -> ManagedPaths:
    """Places of the last sync that are none of this one because the mappings are others.

    A wider destination may cover them: `projects` misspelt as `.` must not empty `projects`. With the same
    mappings the commit alone took a place away, such as one of the folders below a root mapping.
    """
    if ledger is None or ledger.settings == desired.settings:
        return NO_PLACES
    before, now = _places(ledger), desired.managed
    removed = _removed(ledger.mappings, desired.delivered | desired.undelivered)
    return ManagedPaths((before.folders - now.folders) | removed, before.files - now.files)


def foreign_overwrites(plan: SyncPlan, desired: DesiredFiles, ledger: Ledger | None) -> tuple[RelPath, ...]:
    """Files of others that the plan overwrites because a destination is wider than at the last sync.

    A destination that has nothing to do with those of the last sync is no wider one: it takes the files
    of the commit, as at a first sync.
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
    """The destinations of mappings that are gone, and that no wider mapping repeats."""
    kept = [_read(label) for label in now]
    gone = [_read(label) for label in before if label not in now]
    removed = [mapping for mapping in gone if not any(_repeats(other, mapping) for other in kept)]
    # One that cannot be known may be any of them.
    return frozenset(_destination(mapping) or ROOT for mapping in removed)


def _read(label: str) -> _Written | None:
    """None where the text does not say which part of it is the destination."""
    sides = label.split(ARROW)
    return _Written(*(side.removeprefix("./").strip("/") for side in sides)) if len(sides) == 2 else None


def _destination(mapping: _Written | None) -> RelPath | None:
    """None where it cannot be known: the values of a template may be others today."""
    if mapping is None or "{{" in mapping.destination:
        return None
    try:
        return RelPath.clean(mapping.destination)
    except InvalidValue:
        return None


def _repeats(wider: _Written | None, mapping: _Written | None) -> bool:
    """Whether a mapping puts everything of another one where that one put it."""
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
