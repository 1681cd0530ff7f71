"""One sync of the sidecar, with its status report, audit record and startup gate.

    SyncLoop ─► SidecarSync ─► FolderSync ─► SyncPass ─► apply_change()

A sync and a step of the change capture exclude each other. Memory of a large sync is released afterwards.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING

from stoker.agent.audit.audit_log import MANUAL, POLLING, AuditLog
from stoker.agent.desired_state import DesiredState
from stoker.agent.sidecar.memory_release import LARGE, MemoryTrimmer
from stoker.agent.sidecar.startup import StartupGate
from stoker.agent.status.status_report import CurrentReport
from stoker.agent.sync.folder import FolderSync
from stoker.agent.sync.jobs import SyncOptions
from stoker.agent.sync.sync_report import SyncReport
from stoker.domain.clock import Clock
from stoker.domain.errors import Stalled, StokerError
from stoker.domain.reasons import Reason
from stoker.engine.plan.drift import FolderDrift
from stoker.telemetry import tracing

if TYPE_CHECKING:
    from stoker.ignition.sync.gateway_hook import GatewayOutcome


@dataclass(frozen=True, slots=True)
class SidecarSync:
    """The sync that the loop runs in this iteration (`stoker.agent.loop.loop.SyncableFolder`)."""

    direction: DesiredState
    folder: FolderSync
    board: CurrentReport
    startup: StartupGate
    trimmer: MemoryTrimmer
    clock: Clock
    audit: AuditLog

    async def sync(self, *, walk: bool) -> SyncReport:
        """Sync once and report the result or error; no capture step runs meanwhile."""
        capture = self.folder.capture
        if capture is None:
            return await self._traced(walk=walk)
        async with capture.lock:
            report = await self._traced(walk=walk)
        capture.passed(report)
        return report

    async def verify(self) -> FolderDrift:
        """Return the drift; empty if the folder was never synced."""
        capture = self.folder.capture
        async with capture.lock if capture is not None else nullcontext():
            try:
                drift = (await self.folder.verify()).drift
            except Stalled as error:
                if error.reason is not Reason.NEVER_SYNCED:
                    raise
                return FolderDrift()
            self.board.drifted(drift)
            self.trimmer.soon()
            return drift

    async def _traced(self, *, walk: bool) -> SyncReport:
        """Sync; a sync to a new commit joins the controller's trace."""
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
        folder = self.folder
        unread = folder.ledger is None
        second = self._before()
        wish = self._wish(walk=walk or second or self._is_approved(), second=second)
        trigger, only_planned = self._trigger, wish.dry_run or wish.waits is not None
        if wish.commit is not None and not only_planned and wish.commit != self.board.report.synced_commit:
            self.board.syncing()
        try:
            planned = wish.dry_run and self.direction.gate is not Reason.DRY_RUN
            if planned and folder.rollback is not None:
                await folder.rollback.finish(folder.job)  # a gate holds changes, not a pending rollback
            report = await folder.sync(wish)
        except StokerError as error:
            self._failed(error, trigger)
            raise
        if second and report.result.in_place and folder.gateway is not None:
            folder.gateway.commissioned()
        self._tell_copies()
        self.board.passed(report, self._attended, folder.ledger)
        self.audit.passed(report, trigger, self.board.report.scan_result, self.direction.gate or "")
        self._tell_drift(report, walked=wish.walk)
        self.startup.passed(report)
        if report.files_changed >= LARGE or second:
            self.trimmer.soon(folder.forget)
        elif unread or wish.walk or report.files_changed:
            self.trimmer.soon()
        return report

    def _tell_drift(self, report: SyncReport, *, walked: bool) -> None:
        if report.waits is not None:
            if walked:
                self.board.drifted(report.drift)  # it waits for the window as well, so report it
        elif (walked or report.drift) and report.applied is not None and report.result.in_place:
            self.board.drifted(report.drift_left)

    async def _stay(self) -> SyncReport:
        """Stay at the snapshot that a person restored."""
        rollback, asked = self.folder.rollback, self.direction.rollback
        if rollback is None or asked is None:  # every pinned gateway has a rollback
            raise StokerError("this agent cannot restore snapshots")
        self._before()
        try:
            if self.direction.gate is Reason.DRY_RUN:
                raise Stalled(
                    f"this is a dry run, so snapshot {asked.to_snapshot} is not restored",
                    reason=Reason.DRY_RUN,
                )
            job, approved = self.folder.job, self.direction.approved
            pin, report = await rollback.stay(job, asked.id, asked.to_snapshot, approved=approved)
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
        rollback = self.folder.rollback
        quarantine = rollback.standing.quarantine if rollback is not None else None
        if quarantine is not None and quarantine.restored and error.reason == quarantine.reason:
            self.startup.stays()

    @property
    def _trigger(self) -> str:
        """The trigger of this change: a rollback request, a moved ref, or the agent's own polling."""
        if self.direction.rollback is not None:
            return MANUAL
        is_new = self.direction.commit != self.board.report.synced_commit
        return (self.direction.trigger if is_new else "") or POLLING

    def _tell_copies(self) -> None:
        if self.folder.rollback is not None:
            self.board.copied(self.folder.rollback.standing)

    def _before(self) -> bool:
        """Return whether this is the second sync, which handles the files of the gateway's first boot."""
        gateway = self.folder.gateway
        if gateway is None:
            return False
        gateway.initial = self.startup.initial
        return gateway.needs_second_sync

    def _is_approved(self) -> bool:
        """Return whether the reported plan was approved; only a walk finds the unmanaged files it deletes."""
        pending = self.board.report.pending_plan
        return pending is not None and pending.digest in {one.digest for one in self.direction.approved}

    def _wish(self, *, walk: bool, second: bool) -> SyncOptions:
        gate = self.direction.gate
        if gate is Reason.PLAN_PENDING and not self.startup.synced_before:
            gate = None  # gates apply to changes, not to a gateway's first files
        # A plan to be approved must have the same digest each time, so it has to include all drift.
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
            # Files left by the gateway's first boot belong to its first sync, so no window applies.
            waits=None if second else self.direction.waits(self.clock.now()),
            only=self.direction.only,
        )

    @property
    def _attended(self) -> GatewayOutcome | None:
        return None if self.folder.gateway is None else self.folder.gateway.outcome
