"""Converts the reports of gateways to `status.discoveredGateways`. Pure.

A report comes from a pod and is trusted only about its own gateway. Values that the CRD schema would reject
are left out, or one bad report would prevent the whole status write. The result stays below 512 KiB: history
is dropped first, then lists, and never the names of gateways.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeVar

import msgspec

from stoker.api.spec.status import (
    DiffSummary,
    DriftRestoreStatus,
    DriftStatus,
    FileChangeStatus,
    GatewayStatus,
    HeldProjectStatus,
    PendingPlanStatus,
    QuarantineStatus,
    RollbackStatus,
    SnapshotInfo,
    SyncHistoryEntry,
)
from stoker.controller.bidirectional.status import gateway_changes
from stoker.controller.bidirectional.types import BidirectionalResult
from stoker.controller.cache.gateways import FleetGateway
from stoker.controller.cache.pods import AgentState
from stoker.domain.clock import rfc3339, rfc3339_or
from stoker.domain.protocol import DiffReport, GatewayReport, HistoryEntryReport, RollbackRequest, SyncState
from stoker.domain.reasons import Reason
from stoker.snapshots.ids import belongs_to

T = TypeVar("T")

MAX_BYTES = 512 << 10
MAX_GATEWAYS = 1000
_MAX_LINE_LENGTH = 1024
_MAX_WORD_LENGTH = 253

_ACTIONS: dict[str, Literal["added", "modified", "deleted"]] = {
    "added": "added",
    "modified": "modified",
    "deleted": "deleted",
}
_Result = Literal["Pending", "Succeeded", "Failed"]


def gateway_statuses(
    gateways: Sequence[FleetGateway], namespace: str, accepted: BidirectionalResult | None = None
) -> tuple[GatewayStatus, ...]:
    """One entry for each gateway, within the size limits of a status."""
    known = accepted or BidirectionalResult()
    entries = tuple(_with_changes(_entry(one, namespace), one, known) for one in gateways[:MAX_GATEWAYS])
    for smaller in (_unchanged_entry, *_SHRINK_STEPS):
        entries = tuple(smaller(entry) for entry in entries)
        if sum(len(msgspec.json.encode(entry)) + 1 for entry in entries) <= MAX_BYTES:
            break
    return entries


def rollback_outcome(
    request: RollbackRequest | None, gateways: Sequence[FleetGateway]
) -> RollbackStatus | None:
    """The result of a rollback request over all gateways: it succeeded if it did so on every gateway.

    A snapshot belongs to one gateway; the others are not affected.
    """
    if request is None:
        return None
    if request.to_snapshot:
        gateways = [one for one in gateways if belongs_to(one.target or one.name, request.to_snapshot)]
        if not gateways:
            message = f"snapshot {request.to_snapshot} belongs to no gateway of this resource"
            return RollbackStatus(
                request=_bounded_word(request.id) or "", result="Failed", message=_bounded_line(message)
            )
    said = [one.report.rollback for one in gateways if one.report is not None and one.report.rollback]
    mine = [one for one in said if one.id == request.id]
    failed = next((one for one in mine if one.result == "Failed"), None)
    done = bool(gateways) and len(mine) == len(gateways) and all(one.result == "Succeeded" for one in mine)
    result: _Result = "Failed" if failed is not None else "Succeeded" if done else "Pending"
    times = [moment for one in gateways if one.report and (moment := _time_or_none(one.report.synced_at))]
    return RollbackStatus(
        request=_bounded_word(request.id) or "",
        result=result,
        message=_bounded_line(failed.message) if failed is not None else None,
        time=max(times) if result == "Succeeded" and times else None,
    )


def last_sync_time(entries: Sequence[GatewayStatus]) -> str | None:
    return max((entry.last_sync_time for entry in entries if entry.last_sync_time), default=None)


def _entry(gateway: FleetGateway, namespace: str) -> GatewayStatus:
    report = gateway.report
    if report is None:
        return GatewayStatus(
            name=gateway.name,
            pod_name=gateway.pod.name,
            namespace=namespace,
            sync_profile_name=gateway.profile or None,
            sync_status="Pending",
            reason=_silence_reason(gateway),
            error_message=_bounded_line(gateway.mistake),
        )
    return GatewayStatus(
        name=gateway.name,
        pod_name=gateway.pod.name,
        namespace=namespace,
        service_path=report.service_path or None,
        sync_profile_name=_bounded_word(report.sync_profile_name or gateway.profile),
        observed_generation=report.generation or None,
        sync_status=_status(report),
        reason=_bounded_word(report.reason),
        error_message=_bounded_line(report.error_message),
        errors=_bounded_lines(report.errors),
        warnings=_bounded_lines(report.warnings),
        last_sync_time=_time_or_none(report.synced_at),
        last_sync_duration=_bounded_word(report.duration),
        synced_commit=_bounded_word(report.synced_commit),
        synced_ref=_bounded_word(report.synced_ref),
        agent_version=_bounded_word(report.agent_version),
        last_scan_result=_bounded_line(report.scan_result),
        files_changed=report.files_changed,
        files_added=report.files_added,
        files_modified=report.files_modified,
        files_deleted=report.files_deleted,
        projects_synced=report.projects_synced or None,
        held_projects=_held(report),
        orphans_kept=report.orphans_kept or None,
        orphans_kept_total=report.orphans_kept_total or None,
        skipped=_bounded_lines(report.skipped),
        skipped_total=report.skipped_total or None,
        pending_plan=_plan(report),
        drift=_drift(report),
        drift_restored=_drift_restored(report),
        last_snapshot=_snapshot(report),
        snapshots_kept=report.snapshots_kept or None,
        quarantine=_quarantine(report),
        waits_until=_time_or_none(report.waits_until),
        sync_history=_history(report.history),
    )


def _snapshot(report: GatewayReport) -> SnapshotInfo | None:
    taken = report.last_snapshot
    name = _bounded_word(taken.id) if taken is not None else None
    if taken is None or name is None:
        return None
    return SnapshotInfo(id=name, size=_format_size(taken.bytes), timestamp=_time_or_none(taken.timestamp))


def _format_size(size: int) -> str:
    """The size with a decimal unit, such as 180MB."""
    amount, unit = max(0, size), "B"
    for larger in ("kB", "MB", "GB", "TB"):
        if amount < 1000:
            break
        amount, unit = round(amount / 1000), larger
    return f"{amount}{unit}"


def _quarantine(report: GatewayReport) -> QuarantineStatus | None:
    held = report.quarantine
    commit = _bounded_word(held.commit) if held is not None else None
    if held is None or commit is None:
        return None
    return QuarantineStatus(
        commit=commit,
        reason=_bounded_word(held.reason),
        message=_bounded_line(held.message),
        since=_time_or_none(held.since),
    )


def _with_changes(entry: GatewayStatus, gateway: FleetGateway, known: BidirectionalResult) -> GatewayStatus:
    target = gateway.target
    changes = gateway_changes(gateway, known.standings.get(target), known.answers.get(target))
    return entry if changes is None else msgspec.structs.replace(entry, changes=changes)


def _silence_reason(gateway: FleetGateway) -> str:
    if gateway.mistake:
        return Reason.INVALID_VALUE
    if gateway.pod.agent is AgentState.NONE:
        return Reason.SIDECAR_MISSING
    return Reason.AGENT_STARTING if gateway.pod.agent is AgentState.STARTING else Reason.WAITING


def _status(report: GatewayReport) -> Literal["Pending", "Syncing", "Synced", "Error"]:
    match report.sync_status:
        case SyncState.SYNCED:
            return "Synced"
        case SyncState.SYNCING:
            return "Syncing"
        case SyncState.ERROR:
            return "Error"
        case _:
            return "Pending"


def _held(report: GatewayReport) -> tuple[HeldProjectStatus, ...] | None:
    return (
        tuple(
            HeldProjectStatus(project=one.project, user=_bounded_word(one.user))
            for one in report.held_projects
        )
        or None
    )


def _plan(report: GatewayReport) -> PendingPlanStatus | None:
    plan = report.pending_plan
    if plan is None or not plan.digest:
        return None
    return PendingPlanStatus(
        digest=plan.digest,
        reason=_bounded_word(plan.reason),
        files_added=plan.files_added,
        files_modified=plan.files_modified,
        files_deleted=plan.files_deleted,
    )


def _drift(report: GatewayReport) -> DriftStatus | None:
    drift = report.drift
    if drift is None:
        return None
    return DriftStatus(
        files=drift.files, paths=drift.paths or None, detected_at=_time_or_none(drift.detected_at)
    )


def _drift_restored(report: GatewayReport) -> DriftRestoreStatus | None:
    done = report.drift_restored
    if done is None:
        return None
    return DriftRestoreStatus(
        files=done.files, paths=done.paths or None, restored_at=_time_or_none(done.restored_at)
    )


def _history(entries: Sequence[HistoryEntryReport]) -> tuple[SyncHistoryEntry, ...] | None:
    kept = [
        SyncHistoryEntry(
            timestamp=moment,
            commit=_bounded_word(one.commit),
            ref=_bounded_word(one.ref),
            files_changed=one.files_changed,
            projects_synced=one.projects_synced or None,
            duration=_bounded_word(one.duration),
            result=_bounded_word(one.result),
            snapshot_id=_bounded_word(one.snapshot_id),
            diff=_diff(one.diff),
        )
        for one in entries
        if (moment := _time_or_none(one.timestamp)) is not None
    ]
    return tuple(kept) or None


def _diff(diff: DiffReport | None) -> DiffSummary | None:
    if diff is None:
        return None
    return DiffSummary(
        from_commit=_bounded_word(diff.from_commit),
        to_commit=_bounded_word(diff.to_commit),
        files_added=diff.files_added,
        files_modified=diff.files_modified,
        files_deleted=diff.files_deleted,
        projects_affected=diff.projects_affected or None,
        changes=tuple(
            FileChangeStatus(path=one.path, action=action)
            for one in diff.changes
            if (action := _ACTIONS.get(one.action)) is not None
        )
        or None,
    )


def _time_or_none(text: str) -> str | None:
    moment = rfc3339_or(text, None)
    return None if moment is None else rfc3339(moment)


def _bounded_word(text: str) -> str | None:
    return text[:_MAX_WORD_LENGTH] or None


def _bounded_line(text: str) -> str | None:
    return text[:_MAX_LINE_LENGTH] or None


def _bounded_lines(texts: Sequence[str]) -> tuple[str, ...] | None:
    return tuple(text[:_MAX_LINE_LENGTH] for text in texts) or None


def _without_diffs(entry: GatewayStatus) -> GatewayStatus:
    history = tuple(msgspec.structs.replace(one, diff=None) for one in entry.sync_history or ())
    return msgspec.structs.replace(entry, sync_history=history or None)


def _unchanged_entry(entry: GatewayStatus) -> GatewayStatus:
    return entry


def _field_dropper(*names: str) -> Callable[[GatewayStatus], GatewayStatus]:
    nothing: dict[str, Any] = dict.fromkeys(names)
    return lambda entry: msgspec.structs.replace(entry, **nothing)


_SHRINK_STEPS = (
    _without_diffs,
    _field_dropper("sync_history"),
    _field_dropper("projects_synced", "orphans_kept", "skipped", "warnings"),
    _field_dropper("errors", "drift", "drift_restored", "held_projects"),
    _field_dropper("service_path", "last_scan_result", "error_message", "pending_plan"),
)
