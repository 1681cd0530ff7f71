"""The fields of a gateway's report, from the outcome of a sync: pure functions for `status_report`.

A function takes the report so far as `said` and returns the next one. Times are passed in.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from stoker.agent.sync.jobs import SyncResult
from stoker.agent.sync.sync_report import SyncReport
from stoker.domain.errors import StokerError, Wait
from stoker.domain.git_objects import HeldPath, PathNote
from stoker.domain.paths import RelPath
from stoker.domain.protocol import (
    ChecksumReport,
    DiffReport,
    DriftReport,
    FileChangeReport,
    GatewayReport,
    HeldProjectReport,
    HistoryEntryReport,
    PendingPlanReport,
    RollbackReport,
    SyncState,
)
from stoker.domain.reasons import Reason
from stoker.engine.plan.drift import FolderDrift
from stoker.engine.plan.guards import APPROVABLE_REASONS, HeldPlan
from stoker.engine.plan.ledger import STAT, Ledger
from stoker.engine.plan.plan import SyncPlan

if TYPE_CHECKING:
    from stoker.ignition.sync.gateway_hook import GatewayOutcome

MAX_LISTED = 20
MAX_HISTORY = 10
MAX_IN_HISTORY = 3
"""Paths listed for an earlier sync; kept small so that ten syncs fit into a report."""
SUCCESS = "success"
PENDING, SUCCEEDED, FAILED = "Pending", "Succeeded", "Failed"
"""Results of a requested rollback."""

# The gateway is still starting: nothing has failed.
_STARTING_REASONS = frozenset({Reason.GATEWAY_STARTING, Reason.NOT_COMMISSIONED})
_PROJECTS = "projects/"
_LOCKED = "held"
"""The gateway hook's word for a scan lock that is held as intended."""

