"""Requested actions until the loop's next iteration: pause, stop, approved plans, a rollback.

Pause and stop are stored in files beside the ledger and survive a restart. The rest exists only in the
memory of this process. At most one rollback is pending; the sync loop takes it
(`stoker.dashboard.standalone.sync_observer`), and its requester may wait for the result.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import NamedTuple

from stoker.dashboard.interfaces import ActionRefused
from stoker.domain.clock import Clock, rfc3339, rfc3339_or
from stoker.domain.errors import Retry, StokerError
from stoker.domain.reasons import Reason
from stoker.engine.plan.guards import HeldPlan
from stoker.ignition.sync.state_files import StateFiles
from stoker.telemetry.logs import get_logger

STOPPED = "dashboard-stopped"
PAUSED = "dashboard-paused"
NOTES = (STOPPED, PAUSED)
"""Files beside the ledger; the content of the first is the time of the stop."""

log = get_logger(__name__)


@dataclass(frozen=True, slots=True, eq=False)
class PendingRollback:
    """A requested rollback, or its release; the sync loop performs it once."""

    to: str
    """The snapshot or commit to roll back to; empty: release the rollback and follow the ref again."""
    approved: str = ""
    """The digest of the single plan that a user approved for it."""
    done: asyncio.Future[str] = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    """A sentence about the result, or the error."""

    def succeed(self, sentence: str) -> None:
        if not self.done.done():
            self.done.set_result(sentence)

    def fail(self, error: Exception) -> None:
        if not self.done.done():
            self.done.set_exception(error)
            self.done.exception()  # mark it as retrieved: the requester may be gone


class HeldRollback(NamedTuple):
    """A rollback that the deletion guard holds; an approval of its plan starts it again."""

    to: str
    held: HeldPlan


class PendingActions:
    """Pending actions, passed from `LocalActions` to the sync loop."""

    def __init__(self, clock: Clock, marks: StateFiles) -> None:
        self._clock = clock
        self._marks = marks
        self._errand: PendingRollback | None = None
        self.paused = False
        self.stopped_since = ""
        self._remember()
        self.approved: frozenset[str] = frozenset()
        """Digests of plans that a user approved; each passes the guards once."""
        self.held_rollback: HeldRollback | None = None

    @property
    def stopped(self) -> bool:
        return bool(self.stopped_since)

    def note(self) -> None:
        """Store pause and stop for a restart; in this process they hold even if the write fails."""
        try:
            for name, content in ((STOPPED, self.stopped_since), (PAUSED, "yes" if self.paused else "")):
                if content:
                    self._marks.write(name, content.encode())
                else:
                    self._marks.clear(name)
        except (StokerError, OSError) as error:
            raise Retry(
                f"it is done, but a restart will not know of it: {error}", reason=Reason.DATA_VOLUME_FAILED
            ) from error

    def stop(self) -> None:
        """Start nothing more, and refuse the pending rollback."""
        self.stopped_since = self.stopped_since or rfc3339(self._clock.now())
        if self._errand is not None:
            self._errand.fail(ActionRefused(409, "everything was stopped before it began", Reason.PAUSED))
            self._errand = None
        self.held_rollback = None

    def go_on(self) -> None:
        self.stopped_since = ""

    def agree(self, digest: str) -> None:
        rollback = self.held_rollback
        if rollback is not None and rollback.held.plan.digest == digest:
            self.ask(PendingRollback(rollback.to, approved=digest))
        else:
            self.approved |= {digest}

    def ask(self, errand: PendingRollback) -> None:
        if self.stopped:
            raise ActionRefused(409, "everything is stopped; let it go on first", Reason.PAUSED)
        if self._errand is not None:
            raise ActionRefused(409, "another rollback is already waiting", Reason.SYNC_IN_PROGRESS)
        self._errand = errand
        self.held_rollback = None

    @property
    def goes_back(self) -> bool:
        """Whether a rollback is pending."""
        return self._errand is not None and bool(self._errand.to)

    def way_back(self) -> PendingRollback | None:
        return self._taken() if self.goes_back else None

    def release(self) -> PendingRollback | None:
        return None if self.goes_back else self._taken()

    def _remember(self) -> None:
        try:
            stopped, self.paused = self._marks.read(STOPPED), self._marks.read(PAUSED) is not None
        except (StokerError, OSError) as error:  # a sync will not find its ledger either
            log.warning("dashboard.notes_unknown", error=str(error))
            return
        if stopped is not None:
            self.stopped_since = rfc3339(rfc3339_or(stopped.decode("ascii", "replace"), self._clock.now()))

    def _taken(self) -> PendingRollback | None:
        errand, self._errand = self._errand, None
        return errand
