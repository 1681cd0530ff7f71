"""The deletion guard: one decision for sync, rollback, reverser, export and bidirectional sync.

A caller lists what it would delete, and why. The guard answers for each path: delete, keep, or hold until
a person approves exactly this plan by its digest. It reads nothing and deletes nothing.

| why it would be deleted | whose file | answer |
|---|---|---|
| its mapping was removed, or has another destination; another mapping may cover it | any | hold |
| orphan: no event and no commit removed it, it was only not found | another owner's | keep |
| all else | any | delete within the limits, above either of them hold |

Either limit alone holds. The share is not applied to a few files (`floor`): replacing the three files of a
small project is everyday work. An approval releases the held paths only when it names the digest of the
plan there is now; any other approval is stale, and the decision says so.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import NamedTuple

FEW_FILES = 10
"""Up to this many deletions the share of the managed files is not looked at."""


class DeletionCause(StrEnum):
    """Why a path would be deleted."""

    GONE = "gone"  # the source no longer has it, or the API server reported its deletion
    UNMAPPED = "unmapped"  # earlier syncs wrote it by a mapping that was removed or has another destination
    ORPHAN = "orphan"  # inferred: it is there, and nothing that should be there claims it


class DeletionCandidate(NamedTuple):
    """One path that would be deleted."""

    path: str
    cause: DeletionCause = DeletionCause.GONE
    ours: bool = True
    """Whether this installation wrote it."""


class DeletionLimits(NamedTuple):
    """How much may be deleted without approval: both limits have to be kept."""

    files: int = 50
    percent: int = 50
    floor: int = FEW_FILES

    def exceeded(self, deleted: int, managed: int) -> str:
        """Which limit is exceeded, as the end of a sentence; empty when none is."""
        if deleted > self.files:
            return f"more than {self.files} files"
        if deleted > self.floor and deleted * 100 > self.percent * managed:
            return f"more than {self.percent} % of {managed} managed files"
        return ""


class DeletionDecision(NamedTuple):
    """What happens to each of the paths."""

    delete: tuple[DeletionCandidate, ...] = ()
    keep: tuple[DeletionCandidate, ...] = ()
    hold: tuple[DeletionCandidate, ...] = ()
    why: str = ""
    """Why paths are held, in one sentence with the digest to approve; empty when none is."""
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
    """Decide about one plan; `managed` counts the files that this installation keeps there before it.

    Where deletions come one by one, `earlier` counts those that went a moment ago without approval, and
    `joins_held` says that a part of the plan is held already: then all of it is.
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
    """The digest of a plan that consists of deletions alone."""
    return hashlib.sha256("".join(f"delete {path}\n" for path in sorted(paths)).encode()).hexdigest()


def _name_deletions(deletions: Sequence[DeletionCandidate]) -> str:
    first = deletions[0].path
    return first if len(deletions) == 1 else f"{len(deletions)} files (first: {first})"
