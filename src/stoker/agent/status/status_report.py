"""Builds the current report of this gateway from syncs, failures, pauses and drift.

After each event it offers the whole report to `stoker.agent.status.publisher`. The result of a sync stays
until another sync changes something, so a sync without changes leaves the report as it is. It must never
raise: reporting must not fail a sync.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from stoker import __version__
from stoker.agent.desired_state import DesiredState, ReportAddress
from stoker.agent.identity import AgentIdentity
from stoker.agent.rollback import report as going_back
from stoker.agent.status import fields
from stoker.agent.sync.jobs import SyncResult
from stoker.agent.sync.sync_report import SyncReport
from stoker.domain.clock import Clock, rfc3339
from stoker.domain.errors import StokerError, Wait
from stoker.domain.protocol import (
    PROTOCOL_VERSION,
    DriftReport,
    DriftRestoreReport,
    GatewayChangesReport,
    GatewayReport,
    HistoryEntryReport,
    RollbackReport,
    RollbackRequest,
    SyncState,
)
from stoker.domain.reasons import Reason
from stoker.engine.plan.drift import FolderDrift
from stoker.engine.plan.guards import APPROVABLE_REASONS, HeldPlan
from stoker.engine.plan.ledger import Ledger

if TYPE_CHECKING:
    from stoker.agent.rollback.rollback import RollbackState
    from stoker.agent.rollback.state import RollbackPin
    from stoker.ignition.sync.gateway_hook import GatewayOutcome

MAX_HISTORY = 10


@dataclass(frozen=True, slots=True)
class AddressedReport:
    """A report and its address."""

    address: ReportAddress
    report: GatewayReport
    may_create: bool
    """Whether a missing ConfigMap may be created; not if the resource may already be deleted."""


class CurrentReport:
    """The current report of one gateway."""

    def __init__(
        self,
        identity: AgentIdentity,
        gateway: str,
        address: ReportAddress,
        clock: Clock,
        offer: Callable[[AddressedReport], None],
    ) -> None:
        self._clock = clock
        self._offer = offer
        self._address = address
        self._may_create = False
        self._notices: tuple[str, ...] = ()
        self._gate: Reason | None = None
        self._goes_back = False
        self._snapshot = ""
        self._waiting: SyncReport | None = None
        self.report = GatewayReport(
            gateway=gateway,
            pod_name=identity.pod,
            namespace=identity.namespace,
            agent_version=__version__,
            protocol_version=PROTOCOL_VERSION,
        )

    def seed(self, earlier: GatewayReport) -> None:
        """Take over the fields of an earlier agent's report that are still true."""
        self.report = replace(self.report, **{name: getattr(earlier, name) for name in _CARRIED_FIELDS})

    def addressed(self, address: ReportAddress, *, may_create: bool) -> None:
        self._address, self._may_create = address, may_create

    def directed(self, direction: DesiredState) -> None:
        """Record the desired state for the syncs that follow."""
        intent, source = direction.intent, direction.job.source
        self._address, self._may_create = direction.address, True
        self._notices = tuple(f"{one.reason}: {one.message}" for one in direction.notices)
        self._gate = direction.gate
        self._goes_back = direction.rollback is not None
        self._snapshot = ""
        before = self.report
        self.report = replace(
            before,
            gateway=intent.gateway,
            commit=direction.commit or before.commit,
            ref=str(source.ref),
            sync_profile_name=intent.profile,
            service_path=intent.service_path,
            generation=direction.generation,
            terminating_ack=False,
            rollback=self._asked_back(direction.rollback),
        )
        if before.sync_status is SyncState.SYNCED and fields.report_subject(
            self.report
        ) != fields.report_subject(before):
            # The gateway was synced to a different commit, ref, profile or path.
            self.report = replace(self.report, sync_status=SyncState.PENDING)

    def remark(self, warning: str) -> None:
        """Add a warning for this iteration to the notices of the intent."""
        if warning:
            self._notices = tuple(dict.fromkeys((*self._notices, warning)))

    def syncing(self) -> None:
        """Report that a sync with changes has begun."""
        self._say(replace(self.report, sync_status=SyncState.SYNCING, reason="", error_message=""))

    def passed(self, report: SyncReport, attended: GatewayOutcome | None, ledger: Ledger | None) -> None:
        """Report a finished sync; `ledger` is the data folder's, None if nothing was ever written."""
        said = self._gateway_said(
            replace(self.report, commit=str(report.commit), ref=str(report.ref)), attended
        )
        if report.applied is not None and report.result in (SyncResult.DONE, SyncResult.UNVERIFIED):
            said = replace(
                said, rollback=self._went_back(_SUCCEEDED, f"the files are at {report.commit.short}")
            )
        said = replace(
            said,
            waits_until=report.waits.when if report.waits is not None else "",
            skipped=tuple(fields.note_lines(report.skipped.notes)),
            skipped_total=report.skipped.total,
        )
        said = self._planned(said, report) if report.applied is None else self._applied(said, report, ledger)
        if paths := report.drift_restored:
            now = rfc3339(self._clock.now())
            restored = DriftRestoreReport(len(paths), paths[: fields.MAX_LISTED], now)
            said = replace(said, drift_restored=restored)
        self._say(said)

    def failed(self, error: StokerError, attended: GatewayOutcome | None = None) -> None:
        """Report an error that ended an iteration; files on disk are unchanged."""
        waits = isinstance(error, Wait) or error.reason in fields.STARTING_REASONS
        status = SyncState.PENDING if waits else SyncState.ERROR
        held = (
            attended.held if attended is not None and error.reason is Reason.DESIGNER_SESSION_ACTIVE else ()
        )
        said = replace(
            self._gateway_said(self.report, attended),
            sync_status=status,
            reason=error.reason,
            error_message=error.message,
            errors=(),
            held_projects=fields.held_projects(held),
            waits_until="",
        )
        undone = _FAILED
        if isinstance(error, HeldPlan):
            said = replace(said, pending_plan=fields.pending_plan(error.plan, error.reason))
            undone = _PENDING  # a rollback that waits for approval has not failed
        if status is SyncState.ERROR:
            said = replace(
                said,
                rollback=self._went_back(undone, error.message),
                history=self._with_entry(
                    said,
                    HistoryEntryReport(
                        "", said.commit, said.ref, result=said.reason, snapshot_id=self._snapshot
                    ),
                ),
            )
        self._say(said)

    def copied(self, standing: RollbackState) -> None:
        """Record the snapshots and the quarantine; the next report includes them."""
        self._snapshot = standing.taken
        self.report = replace(self.report, quarantine=going_back.quarantine_report(standing.quarantine))
        if standing.kept is not None:
            last = standing.kept.last
            self.report = replace(
                self.report,
                last_snapshot=going_back.snapshot_report(last) if last is not None else None,
                snapshots_kept=standing.kept.count,
            )

    def stays(self, pin: RollbackPin, report: SyncReport, attended: GatewayOutcome | None) -> None:
        """Report that the files are at a snapshot and stay there while it is requested."""
        status, reason, message = fields.sync_status(report)
        said = replace(
            self._gateway_said(self.report, attended),
            sync_status=status,
            reason=reason or Reason.ROLLED_BACK,
            error_message=message,
            errors=tuple(fields.note_lines(report.unverified)),
            held_projects=(),
            pending_plan=None,
            waits_until="",
            synced_commit=pin.commit,
            synced_ref=pin.ref,
            rollback=self._went_back(_SUCCEEDED, f"the files are at snapshot {pin.snapshot}"),
        )
        if report.files_changed:
            entry = replace(fields.history_entry(report, Reason.ROLLED_BACK), snapshot_id=pin.snapshot)
            said = replace(
                said,
                synced_at=rfc3339(self._clock.now()),
                history=self._with_entry(said, entry, always=True),
            )
        self._say(said)

    def paused(self, wanted: str) -> None:
        """Report the pause: no sync starts. An earlier error still exists, so it stays reported."""
        if self.report.sync_status is SyncState.ERROR:
            self._say(self.report)
            return
        there = bool(wanted) and wanted == self.report.synced_commit
        status = SyncState.SYNCED if there else SyncState.PENDING
        self._say(replace(self.report, sync_status=status, reason=Reason.PAUSED, error_message="", errors=()))

    def terminating(self) -> None:
        """Acknowledge the deletion of the resource; from now on the agent syncs nothing."""
        self._say(replace(self.report, terminating_ack=True, reason=Reason.TERMINATING, error_message=""))

    def drifted(self, drift: FolderDrift) -> None:
        paths = sorted((*drift.modified, *drift.missing, *drift.extra))
        before = self.report.drift
        found = None
        if paths:
            since = before.detected_at if before is not None else rfc3339(self._clock.now())
            found = DriftReport(len(paths), tuple(paths[: fields.MAX_LISTED]), since)
        self._say(replace(self.report, drift=found))

    def changed_here(self, changes: GatewayChangesReport | None) -> None:
        """Report changes made on this gateway that git does not have yet."""
        if changes != self.report.changes:
            self._say(replace(self.report, changes=changes))

    def _say(self, said: GatewayReport) -> None:
        self.report = said
        self._offer(AddressedReport(self._address, said, self._may_create))

    def _gateway_said(self, said: GatewayReport, attended: GatewayOutcome | None) -> GatewayReport:
        warnings = list(self._notices)
        if attended is None:
            return replace(
                said,
                scan_result="",
                scan_durations=(),
                applied=None,
                verified=None,
                warnings=tuple(warnings),
            )
        if "unverified" in attended.trust:
            warnings.append(attended.trust)
        if attended.lock not in ("", fields.LOCKED):
            warnings.append(f"scan lock: {attended.lock}")
        warnings += attended.warnings
        return replace(
            said,
            scan_result=attended.result or said.scan_result,
            scan_durations=tuple(f"{seconds:.3f}s" for seconds in attended.durations),
            applied=attended.applied,
            verified=attended.verified,
            warnings=tuple(dict.fromkeys(warnings)),
        )

    def _planned(self, said: GatewayReport, report: SyncReport) -> GatewayReport:
        if not report.plan.actions and said.synced_commit == report.commit:
            return replace(self._settled(said), pending_plan=None)
        what = report.stalled or report.waits
        why = what.reason if what is not None else self._gate or Reason.DRY_RUN
        # No approval releases content that the source does not provide, though the reason is the same.
        releasable = why not in APPROVABLE_REASONS or isinstance(what, HeldPlan)
        held_for = why if releasable else self._gate or Reason.DRY_RUN
        return replace(
            said,
            sync_status=SyncState.PENDING,
            reason=why,
            error_message=what.message if what is not None else "",
            errors=(),
            held_projects=(),
            pending_plan=fields.pending_plan(report.plan, held_for),
        )

    def _settled(self, said: GatewayReport) -> GatewayReport:
        """Report the gateway as synced: the plan is empty."""
        return replace(
            said, sync_status=SyncState.SYNCED, reason="", error_message="", errors=(), held_projects=()
        )

    def _applied(self, said: GatewayReport, report: SyncReport, ledger: Ledger | None) -> GatewayReport:
        # While a path is held, the loop repeats the report of the same sync.
        repeated, self._waiting = report is self._waiting, report if report.plan.held else None
        status, reason, message = fields.sync_status(report)
        whole = report.result in (SyncResult.DONE, SyncResult.UNVERIFIED)
        kept = tuple(sorted(ledger.kept)) if ledger is not None else ()
        waiting = ledger.awaiting_approval if ledger is not None else ()
        said = replace(
            said,
            sync_status=status,
            reason=reason,
            error_message=message,
            errors=tuple(fields.note_lines(report.errors or report.unverified)),
            held_projects=fields.held_projects(report.plan.held),
            pending_plan=fields.orphan_deletion_plan(report, waiting) if waiting else None,
            orphans_kept=kept[: fields.MAX_LISTED],
            orphans_kept_total=len(kept),
        )
        if repeated or (not report.files_changed and (not whole or said.synced_commit == report.commit)):
            return said
        return self._changed(said, report, ledger, whole=whole)

    def _changed(
        self, said: GatewayReport, report: SyncReport, ledger: Ledger | None, *, whole: bool
    ) -> GatewayReport:
        done = report.done
        diff = fields.sync_diff(report, said.synced_commit)
        return replace(
            said,
            files_added=len(done.added),
            files_modified=len(done.modified),
            files_deleted=len(done.deleted),
            files_changed=report.files_changed,
            projects_synced=report.projects,
            duration=report.lasted,
            synced_at=rfc3339(self._clock.now()),
            synced_commit=str(report.commit) if whole else said.synced_commit,
            synced_ref=str(report.ref) if whole else said.synced_ref,
            checksums=fields.content_checksums(ledger.files) if ledger is not None else said.checksums,
            diff=diff,
            history=self._with_entry(
                said,
                replace(fields.history_entry(report, said.reason, diff), snapshot_id=self._snapshot),
                always=True,
            ),
        )

    def _with_entry(
        self, said: GatewayReport, entry: HistoryEntryReport, *, always: bool = False
    ) -> tuple[HistoryEntryReport, ...]:
        """Return the history with the entry; a repeated failure stays one entry."""
        newest = said.history[0] if said.history else None
        same = newest is not None and (newest.commit, newest.result) == (entry.commit, entry.result)
        if same and not always:
            return said.history
        return (replace(entry, timestamp=rfc3339(self._clock.now())), *said.history)[:MAX_HISTORY]

    def _asked_back(self, request: RollbackRequest | None) -> RollbackReport | None:
        """Return the state of a requested rollback; a request is never started twice."""
        before = self.report.rollback
        if request is None or (before is not None and before.id == request.id):
            return before
        return RollbackReport(request.id, _PENDING)

    def _went_back(self, result: str, message: str) -> RollbackReport | None:
        before = self.report.rollback
        if before is None or not self._goes_back or before.result == _SUCCEEDED:
            return before
        return RollbackReport(before.id, result, message)


_PENDING, _SUCCEEDED, _FAILED = "Pending", "Succeeded", "Failed"

_CARRIED_FIELDS = (
    "synced_at",
    "synced_commit",
    "synced_ref",
    "files_added",
    "files_modified",
    "files_deleted",
    "files_changed",
    "projects_synced",
    "scan_result",
    "duration",
    "history",
    "diff",
    "checksums",
    "rollback",
    "last_snapshot",
    "snapshots_kept",
    "drift",
    "drift_restored",
)