CARRIED_FIELDS = (
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
"""Fields that are still true when another agent takes over the report."""


def report_subject(report: GatewayReport) -> tuple[str, ...]:
    """Return the subject of a report; once it differs, the earlier status no longer applies."""
    return report.commit, report.ref, report.sync_profile_name, report.service_path


def sync_status(report: SyncReport) -> tuple[SyncState, str, str]:
    """Return state, reason and message of a sync that wrote files."""
    if report.result is SyncResult.HELD:
        first = next((one for one in report.plan.held if _is_designer(one)), report.plan.held[0])
        names = ", ".join(sorted({one.place for one in report.plan.held if one.reason == first.reason}))
        return SyncState.SYNCING, first.reason, f"{names}: {first.why}"
    if report.result is SyncResult.PARTIAL:
        told = [*note_lines(report.errors), *note_lines(report.plan.conflicts)]
        return SyncState.ERROR, Reason.SYNC_PARTIAL, told[0] if told else ""
    if report.result is SyncResult.UNVERIFIED:
        word, colon, _ = report.unverified[0].why.partition(":")
        reason = Reason(word) if colon and word in tuple(Reason) else Reason.NOT_VERIFIED
        status = SyncState.SYNCING if reason in _STARTING_REASONS else SyncState.ERROR
        return status, reason, next(note_lines(report.unverified))
    return SyncState.SYNCED, "", ""


def pending_plan(plan: SyncPlan, why: str) -> PendingPlanReport:
    return PendingPlanReport(
        digest=plan.digest,
        reason=str(why),
        commit=plan.facts.commit,
        files_added=sum(not write.replaces for write in plan.writes),
        files_modified=len(plan.rewrites),
        files_deleted=len(plan.removals) + len(plan.orphans_kept),
    )


def _orphan_deletion_plan(commit: str, kept: Sequence[str]) -> PendingPlanReport:
    """Return the plan that deletes these unmanaged files once it is approved."""
    plan = SyncPlan(orphans_kept=tuple(RelPath.known(path) for path in kept))
    return replace(pending_plan(plan, Reason.ORPHANS_KEPT), commit=commit)


def held_projects(held: Iterable[HeldPath]) -> tuple[HeldProjectReport, ...]:
    return tuple(
        HeldProjectReport(one.place.removeprefix(_PROJECTS), one.user) for one in filter(_is_designer, held)
    )


def _is_designer(held: HeldPath) -> bool:
    return held.reason is Reason.DESIGNER_SESSION_ACTIVE


def _sync_diff(report: SyncReport, before: str) -> DiffReport:
    """Return the changes of a sync, without contents."""
    done = report.done
    kinds = {"added": done.added, "modified": done.modified, "deleted": done.deleted}
    changes = [
        FileChangeReport(str(path), word) for word, paths in kinds.items() for path in paths[:MAX_LISTED]
    ]
    return DiffReport(
        before,
        str(report.commit),
        len(done.added),
        len(done.modified),
        len(done.deleted),
        report.projects,
        tuple(sorted(changes, key=lambda one: one.path)[:MAX_LISTED]),
    )


def history_entry(
    report: SyncReport, reason: str, now: str, snapshot: str, diff: DiffReport | None = None
) -> HistoryEntryReport:
    return HistoryEntryReport(
        timestamp=now,
        commit=str(report.commit),
        ref=str(report.ref),
        files_changed=report.files_changed,
        projects_synced=report.projects,
        duration=report.lasted,
        result=reason or SUCCESS,
        snapshot_id=snapshot,
        diff=replace(diff, changes=diff.changes[:MAX_IN_HISTORY]) if diff is not None else None,
    )


def content_checksums(files: Mapping[str, bytes]) -> ChecksumReport:
    """Return one digest over all written files, by path and content."""
    digest = hashlib.sha256()
    for path in sorted(files):
        digest.update(path.encode(errors="surrogateescape") + b"\0" + files[path][STAT.size :])
    return ChecksumReport(f"sha256:{digest.hexdigest()}", len(files))


def note_lines(notes: Iterable[PathNote]) -> Iterator[str]:
    return (f"{note.path}: {note.why}" for note in notes)


def gateway_fields(
    said: GatewayReport, outcome: GatewayOutcome | None, notices: Sequence[str]
) -> GatewayReport:
    """Return the report with the gateway's part of the sync; `outcome` is None if it is not contacted."""
    if outcome is None:
        return replace(
            said, scan_result="", scan_durations=(), applied=None, verified=None, warnings=tuple(notices)
        )
    warnings = list(notices)
    if "unverified" in outcome.trust:
        warnings.append(outcome.trust)
    if outcome.lock not in ("", _LOCKED):
        warnings.append(f"scan lock: {outcome.lock}")
    warnings += outcome.warnings
    return replace(
        said,
        scan_result=outcome.result or said.scan_result,
        scan_durations=tuple(f"{seconds:.3f}s" for seconds in outcome.durations),
        applied=outcome.applied,
        verified=outcome.verified,
        warnings=tuple(dict.fromkeys(warnings)),
    )


def planned_fields(said: GatewayReport, report: SyncReport, gate: Reason | None) -> GatewayReport:
    """Return the report after a sync that only planned; an empty plan leaves the gateway synced."""
    said = replace(said, errors=(), held_projects=())
    if not report.plan.actions and said.synced_commit == report.commit:
        return replace(said, sync_status=SyncState.SYNCED, reason="", error_message="", pending_plan=None)
    what = report.stalled or report.waits
    why = what.reason if what is not None else gate or Reason.DRY_RUN
    # No approval releases content that the source does not provide, though the reason is the same.
    releasable = why not in APPROVABLE_REASONS or isinstance(what, HeldPlan)
    return replace(
        said,
        sync_status=SyncState.PENDING,
        reason=why,
        error_message=what.message if what is not None else "",
        pending_plan=pending_plan(report.plan, why if releasable else gate or Reason.DRY_RUN),
    )


def applied_fields(said: GatewayReport, report: SyncReport, ledger: Ledger | None) -> GatewayReport:
    """Return the report after a sync that wrote files or had none to write: status and files kept."""
    status, reason, message = sync_status(report)
    kept = tuple(sorted(ledger.kept)) if ledger is not None else ()
    waiting = ledger.awaiting_approval if ledger is not None else ()
    return replace(
        said,
        sync_status=status,
        reason=reason,
        error_message=message,
        errors=tuple(note_lines(report.errors or report.unverified)),
        held_projects=held_projects(report.plan.held),
        pending_plan=_orphan_deletion_plan(str(report.commit), waiting) if waiting else None,
        orphans_kept=kept[:MAX_LISTED],
        orphans_kept_total=len(kept),
    )


def changed_fields(
    said: GatewayReport, report: SyncReport, ledger: Ledger | None, now: str, snapshot: str
) -> GatewayReport:
    """Return the report after a sync that changed files or reached a new commit: counts and history."""
    diff, whole = _sync_diff(report, said.synced_commit), report.result.in_place
    return replace(
        said,
        files_added=diff.files_added,
        files_modified=diff.files_modified,
        files_deleted=diff.files_deleted,
        files_changed=report.files_changed,
        projects_synced=report.projects,
        duration=report.lasted,
        synced_at=now,
        synced_commit=str(report.commit) if whole else said.synced_commit,
        synced_ref=str(report.ref) if whole else said.synced_ref,
        checksums=content_checksums(ledger.files) if ledger is not None else said.checksums,
        diff=diff,
        history=with_entry(said, history_entry(report, said.reason, now, snapshot, diff)),
    )


def failed_fields(said: GatewayReport, error: StokerError, held: Sequence[HeldPath]) -> GatewayReport:
    """Return the report after an error that ended an iteration; files on disk are unchanged."""
    waits = isinstance(error, Wait) or error.reason in _STARTING_REASONS
    said = replace(
        said,
        sync_status=SyncState.PENDING if waits else SyncState.ERROR,
        reason=error.reason,
        error_message=error.message,
        errors=(),
        held_projects=held_projects(held) if error.reason is Reason.DESIGNER_SESSION_ACTIVE else (),
        waits_until="",
    )
    if isinstance(error, HeldPlan):
        said = replace(said, pending_plan=pending_plan(error.plan, error.reason))
    return said


def with_entry(said: GatewayReport, entry: HistoryEntryReport) -> tuple[HistoryEntryReport, ...]:
    return (entry, *said.history)[:MAX_HISTORY]


def with_failure(said: GatewayReport, now: str, snapshot: str) -> tuple[HistoryEntryReport, ...]:
    """Return the history with the current error; a repeated failure stays one entry."""
    newest = said.history[0] if said.history else None
    if newest is not None and (newest.commit, newest.result) == (said.commit, said.reason):
        return said.history
    entry = HistoryEntryReport(now, said.commit, said.ref, result=said.reason, snapshot_id=snapshot)
    return with_entry(said, entry)


def drift_fields(said: GatewayReport, drift: FolderDrift, now: str) -> GatewayReport:
    """Return the report with the drift; it keeps the time at which drift was first detected."""
    paths = sorted((*drift.modified, *drift.missing, *drift.extra))
    if not paths:
        return replace(said, drift=None)
    since = said.drift.detected_at if said.drift is not None else now
    return replace(said, drift=DriftReport(len(paths), tuple(paths[:MAX_LISTED]), since))


def rollback_result(before: RollbackReport | None, result: str, message: str) -> RollbackReport | None:
    """Return the state of the requested rollback; a success is final."""
    if before is None or before.result == SUCCEEDED:
        return before
    return RollbackReport(before.id, result, message)
