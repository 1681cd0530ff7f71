"""The deletion brake of one destination: deletions beyond the budget are held until a person approves them.

    deletions that wait ─▶ decide ─▶ within the budget: they become commits
                                └──▶ beyond it: held, with all deletions that follow

Between `stoker.reverser.writer.outbox`, where the deletions of events and of the sweep wait, and the commits
that `stoker.reverser.writer.push` makes of them. Writes never come here. What went without approval during
the last `WINDOW` counts, so a namespace that is deleted object by object is held as a whole burst is. What is
held stays held until an approval names exactly this plan, or until its object is back.

What counts belongs to the folder (`DeletionRecord`) and outlives the outbox, which begins anew when its
GitRepoConfig, its login or the Lease changes. A replica that takes the branch over finds the same files as
orphans; `engaged` says that they were held before, so that a plan which became smaller meanwhile is not taken
for everyday work. What the other replica deleted a moment ago it does not know: it adds at most one budget.

It deletes nothing and reads nothing.
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
MAX_NAMED = 10
"""How many paths of a held plan are named."""


class HeldDeletionPlan(NamedTuple):
    """Deletions that wait for an approval."""

    digest: str
    files: int
    first: tuple[str, ...]
    why: str


class DeletionVerdict(Enum):
    """What happens to the deletions that wait."""

    GO = auto()
    HOLD = auto()
    RELEASE = auto()
    """They and those that were held go: a person approved them."""


@dataclass(slots=True)
class DeletionRecord:
    """What one process knows of the deletions in one folder."""

    gone: dict[str, float] = field(default_factory=dict)
    """Path to the time at which it was deleted without approval."""
    engaged: bool = False

    def earlier(self, now: float, waiting: Collection[str]) -> int:
        """How many went during the window; one that waits again was never pushed, or is there again."""
        self.forget(now)
        return len(self.gone.keys() - waiting)

    def forget(self, now: float) -> None:
        self.gone = {path: at for path, at in self.gone.items() if at > now - WINDOW}


class DeletionRecords:
    """The records of all folders that this process writes or has written."""

    def __init__(self) -> None:
        self._records: dict[tuple[str, ...], DeletionRecord] = {}

    def of(self, folder: tuple[str, ...], now: float) -> DeletionRecord:
        """The record of a folder, by repository, branch and path."""
        for key, record in list(self._records.items()):
            record.forget(now)
            if key != folder and not record.gone and not record.engaged:
                del self._records[key]
        return self._records.setdefault(folder, DeletionRecord())


class DeletionBrake:
    """What of one destination is held."""

    def __init__(self, *, engaged: bool = False, record: DeletionRecord | None = None) -> None:
        self.held: dict[str, PendingFileChange] = {}
        self.approved: set[str] = set()
        """Paths that a person approved and that are not in git yet."""
        self._record = record if record is not None else DeletionRecord()
        self._record.engaged |= engaged
        self.plan: HeldDeletionPlan | None = None
        self.changed = False
        """Whether something else than the deletions that wait makes another decision possible."""

    @property
    def engaged(self) -> bool:
        """Whether deletions are held already: those that follow join them."""
        return self._record.engaged

    def decide(
        self,
        waiting: Sequence[PendingFileChange],
        managed: int,
        limits: DeletionLimits,
        approvals: Collection[str],
        now: float,
    ) -> DeletionVerdict:
        """Decide about what waits, together with what is held."""
        self.changed = False
        paths = sorted({*self.held, *(change.path for change in waiting)})
        if not paths:
            self.plan = None
            return DeletionVerdict.GO
        digest = deletions_digest(paths)
        # A stale approval is named; where several were given, the last of them.
        approval = digest if digest in approvals else next(reversed(tuple(approvals)), "")
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
            self.plan = HeldDeletionPlan(digest, len(paths), tuple(map(str, paths[:MAX_NAMED])), decision.why)
            return DeletionVerdict.HOLD
        self.plan = None
        if approval != digest:
            return DeletionVerdict.GO
        self._record.engaged = False
        self.approved |= set(paths)
        return DeletionVerdict.RELEASE

    def taken(self, paths: Collection[str], now: float) -> None:
        """These deletions became commits."""
        self._record.gone |= dict.fromkeys(set(paths) - self.approved, now)
        self.approved.difference_update(paths)

    def returned(self, path: str) -> None:
        """The object of a file is there again: its deletion is not wanted any more."""
        self.approved.discard(path)
        if self.held.pop(path, None) is not None:
            self.changed = True
            self._record.engaged = bool(self.held)

    def nothing_held(self) -> None:
        """All lists are in, and what was held before this replica began does not exist any more."""
        if not self.held:
            self._record.engaged = False
