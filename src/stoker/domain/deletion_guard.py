"""The deletion guard: one decision for sync, rollback, reverser, export and bidirectional sync.

A caller lists the paths it would delete, each with the cause. The guard decides for each path: delete,
keep, or hold until a person approves exactly this plan by its digest. It reads no file and deletes none.

| cause | owner of the file | decision |
|---|---|---|
| its mapping was removed, or has another destination; another mapping may cover it | any | hold |
| orphan: no event and no commit removed it, it was only not found | another owner | keep |
| any other | any | delete within the limits, hold above either of them |

Exceeding either limit is enough to hold. The percentage does not apply to a few files (`floor`): replacing
the three files of a small project is everyday work. An approval releases the held paths only if it names
the digest of the current plan; any other approval is stale, and the decision reports it as stale.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import NamedTuple

FEW_FILES = 10
"""Up to this many deletions, the percentage of the managed files is not checked."""


class DeletionCause(StrEnum):
    """Why a path would be deleted."""

    GONE = "gone"  # the source no longer has it, or the API server reported its deletion
    UNMAPPED = "unmapped"  # earlier syncs wrote it by a mapping that was removed or has another destination
    ORPHAN = "orphan"  # inferred: the file exists, and no mapping and no object claims it


class DeletionCandidate(NamedTuple):
    """One path that would be deleted."""

    path: str
    cause: DeletionCause = DeletionCause.GONE
    ours: bool = True
    """Whether this installation wrote it."""


class DeletionLimits(NamedTuple):
    """How much may be deleted without approval; a plan must stay within both limits."""

    files: int = 50
    percent: int = 50
    floor: int = FEW_FILES

    def exceeded(self, deleted: int, managed: int) -> str:
        """Return which limit is exceeded, as the end of a sentence; empty if none is."""
        if deleted > self.files:
            return f"more than {self.files} files"
        if deleted > self.floor and deleted * 100 > self.percent * managed:
            return f"more than {self.percent} % of {managed} managed files"
        return ""


class DeletionDecision(NamedTuple):
    """The decision about each of the paths."""

    delete: tuple[DeletionCandidate, ...] = ()
    keep: tuple[DeletionCandidate, ...] = ()
    hold: tuple[DeletionCandidate, ...] = ()
    why: str = ""
    """Why paths are held, in one sentence with the digest to approve; empty if no path is held."""
    stale: bool = False
    """Whether an approval was given that names another plan."""


def decide_deletions(
    deletions: Sequence[DeletionCandidate],
    managed: int,
    limits: DeletionLimits,
    *,
    digest: str,
    approved: str = "",
    earlier: int = 0,
    joins_held: bool = False,
) -> DeletionDecision:
    """Decide about one plan; `managed` counts the files that this installation manages there before the plan.

    Where deletions arrive one by one, `earlier` counts recent deletions made without approval. `joins_held`
    means that a part of the plan is held already; then the whole plan is held.
    """
    keep = tuple(each for each in deletions if each.cause is DeletionCause.ORPHAN and not each.ours)
    rest = tuple(each for each in deletions if each.cause is not DeletionCause.ORPHAN or each.ours)
    if approved == digest:
        return DeletionDecision(delete=rest, keep=keep)
    unmapped = tuple(each for each in rest if each.cause is DeletionCause.UNMAPPED)
    limit = limits.exceeded(len(rest) + earlier, managed + earlier)
    if limit and earlier:
        limit = f"with {earlier} deleted a moment ago {limit}"
    elif joins_held and rest and not limit:
        limit = "and they belong to a plan that is held already"
    hold = rest if limit else unmapped
    if not hold:
        return DeletionDecision(delete=rest, keep=keep, stale=bool(approved))
    if unmapped:
        reason = f"the mapping that gave {_name_deletions(unmapped)} was removed or has another destination"
    else:
        reason = f"{_name_deletions(rest)} would be deleted, {limit}"
    stale = f"; the approval given names another plan, {approved}" if approved else ""
    held = set(hold)
    return DeletionDecision(
        delete=tuple(each for each in rest if each not in held),
        keep=keep,
        hold=hold,
        why=f"{reason}: approve plan {digest} to delete{stale}",
        stale=bool(approved),
    )


def deletions_digest(paths: Iterable[str]) -> str:
    """Return the digest of a plan that consists of deletions alone."""
    return hashlib.sha256("".join(f"delete {path}\n" for path in sorted(paths)).encode()).hexdigest()


def _name_deletions(deletions: Sequence[DeletionCandidate]) -> str:
    first = deletions[0].path
    return first if len(deletions) == 1 else f"{len(deletions)} files (first: {first})"
