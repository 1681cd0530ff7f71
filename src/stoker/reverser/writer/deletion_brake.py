"""The deletion brake of one destination: deletions beyond the budget are held until a person approves them.

    deletions that wait ─▶ decide ─▶ within the budget: they become commits
                                └──▶ beyond it: held, with all deletions that follow

Between `stoker.reverser.writer.outbox`, where the deletions of events and of the sweep wait, and the commits
that `stoker.reverser.writer.push` makes of them. Writes never come here. What went without approval during
the last `WINDOW` counts, so a namespace that is deleted object by object is held as a whole burst is. What is
held stays held until an approval names exactly this plan, or until its object is back. A replica that takes
the branch over finds the same files as orphans; `engaged` says that they were held before, so that a plan
which became smaller meanwhile is not taken for everyday work.

It deletes nothing and reads nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Sequence
from enum import Enum, auto
from typing import NamedTuple

from stoker.domain.deletion_guard import Deletion, DeletionLimits, decide, digest_of
from stoker.reverser.writer.batch import Change

WINDOW = 600.0
"""Seconds during which deletions without approval count together."""
NAMED = 10
"""How many paths of a held plan are named."""


class HeldPlan(NamedTuple):
    """Deletions that wait for an approval."""

    digest: str
    files: int
    first: tuple[str, ...]
    why: str


class Verdict(Enum):
    """What happens to the deletions that wait."""

    GO = auto()
    HOLD = auto()
    RELEASE = auto()
    """They and those that were held go: a person approved them."""


class DeletionBrake:
    """What of one destination is held."""

    def __init__(self, *, engaged: bool = False) -> None:
        self.held: dict[str, Change] = {}
        self.approved: set[str] = set()
        """Paths that a person approved and that are not in git yet."""
        self.engaged = engaged
        """Whether deletions are held already: those that follow join them."""
        self.plan: HeldPlan | None = None
        self.changed = False
        """Whether something else than the deletions that wait makes another decision possible."""
        self._gone: deque[tuple[float, int]] = deque()

    def decide(
        self,
        waiting: Sequence[Change],
        managed: int,
        limits: DeletionLimits,
        approvals: Collection[str],
        now: float,
    ) -> Verdict:
        """Decide about what waits, together with what is held."""
        self.changed = False
        paths = sorted({*self.held, *(change.path for change in waiting)})
        if not paths:
            self.plan = None
            return Verdict.GO
        digest = digest_of(paths)
        # A stale approval is named; where several were given, the last of them.
        approval = digest if digest in approvals else next(reversed(tuple(approvals)), "")
        decision = decide(
            [Deletion(path) for path in paths],
            managed,
            limits,
            digest=digest,
            approved=approval,
            earlier=self._earlier(now),
            joins_held=self.engaged,
        )
        if decision.hold:
            self.engaged = True
            self.plan = HeldPlan(digest, len(paths), tuple(map(str, paths[:NAMED])), decision.why)
            return Verdict.HOLD
        self.plan = None
        if approval != digest:
            return Verdict.GO
        self.engaged = False
        self.approved |= set(paths)
        return Verdict.RELEASE

    def taken(self, paths: Collection[str], now: float) -> None:
        """These deletions became commits."""
        unasked = len([path for path in paths if path not in self.approved])
        self.approved.difference_update(paths)
        if unasked:
            self._gone.append((now, unasked))

    def returned(self, path: str) -> None:
        """The object of a file is there again: its deletion is not wanted any more."""
        self.approved.discard(path)
        if self.held.pop(path, None) is not None:
            self.changed = True
            self.engaged = bool(self.held)

    def nothing_held(self) -> None:
        """All lists are in, and what was held before this replica began does not exist any more."""
        if not self.held:
            self.engaged = False

    def _earlier(self, now: float) -> int:
        while self._gone and self._gone[0][0] <= now - WINDOW:
            self._gone.popleft()
        return sum(count for _, count in self._gone)
