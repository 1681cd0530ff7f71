"""What people want of a watch, until its next turn: to be paused or stopped, a plan, a way back.

That it is paused or stopped is noted beside the ledger, and holds for whoever starts it
again. The rest is in the memory of this process alone. One errand at a time; the watcher
takes it in its turn (`stoker.dashboard.standalone.observed_sync`), and whoever asked may wait for how
it ended.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import NamedTuple

from stoker.dashboard.interfaces import ActionRefused
from stoker.domain.clock import Clock, parse_rfc3339, rfc3339
from stoker.domain.errors import Retry, StokerError
from stoker.domain.reasons import Reason
from stoker.engine.plan.guards import HeldPlan
from stoker.ignition.sync.state_files import StateFiles
from stoker.telemetry.logs import get_logger

STOPPED = "dashboard-stopped"
PAUSED = "dashboard-paused"
NOTES = (STOPPED, PAUSED)
"""Files beside the ledger; the first holds since when."""

log = get_logger(__name__)


@dataclass(frozen=True, slots=True, eq=False)
class PendingRollback:
    """A way back, or its end: done once, in the watcher's turn."""

    to: str
    """A snapshot or a commit to go back to; empty: let go of where it is."""
    approved: str = ""
    """The digest of the one plan by which a person approved it."""
    done: asyncio.Future[str] = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    """A sentence of what was done, or the error."""

    def succeed(self, sentence: str) -> None:
        if not self.done.done():
            self.done.set_result(sentence)

    def fail(self, error: Exception) -> None:
        if not self.done.done():
            self.done.set_exception(error)
            self.done.exception()  # whoever asked may be gone


class HeldRollback(NamedTuple):
    """A rollback that the deletion guard holds: an approval of its plan begins it again."""

    to: str
    held: HeldPlan


class PendingActions:
    """Between the hands and the watcher."""

    def __init__(self, clock: Clock, marks: StateFiles) -> None:
        self._clock = clock
        self._marks = marks
        self._errand: PendingRollback | None = None
        self.paused = False
        self.stopped_since = ""
        self._remember()
        self.approved: frozenset[str] = frozenset()
        """Digests of plans that somebody agreed to; they pass the guards once."""
        self.held_rollback: HeldRollback | None = None

    @property
    def stopped(self) -> bool:
        return bool(self.stopped_since)

    def note(self) -> None:
        """Let a restart know; what was said holds in this process whether that succeeds or not."""
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
        """Nothing begins any more; what waits is sent back."""
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
            raise ActionRefused(409, "another way back waits for its turn already", Reason.SYNC_IN_PROGRESS)
        self._errand = errand
        self.held_rollback = None

    @property
    def goes_back(self) -> bool:
        """Whether a way back waits for its turn."""
        return self._errand is not None and bool(self._errand.to)

    def way_back(self) -> PendingRollback | None:
        return self._taken() if self.goes_back else None

    def release(self) -> PendingRollback | None:
        return None if self.goes_back else self._taken()

    def _remember(self) -> None:
        try:
            stopped, self.paused = self._marks.read(STOPPED), self._marks.read(PAUSED) is not None
        except (StokerError, OSError) as error:  # nor will a pass find its ledger there
            log.warning("dashboard.notes_unknown", error=str(error))
            return
        if stopped is not None:
            self.stopped_since = _parse_time(stopped) or rfc3339(self._clock.now())

    def _taken(self) -> PendingRollback | None:
        errand, self._errand = self._errand, None
        return errand


def _parse_time(noted: bytes) -> str:
    try:
        return rfc3339(parse_rfc3339(noted.decode("ascii")))
    except ValueError:
        return ""
