"""Converts a Stoker or IgnitionSync object to its view. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from stoker.api.spec.delivery import RollbackSpec as Wanted
from stoker.api.spec.status import ApprovalRequest, GatewayStatus, RolloutStatus
from stoker.dashboard.cluster.history import pack_history
from stoker.dashboard.view_models import (
    ApprovalView,
    DesignerHoldView,
    GatewayView,
    PlannedGatewayView,
    ResourceView,
    RollbackView,
    RolloutView,
)
from stoker.domain.reasons import Reason
from stoker.fleet.approve import held_gateways
from stoker.fleet.status import FleetResource, ResourceStatus, resource_standing

_body = msgspec.json.Decoder(FleetResource)


class CachedSyncResource(NamedTuple):
    """The part of a resource that is kept in memory; it does not depend on a visitor's permissions."""

    now: ResourceView
    past: bytes
    """The compressed sync history of its gateways (`stoker.dashboard.cluster.history`)."""


def resource_id(kind: str, namespace: str, name: str) -> str:
    return f"{namespace}/{kind}/{name}"


def decode_resource(kind: str, raw: bytes) -> CachedSyncResource:
    """Decode an object of the API; raises msgspec's ValidationError if it does not fit."""
    standing = resource_standing(kind, _body.decode(raw))
    return CachedSyncResource(resource_view(standing), pack_history(standing.gateways))


def resource_view(standing: ResourceStatus) -> ResourceView:
    status = standing.status
    ready, reason, message = standing.verdict()
    stages = _gateway_stages(standing)
    return ResourceView(
        id=resource_id(standing.kind, standing.namespace, standing.name),
        namespace=standing.namespace,
        kind=standing.kind,
        name=standing.name,
        ref=status.last_sync_ref or standing.ref,
        commit=status.last_sync_commit or "",
        paused=standing.paused,
        ready=ready,
        reason=reason,
        message=message,
        last_sync=status.last_sync_time,
        approval=_approval_view(status.approval, standing),
        rollback=_rollback_view(standing),
        release=_release_view(status.release),
        gateways=tuple(
            gateway_view(one, stages.get(one.name, ""), standing.spec.rollback) for one in standing.gateways
        ),
    )


def gateway_view(one: GatewayStatus, stage: str = "", back: Wanted | None = None) -> GatewayView:
    drift = one.drift
    held = one.held_projects or ()
    return GatewayView(
        name=one.name,
        pod=one.pod_name,
        state=one.sync_status or "Pending",
        ref=one.synced_ref or "",
        commit=one.synced_commit or "",
        synced_at=one.last_sync_time,
        drift=drift.files if drift is not None else 0,
        drift_paths=(drift.paths or ()) if drift is not None else (),
        held_by=tuple(DesignerHoldView(user=each.user or "", project=each.project) for each in held),
        taken_back=_is_rolled_back(one, back),
        reason=one.reason or "",
        message=_gateway_message(one),
        stage=stage,
    )


def _is_rolled_back(one: GatewayStatus, wanted: Wanted | None) -> bool:
    """Return whether the gateway is at the target of a requested or an automatic rollback."""
    if one.quarantine is not None or one.reason == Reason.ROLLED_BACK:
        return True
    return wanted is not None and bool(wanted.to_commit) and one.synced_commit == wanted.to_commit


def _gateway_message(one: GatewayStatus) -> str:
    """Return the most important message about a gateway."""
    said = (
        one.error_message,
        one.quarantine.message if one.quarantine is not None else None,
        one.changes.message if one.changes is not None else None,
        *(one.warnings or ()),
        *(f"skipped {line}" for line in one.skipped or ()),
    )
    return next((text for text in said if text), "")


def _gateway_stages(standing: ResourceStatus) -> Mapping[str, str]:
    deployment = standing.spec.deployment
    stages = (deployment.stages or ()) if deployment is not None else ()
    return {name: stage.name for stage in stages for name in stage.gateways}


def _approval_view(request: ApprovalRequest | None, standing: ResourceStatus) -> ApprovalView | None:
    held = held_gateways(standing.status)
    if held and (request is None or request.state != "Pending"):
        return _held_deletions_view(held)
    if request is None:
        return None
    plans = [
        PlannedGatewayView(
            name=one.name,
            added=one.pending_plan.files_added or 0,
            modified=one.pending_plan.files_modified or 0,
            deleted=one.pending_plan.files_deleted or 0,
        )
        for one in standing.gateways
        if one.pending_plan is not None
    ]
    return ApprovalView(
        state=request.state,
        commit=request.commit,
        ref=request.ref or "",
        digest=request.digest or "",
        stage=request.stage or "",
        message=request.message or "",
        since=request.requested_at,
        expires=request.expires_at,
        added=request.files_added or 0,
        modified=request.files_modified or 0,
        deleted=request.files_deleted or 0,
        gateways=tuple(plans),
    )


def _held_deletions_view(gateways: Sequence[GatewayStatus]) -> ApprovalView:
    """Return the first plan that the deletion guard holds; once it is approved, the next plan is shown."""
    plans = [(one, one.pending_plan) for one in gateways if one.pending_plan is not None]
    plan = min((plan for _, plan in plans), key=lambda plan: plan.digest)
    mine = [one for one, its in plans if its.digest == plan.digest]
    added, modified, deleted = plan.files_added or 0, plan.files_modified or 0, plan.files_deleted or 0
    return ApprovalView(
        state="Pending",
        digest=plan.digest,
        message=next((one.error_message for one in mine if one.error_message), ""),
        added=added,
        modified=modified,
        deleted=deleted,
        gateways=tuple(
            PlannedGatewayView(name=one.name, added=added, modified=modified, deleted=deleted) for one in mine
        ),
    )


def _rollback_view(standing: ResourceStatus) -> RollbackView | None:
    """Return the rollback as long as the resource's spec requests it."""
    wanted, outcome = standing.spec.rollback, standing.status.rollback
    to = (wanted.to_snapshot or wanted.to_commit) if wanted is not None else None
    if wanted is None or not to:
        return None
    known = outcome if outcome is not None and outcome.request == to else None
    return RollbackView(
        to_commit=wanted.to_commit or None,
        to_snapshot=wanted.to_snapshot or None,
        state=known.result if known is not None else "Pending",
        message=(known.message or "") if known is not None else "",
    )


def _release_view(progress: RolloutStatus | None) -> RolloutView | None:
    """Return the progress of a rollout while it runs."""
    if progress is None:
        return None
    now = next((stage for stage in progress.stages or () if stage.state != "Passed"), None)
    waiting, syncing = progress.queued or 0, progress.syncing or 0
    if now is None and not waiting and not syncing:
        return None
    counts = f"{syncing} sync now, {waiting} wait for their turn" if waiting or syncing else ""
    said = (now.message or now.state) if now is not None else ""
    return RolloutView(
        stage=now.name if now is not None else "", message="; ".join(one for one in (said, counts) if one)
    )
