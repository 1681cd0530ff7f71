"""The deletion brake of one destination: it holds deletions beyond the budget until a person approves them.

    pending deletions ─▶ decide ─▶ within the budget: they become commits
                              └──▶ beyond it: held, with all deletions that follow

It sits between `stoker.reverser.writer.outbox`, where the deletions of events and sweeps wait, and the
commits that `stoker.reverser.writer.push` builds. It never affects writes. Unapproved deletions of the last
`WINDOW` count together, so a namespace that is deleted object by object is held like a single burst. Held
deletions stay held until an approval names exactly this plan, or until their object exists again.

The counts belong to the folder (`DeletionRecord`) and outlive the outbox, which is replaced when its
GitRepoConfig, its login or the Lease changes. A replica that takes over the branch finds the same files as
orphans. `engaged` records that deletions were held before, so that a plan which has become smaller meanwhile
does not pass as everyday work. The new replica does not know the recent deletions of the old replica: this
allows at most one additional budget.

The brake deletes nothing and reads nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import NamedTuple

from stoker.domain.deletion_guard import DeletionCandidate, DeletionLimits, decide_deletions, deletions_digest
from stoker.reverser.writer.batch import PendingFileChange

WINDOW = 600.0
"""Seconds during which deletions without approval count together."""
_USED = "; its approval was used before and counts once: remove it from the annotation, then approve again"
MAX_NAMED = 10
"""The number of paths that a held plan names."""


class HeldDeletionPlan(NamedTuple):
    """Deletions that wait for an approval."""

    digest: str
    files: int
    first: tuple[str, ...]
    why: str


class DeletionVerdict(Enum):
    """The decision about pending deletions."""

    GO = auto()
    HOLD = auto()
    RELEASE = auto()
    """They and the held deletions are committed: a person approved them."""


@dataclass(slots=True)
class DeletionRecord:
    """The recent deletions of one folder, as far as this process knows them."""

    gone: dict[str, float] = field(default_factory=dict)
    """Path to the time at which it was deleted without approval."""
    engaged: bool = False
    used: set[str] = field(default_factory=set)
    """Approvals that are given and whose deletions are in git: each counts once."""

    def earlier(self, now: float, waiting: Collection[str]) -> int:
        """Count the deletions in the window; a path that is pending again was not pushed, or exists again."""
        self.gone = {path: at for path, at in self.gone.items() if at > now - WINDOW}
        return len(self.gone.keys() - waiting)


class DeletionRecords:
    """The records of all folders that this process writes or has written.

    No record is dropped: an outbox keeps the record that it was opened with, also while it is empty.
    """

    def __init__(self) -> None:
        self._records: dict[tuple[str, ...], DeletionRecord] = {}

    def of(self, folder: tuple[str, ...]) -> DeletionRecord:
        """Return the record of a folder, by repository, branch and path."""
        return self._records.setdefault(folder, DeletionRecord())


class DeletionBrake:
    """Holds the deletions of one destination."""

    def __init__(
        self, engaged: bool = False, used: Collection[str] = (), record: DeletionRecord | None = None
    ) -> None:
        self.held: dict[str, PendingFileChange] = {}
        self.approved: set[str] = set()
        """Paths whose deletion a person approved and that are still in git."""
        self._record = record if record is not None else DeletionRecord()
        self._record.engaged |= engaged
        self._record.used.update(used)
        self._released: dict[str, str] = {}
        """Path to the approval that released its deletion, until that is in git."""
        self._unlisted = self._record.engaged
        """Whether files may have been held before that no list has shown again yet."""
        self.plan: HeldDeletionPlan | None = None
        self.changed = bool(used)
        """Whether a new decision is possible for another reason than pending deletions."""

    @property
    def engaged(self) -> bool:
        """Whether deletions are held already: later deletions join them."""
        return self._record.engaged

    @property
    def approvals_used(self) -> frozenset[str]:
        """The approvals that no longer count until they are withdrawn."""
        return frozenset(self._record.used)

    def decide(
        self,
        waiting: Sequence[PendingFileChange],
        managed: int,
        limits: DeletionLimits,
        approvals: Collection[str],
        now: float,
    ) -> DeletionVerdict:
        """Decide about pending deletions together with the held ones."""
        self.changed = False
        used = self._record.used
        used.intersection_update(approvals)  # a withdrawn approval may be given again
        paths = sorted({*self.held, *(change.path for change in waiting)})
        if not paths:
            self.plan = None
            return DeletionVerdict.GO
        digest = deletions_digest(paths)
        # A stale approval is named in the reason; of several approvals, the last.
        unused = [approval for approval in approvals if approval not in used]
        approval = digest if digest in unused else next(reversed(unused), "")
        decision = decide_deletions(
            [DeletionCandidate(path) for path in paths],
            managed,
            limits,
            digest=digest,
            approved=approval,
            earlier=self._record.earlier(now, set(paths)),
            joins_held=self.engaged,
        )
        if decision.hold:
            self._record.engaged = True
            why = f"{decision.why}{_USED}" if digest in used else decision.why
            self.plan = HeldDeletionPlan(digest, len(paths), tuple(map(str, paths[:MAX_NAMED])), why)
            return DeletionVerdict.HOLD
        self.plan = None
        if approval != digest:
            return DeletionVerdict.GO
        self._record.engaged = self._unlisted
        self.approved |= set(paths)
        self._released |= dict.fromkeys(paths, digest)
        return DeletionVerdict.RELEASE

    def taken(self, paths: Collection[str], now: float) -> None:
        """Record deletions that became commits."""
        self._record.gone |= dict.fromkeys(set(paths) - self.approved, now)
        self.approved.difference_update(paths)

    def pushed(self, paths: Collection[str]) -> None:
        """Mark the approvals that released these changes as used: the changes are in git."""
        if self._released:
            self._record.used.update(self._released.pop(path) for path in paths if path in self._released)

    def returned(self, path: str) -> None:
        """Drop the deletion of a file, because its object exists again."""
        self.approved.discard(path)
        self._released.pop(path, None)
        if self.held.pop(path, None) is not None:
            self.changed = True
            self._record.engaged = self._unlisted or bool(self.held)

    def all_listed(self, dropped: int) -> None:
        """All lists are complete: reset `engaged` if no deletion is held and none was dropped."""
        self._unlisted = False
        if not self.held and not dropped:
            self._record.engaged = False
