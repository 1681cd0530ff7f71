"""One turn of the watcher at this pod's gateway: the pass, and what is said about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from stoker.agent.audit.audit_log import MANUAL, POLLING, AuditLog
from stoker.agent.desired_state import DesiredState
from stoker.agent.loop.gateway_sync import FolderAndGatewaySync
from stoker.agent.sidecar.memory_release import LARGE, MemoryTrimmer
from stoker.agent.sidecar.startup import StartupGate
from stoker.agent.status.status_report import CurrentReport
from stoker.agent.sync.jobs import SyncOptions
from stoker.agent.sync.outcomes import SyncResult
from stoker.agent.sync.sync_report import SyncReport
from stoker.domain.clock import Clock
from stoker.domain.errors import Stalled, StokerError
from stoker.domain.reasons import Reason
from stoker.engine.plan.drift import FolderDrift
from stoker.telemetry import tracing

if TYPE_CHECKING:
    from stoker.ignition.sync.gateway_hook import GatewayHook, GatewayOutcome

_IN_PLACE = (SyncResult.DONE, SyncResult.UNVERIFIED)


@dataclass(frozen=True, slots=True)
class SyncTurn:
    """What the watcher may do now (`stoker.agent.loop.loop.SyncableFolder`)."""

    direction: DesiredState
    tended: FolderAndGatewaySync
    attendant: GatewayHook | None
    board: CurrentReport
    startup: StartupGate
    trimmer: MemoryTrimmer
    clock: Clock
    audit: AuditLog

    async def sync(self, *, walk: bool) -> SyncReport:
        """One pass, told in the report however it ends; one to another commit is a part of its trace."""
        if self.direction.commit == self.board.report.synced_commit:
            return await self._sync(walk=walk)
        where = {"namespace": self.board.report.namespace, "gateway": self.direction.intent.gateway}
        trace = self.direction.traceparent
        with tracing.span("agent.pass", parent=trace, **where, commit=self.direction.commit or "") as told:
            report = await self._sync(walk=walk)
            told.say(result=str(report.result), files=report.files_changed)
            return report

    async def _sync(self, *, walk: bool) -> SyncReport:
        if self.direction.pinned_at:
            return await self._stay()
        keeper = self.tended.keeper
        unread = keeper.ledger is None
        second = self._before()
        wish = self._wish(walk=walk or second or self._is_approved(), second=second)
        trigger, only_planned = self._trigger, wish.dry_run or wish.waits is not None
        if wish.commit is not None and not only_planned and wish.commit != self.board.report.synced_commit:
            self.board.syncing()
        try:
            planned = wish.dry_run and self.direction.gate is not Reason.DRY_RUN
            if planned and self.tended.undoing is not None:
                await self.tended.undoing.finish(keeper.job)  # a gate holds changes, not the way back
            report = await self.tended.sync(wish)
        except StokerError as error:
            self._failed(error, trigger)
            raise
        if second and report.result in _IN_PLACE and self.attendant is not None:
            self.attendant.commissioned()
        self._tell_copies()
        self.board.passed(report, self._attended, keeper.ledger)
        self.audit.passed(report, trigger, self.board.report.scan_result, self.direction.gate or "")
        self._tell_drift(report, walked=wish.walk)
        self.startup.passed(report)
        if report.files_changed >= LARGE or second:
            self.trimmer.soon(keeper.forget)
        elif unread or wish.walk or report.files_changed:
            self.trimmer.soon()
        return report

    def _tell_drift(self, report: SyncReport, *, walked: bool) -> None:
        if report.waits is not None:
            if walked:
                self.board.drifted(report.drift)  # it waits as well, so it is told
        elif (walked or report.drift) and report.applied is not None and report.result in _IN_PLACE:
            self.board.drifted(report.drift_left)

    async def _stay(self) -> SyncReport:
        """Be at the snapshot that somebody went back to, and nowhere else."""
        undoing, asked = self.tended.undoing, self.direction.rollback
        if undoing is None or asked is None:  # made for who is pinned
            raise StokerError("nobody can go back to a snapshot here")
        self._before()
        try:
            if self.direction.gate is Reason.DRY_RUN:
                raise Stalled(
                    f"nothing is written here, so snapshot {asked.to_snapshot} is not put back",
                    reason=Reason.DRY_RUN,
                )
            job, approved = self.tended.keeper.job, self.direction.approved
            pin, report = await undoing.stay(job, asked.id, asked.to_snapshot, approved=approved)
        except StokerError as error:
            self._failed(error, self._trigger)
            raise
        self._tell_copies()
        self.board.stays(pin, report, self._attended)
        self.audit.passed(report, self._trigger, self.board.report.scan_result)
        self.startup.passed(report)
        self.trimmer.soon()
        return report

    def _failed(self, error: StokerError, trigger: str) -> None:
        self._tell_copies()
        self.board.failed(error, self._attended)
        said = self.board.report
        self.audit.failed(error, trigger, commit=said.commit, ref=said.ref)
        self.startup.failed(f"{error.reason}: {error.message}")
        quarantine = self.tended.undoing.standing.quarantine if self.tended.undoing is not None else None
        if quarantine is not None and quarantine.restored and error.reason == quarantine.reason:
            self.startup.stays()

    @property
    def _trigger(self) -> str:
        """Who made this change: who goes back, who moved the ref, or our own look at the disk."""
        if self.direction.rollback is not None:
            return MANUAL
        is_new = self.direction.commit != self.board.report.synced_commit
        return (self.direction.trigger if is_new else "") or POLLING

    def _tell_copies(self) -> None:
        if self.tended.undoing is not None:
            self.board.copied(self.tended.undoing.standing)

    async def verify(self) -> FolderDrift:
        """What somebody else changed; nothing, where nothing was ever written."""
        try:
            drift = await self.tended.verify()
        except Stalled as error:
            if error.reason is not Reason.NEVER_SYNCED:
                raise
            return FolderDrift()
        self.board.drifted(drift)
        self.trimmer.soon()
        return drift

    def _before(self) -> bool:
        """Whether this is the second sync, which meets what the gateway's first boot has made."""
        if self.attendant is None:
            return False
        self.attendant.initial = self.startup.initial
        return self.attendant.needs_second_sync

    def _is_approved(self) -> bool:
        """Whether somebody wants the plan that we showed; files of others are only found by looking."""
        pending = self.board.report.pending_plan
        return pending is not None and pending.digest in {one.digest for one in self.direction.approved}

    def _wish(self, *, walk: bool, second: bool) -> SyncOptions:
        gate = self.direction.gate
        if gate is Reason.PLAN_PENDING and not self.startup.synced_before:
            gate = None  # gates stand before changes, not before a gateway's first files (C-111)
        # A plan that somebody is to agree to must be the same whenever it is made: with all that was touched.
        asked = gate is Reason.PLAN_PENDING or bool(self.direction.only)
        walk = walk or (asked and self.direction.commit != self.board.report.synced_commit)
        return SyncOptions(
            walk=walk,
            dry_run=gate is not None,
            approved=self.direction.approved,
            commit=self.direction.commit,
            first_contact=second,
            released=frozenset(self.direction.intent.released_commits),
            goes_back=self.direction.rollback is not None,
            # What the gateway's first boot has left behind belongs to its first sync.
            waits=None if second else self.direction.waits(self.clock.now()),
            only=self.direction.only,
        )

    @property
    def _attended(self) -> GatewayOutcome | None:
        return None if self.attendant is None else self.attendant.outcome
