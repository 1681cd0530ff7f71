"""Shows the syncs of a folder on the dashboard, and performs a pending rollback in place of a sync.

`stoker.cli.sync.sync_setup.ConfiguredSync` calls it before and after each sync. It decides nothing about
files: a rollback is that of `stoker rollback`, performed here so that it never runs during a sync.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from stoker.agent.rollback.report import pinned_report
from stoker.agent.rollback.state import HAND, QuarantineRecord, RollbackPin
from stoker.agent.status.status_report import CurrentReport
from stoker.agent.sync.folder import FolderSync
from stoker.agent.sync.sync_report import SyncReport
from stoker.dashboard.standalone.pending_actions import HeldRollback, PendingActions, PendingRollback
from stoker.domain.errors import StokerError, Wait
from stoker.domain.reasons import Reason
from stoker.domain.refs import GitRef
from stoker.engine.plan.drift import FolderDrift
from stoker.engine.plan.guards import HeldPlan
from stoker.snapshots.types import Snapshot

if TYPE_CHECKING:
    from stoker.ignition.sync.gateway_hook import GatewayOutcome


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
class SyncObserver:
    """Reports one sync, and the pending actions of users before it."""

    ways: RollbackCommands
    board: CurrentReport
    desk: PendingActions
    ref: GitRef
    following: bool
    """False: the folder is paused, and the loop runs only for a pending rollback."""
    looked: Callable[[bool], None]
    """Called after each sync with whether it changed files."""

    @property
    def approved(self) -> frozenset[str]:
        """Digests of plans that users approved and that no sync has used yet."""
        return self.desk.approved

    async def pending_rollback(self, folder: FolderSync) -> SyncReport | None:
        """Perform the pending rollback in place of a sync; None if there is none."""
        errand = self.desk.way_back()
        if errand is not None:
            return await self._gone_back(errand, folder)
        if not self.following:
            raise Wait(
                "it is paused, and what it was woken for was called off", after=1.0, reason=Reason.PAUSED
            )
        return None

    def passed(self, report: SyncReport, folder: FolderSync, approved: frozenset[str], *, walk: bool) -> None:
        """Report a finished sync; it has used the `approved` plans unless it waits for its window."""
        if report.waits is None:
            self.desk.approved -= approved
        self._copied(folder)
        self.board.passed(report, _outcome(folder), folder.ledger)
        if walk:
            self.board.drifted(report.drift_left)
        self.looked(report.files_changed > 0)

    def failed(self, error: StokerError, folder: FolderSync) -> None:
        pin = self.ways.pin
        if error.reason is Reason.ROLLED_BACK and pin is not None and pin.by == HAND:
            self.board.stays(
                pin, pinned_report(pin, None, (), self.ref), None
            )  # a requested rollback, not an error
            return
        self._copied(folder)
        self.board.failed(error, _outcome(folder))

    def drifted(self, drift: FolderDrift) -> None:
        self.board.drifted(drift)

    async def _gone_back(self, errand: PendingRollback, folder: FolderSync) -> SyncReport:
        self.board.syncing()
        try:
            report = await self.ways.go_back(errand.to, errand.approved)
        except StokerError as error:
            self.board.failed(error, _outcome(folder))
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

    def _copied(self, folder: FolderSync) -> None:
        if folder.rollback is not None:
            self.board.copied(folder.rollback.standing)


def _outcome(folder: FolderSync) -> GatewayOutcome | None:
    return folder.gateway.outcome if folder.gateway is not None else None
