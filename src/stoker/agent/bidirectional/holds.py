"""Decides which paths a sync must leave alone, because they were changed on the gateway. No I/O.

A change is held until the controller confirms that git has exactly that content, and longer if the controller
requests it. A resource is held as a whole: new data beside an old `resource.json`, or the reverse, would be
neither of its versions.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

from stoker.domain.git_objects import FileVersion, HeldPath
from stoker.domain.paths import RelPath
from stoker.domain.reasons import Reason
from stoker.engine.plan.ledger import Ledger
from stoker.engine.plan.plan import RESOURCE_MANIFEST, DeleteFile, PlanAction, SetFileMode, SyncPlan

UNRECORDED_CHANGE_MESSAGE = "it was changed on the gateway, and git does not have that change yet"
UNDER_REVIEW_MESSAGE = "its change on the gateway is in an open pull request"
_PROGRAM = "+x"


def paths_changed_by(plan: SyncPlan) -> tuple[str, ...]:
    """Return the paths that a plan would write, delete or change the mode of."""
    return tuple(str(action.path) for action in plan.actions)


def held_paths(
    plan: SyncPlan,
    changes: Mapping[str, FileVersion | None],
    ledger: Ledger,
    holds: Collection[str],
    is_recorded: Callable[[str, str], bool],
) -> tuple[HeldPath, ...]:
    """Return the paths of a plan that have to wait."""
    found: dict[str, HeldPath] = {}
    for action in plan.actions:
        path = str(action.path)
        why = ""
        if path in holds:
            why = UNDER_REVIEW_MESSAGE
        elif path in changes:
            blob = version_id(changes[path])
            if not is_recorded(path, blob) and not _is_already_applied(action, changes[path]):
                why = UNRECORDED_CHANGE_MESSAGE
        if why:
            place = _hold_place(path, ledger)
            found.setdefault(place, HeldPath(place, why, reason=Reason.CHANGE_HELD))
    return tuple(found.values())


def are_still_held(
    held: Iterable[HeldPath],
    changes: Mapping[str, FileVersion | None],
    holds: Collection[str],
    is_recorded: Callable[[str, str], bool],
) -> bool:
    """Return whether every path would be held again."""
    reasons = [*holds, *_unrecorded_paths(changes, is_recorded)]
    return all(any(one.covers(path) for path in reasons) for one in held)


def captured_holds(held: Iterable[HeldPath]) -> tuple[HeldPath, ...]:
    return tuple(one for one in held if one.reason == Reason.CHANGE_HELD)


def version_id(version: FileVersion | None) -> str:
    """Return a version as one string: blob id and executable flag; empty for a missing file."""
    if version is None:
        return ""
    return f"{version.blob}{_PROGRAM}" if version.executable else str(version.blob)


def _unrecorded_paths(
    changes: Mapping[str, FileVersion | None], is_recorded: Callable[[str, str], bool]
) -> Iterator[str]:
    return (path for path, version in changes.items() if not is_recorded(path, version_id(version)))


def _is_already_applied(action: PlanAction, there: FileVersion | None) -> bool:
    if isinstance(action, DeleteFile):
        return there is None
    if isinstance(action, SetFileMode):  # the content is already right
        return there is not None and there.executable == action.version.executable
    return there is not None and there == action.version


def _hold_place(path: str, ledger: Ledger) -> str:
    folder = RelPath.known(path).parent
    return str(folder) if folder and f"{folder}/{RESOURCE_MANIFEST}" in ledger.files else path
