"""Wraps the syncs of a folder: reports each, and performs a pending rollback in place of a sync.

Between the sync loop and the data folder (`stoker.agent.loop.loop.SyncableFolder`). It decides nothing
about files: a rollback is that of `stoker rollback`, run here so that it never runs during a sync.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from stoker.agent.loop.log_dedup import DriftedFiles
from stoker.agent.rollback.report import pinned_report
from stoker.agent.rollback.rollback import FolderRollback
from stoker.agent.rollback.state import HAND, QuarantineRecord, RollbackPin
from stoker.agent.status.fields import GatewayOutcomeFields
from stoker.agent.status.status_report import CurrentReport
from stoker.agent.sync.sync_report import SyncReport
from stoker.dashboard.standalone.pending_actions import HeldRollback, PendingActions, PendingRollback
from stoker.domain.errors import StokerError, Wait
from stoker.domain.reasons import Reason
from stoker.domain.refs import GitRef
from stoker.engine.plan.guards import HeldPlan
from stoker.engine.plan.ledger import Ledger
from stoker.snapshots.types import Snapshot


class ObservedFolder(Protocol):
    """A data folder with its gateway, as the command line syncs it."""

    @property
    def undoing(self) -> FolderRollback | None: ...
    @property
    def outcome(self) -> GatewayOutcomeFields | None: ...
    @property
    def ledger(self) -> Ledger | None: ...
    async def sync(self, *, walk: bool = True, dry_run: bool = False) -> SyncReport: ...
    async def verify(self) -> DriftedFiles: ...


class RollbackCommands(Protocol):
    """The rollbacks of a data folder, as `stoker rollback` performs them."""

    async def go_back(self, to: str, approved: str) -> SyncReport:
        """Roll back to a snapshot or a commit and stay there; `approved` is a plan's digest, or empty."""
        ...

    def release(self) -> Sequence[str]:
        """Follow the ref again; return descriptions of what was released."""
        ...

    def snapshots(self) -> Sequence[Snapshot]:
        """Return the snapshots that can be restored; blocking, so call it in a thread."""
        ...

    @property
    def pin(self) -> RollbackPin | None:
        """The target of a requested rollback."""
        ...

    @property
    def quarantine(self) -> QuarantineRecord | None:
        """The record of an automatic rollback."""
        ...


@dataclass(frozen=True, slots=True)
class ObservedSync:
    """The folder as the sync loop sees it, with reports and pending actions."""

    folder: ObservedFolder
    ways: RollbackCommands
    board: CurrentReport
    desk: PendingActions
    ref: GitRef
    following: bool
    """False: the folder is paused, and the loop runs only for a pending rollback."""
    looked: Callable[[bool], None]
    """Called after each sync with whether it changed files."""

    async def sync(self, *, walk: bool) -> SyncReport:
        errand = self.desk.way_back()
        if errand is not None:
            return await self._gone_back(errand)
        if not self.following:
            raise Wait(
                "it is paused, and what it was woken for was called off", after=1.0, reason=Reason.PAUSED
            )
        given = self.desk.approved
        try:
            report = await self.folder.sync(walk=walk)
        except StokerError as error:
            self._failed(error)
            raise
        if report.waits is None:
            self.desk.approved -= given
        self._copied()
        self.board.passed(report, self.folder.outcome, self.folder.ledger)
        if walk:
            self.board.drifted(report.drift_left)
        self.looked(report.files_changed > 0)
        return report

    async def verify(self) -> DriftedFiles:
        drift = await self.folder.verify()
        self.board.drifted(drift)
        return drift

    async def _gone_back(self, errand: PendingRollback) -> SyncReport:
        self.board.syncing()
        try:
            report = await self.ways.go_back(errand.to, errand.approved)
        except StokerError as error:
            self.board.failed(error, self.folder.outcome)
            if isinstance(error, HeldPlan):
                self.desk.held_rollback = HeldRollback(errand.to, error)
            errand.fail(error)
            raise
        except BaseException:
            errand.fail(StokerError("the rollback was interrupted; the log says more"))
            raise
        pin = self.ways.pin
        if pin is not None:
            self.board.stays(pin, report, None)
        self.looked(True)
        errand.succeed(f"The files are at {errand.to[:40]} and stay there until a user releases them.")
        return report

    def _failed(self, error: StokerError) -> None:
        pin = self.ways.pin
        if error.reason is Reason.ROLLED_BACK and pin is not None and pin.by == HAND:
            self.board.stays(
                pin, pinned_report(pin, None, (), self.ref), None
            )  # a requested rollback, not an error
            return
        self._copied()
        self.board.failed(error, self.folder.outcome)

    def _copied(self) -> None:
        if self.folder.undoing is not None:
            self.board.copied(self.folder.undoing.standing)
