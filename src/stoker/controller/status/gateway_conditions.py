"""The conditions that depend on a resource's gateways: one small function for each. Pure.

Each function returns True, False or no status, with a reason and a message that names the affected gateways.
`stoker.controller.status.status` combines them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from stoker.api.spec.status import ApprovalRequest
from stoker.controller.bidirectional.status import bidirectional_ready, conflict_detected
from stoker.controller.bidirectional.types import BidirectionalResult
from stoker.controller.cache.gateways import FleetGateway, GatewayFleet
from stoker.controller.cache.pods import AgentState
from stoker.controller.rollout import RolloutDecision
from stoker.domain.protocol import SyncState
from stoker.domain.reasons import ConditionType as Type
from stoker.domain.reasons import Reason
from stoker.domain.text import first_names


class ConditionVerdict(NamedTuple):
    """One condition; a status of None means that it does not apply and is removed."""

    type: Type
    status: bool | None
    reason: Reason = Reason.NONE_FOUND
    message: str = ""


def all_synced_verdict(
    fleet: GatewayFleet, commit: str, since: str = "", release: RolloutDecision | None = None
) -> ConditionVerdict:
    """`since` is when the commit was published; a held gateway is shown with what it waits for."""
    gateways = fleet.gateways
    done = [one for one in gateways if one.is_at(commit)]
    message = f"{len(done)} of {len(gateways)} gateways synced"
    if not gateways:
        return ConditionVerdict(Type.ALL_GATEWAYS_SYNCED, True, Reason.NO_GATEWAYS, message)
    if len(done) == len(gateways):
        return ConditionVerdict(Type.ALL_GATEWAYS_SYNCED, True, Reason.GATEWAYS_SYNCED, message)
    late = [one for one in gateways if not one.is_at(commit)]
    failed = any(one.failed for one in late)
    held = {one.gateway: one for one in release.held} if release is not None else {}
    reason = Reason.SYNC_FAILED if failed else Reason.SYNC_IN_PROGRESS
    if not failed and all(one.name in held for one in late):
        reason = held[late[0].name].reason
    if not failed and release is not None and release.growing:
        reason = Reason.SYNC_QUEUE_GROWING
    late.sort(key=lambda one: not one.failed)
    told = first_names(
        [
            f"{one.name} waits for {held[one.name].why}"
            if one.name in held and not one.failed
            else _unsynced_text(one, since)
            for one in late
        ]
    )
    return ConditionVerdict(Type.ALL_GATEWAYS_SYNCED, False, reason, f"{message}: {told}")


def agents_verdict(fleet: GatewayFleet) -> ConditionVerdict:
    with_agent = [one for one in fleet.gateways if one.pod.agent is not AgentState.NONE]
    lost = [one.name for one in with_agent if one.pod.agent is AgentState.LOST]
    starting = [one.name for one in with_agent if one.pod.agent is AgentState.STARTING]
    if lost:
        return ConditionVerdict(
            Type.AGENT_READY,
            False,
            Reason.AGENT_UNREACHABLE,
            f"no current heartbeat from {first_names(lost)}",
        )
    if starting:
        return ConditionVerdict(
            Type.AGENT_READY, False, Reason.AGENT_STARTING, f"{first_names(starting)} is starting"
        )
    if not with_agent:
        return ConditionVerdict(
            Type.AGENT_READY, True, Reason.NO_GATEWAYS, "no pod with an agent uses this resource"
        )
    return ConditionVerdict(
        Type.AGENT_READY, True, Reason.AGENT_HEALTHY, f"{len(with_agent)} agents are ready"
    )


def injection_verdict(fleet: GatewayFleet, outdated: Sequence[str]) -> ConditionVerdict:
    """An outdated agent works, so it is reported without an error: a new image makes every agent outdated."""
    missing = [one.pod.name for one in fleet.without_agent]
    if missing:
        message = (
            f"no agent in pod {first_names(missing)}: delete the pod so that it is recreated with an agent"
        )
        return ConditionVerdict(Type.SIDECAR_INJECTED, False, Reason.SIDECAR_MISSING, message)
    if outdated:
        message = (
            f"the agent of pod {first_names(outdated)} is outdated: restart the pod at a convenient time"
        )
        return ConditionVerdict(Type.SIDECAR_INJECTED, True, Reason.SIDECAR_OUTDATED, message)
    if not fleet.gateways:
        return ConditionVerdict(Type.SIDECAR_INJECTED, True, Reason.NO_GATEWAYS, "no pod uses this resource")
    return ConditionVerdict(
        Type.SIDECAR_INJECTED, True, Reason.SIDECAR_INJECTED, "every pod that requests an agent has one"
    )


def ref_skew_verdict(fleet: GatewayFleet, ref: str) -> ConditionVerdict:
    others = [
        f"{one.name} is at {one.report.synced_ref}" + (" by its annotation" if one.override else "")
        for one in fleet.gateways
        if one.report is not None and one.report.synced_ref not in ("", ref)
    ]
    if not ref or not others:
        return ConditionVerdict(Type.REF_SKEW, False, Reason.NONE_FOUND, "every gateway follows the same ref")
    return ConditionVerdict(
        Type.REF_SKEW, True, Reason.REF_SKEW_DETECTED, f"{first_names(others)}; the resource is at {ref}"
    )


def drift_verdict(fleet: GatewayFleet) -> ConditionVerdict:
    drifted = [
        f"{one.name} ({one.report.drift.files} files: {', '.join(one.report.drift.paths[:3])})"
        for one in fleet.gateways
        if one.report is not None and one.report.drift is not None and one.report.drift.files
    ]
    if not drifted:
        return ConditionVerdict(Type.DRIFT_DETECTED, False, Reason.NONE_FOUND, "no gateway reports drift")
    message = f"another process or user changed files of {first_names(drifted)}"
    return ConditionVerdict(Type.DRIFT_DETECTED, True, Reason.GATEWAY_FILES_MODIFIED, message)


def verification_verdict(fleet: GatewayFleet) -> ConditionVerdict:
    asked = [(one.name, one.report.verified) for one in fleet.gateways if one.report is not None]
    known = [(name, said) for name, said in asked if said is not None]
    doubtful = [name for name, said in known if not said]
    if doubtful:
        message = f"not confirmed by {first_names(doubtful)}"
        return ConditionVerdict(Type.VERIFIED, False, Reason.NOT_VERIFIED, message)
    if not known:
        return ConditionVerdict(Type.VERIFIED, None)
    return ConditionVerdict(
        Type.VERIFIED, True, Reason.VERIFIED, f"{len(known)} gateways confirmed that they loaded the files"
    )


def pending_verdict(
    fleet: GatewayFleet, release: RolloutDecision | None = None, ahead: str = ""
) -> ConditionVerdict:
    """What waits for a person: the approval of a commit, or the plan of a single gateway.

    `ahead` is the message for an approval with a time in the future.
    """
    found = _pending_approval_verdict(fleet, release)
    if not ahead or (release is not None and release.approval is not None):
        return found
    if found.status:
        return found._replace(message=f"{ahead}; {found.message}")
    return ConditionVerdict(Type.PENDING_APPROVAL, False, Reason.APPROVAL_IGNORED, ahead)


def _pending_approval_verdict(fleet: GatewayFleet, release: RolloutDecision | None) -> ConditionVerdict:
    request = release.approval if release is not None else None
    if request is not None and request.state in ("Planning", "Pending"):
        return ConditionVerdict(
            Type.PENDING_APPROVAL, True, Reason.PENDING_APPROVAL, _approval_request_text(request)
        )
    plans = [
        f"{one.name} ({one.report.pending_plan.digest}: {one.report.pending_plan.reason})"
        for one in fleet.gateways
        if one.report is not None and one.report.pending_plan is not None
    ]
    if request is not None and request.state == "Expired":
        message = f"commit {request.commit[:8]} was not approved before {request.expires_at}"
        return ConditionVerdict(Type.PENDING_APPROVAL, False, Reason.APPROVAL_EXPIRED, message)
    if request is not None and all(_is_for_commit(one, request.commit) for one in fleet.gateways):
        of = f"stage {request.stage} of " if request.stage else ""
        message = f"{of}commit {request.commit[:8]} was approved by {request.approved_by}"
        return ConditionVerdict(Type.PENDING_APPROVAL, False, Reason.APPROVED, message)
    if not plans:
        return ConditionVerdict(Type.PENDING_APPROVAL, False, Reason.NONE_FOUND, "no plan is pending")
    return ConditionVerdict(
        Type.PENDING_APPROVAL, True, Reason.PLAN_PENDING, f"a plan is pending on {first_names(plans)}"
    )


def _is_for_commit(gateway: FleetGateway, commit: str) -> bool:
    """Whether a gateway's plan belongs to this commit's rollout, not to files changed by others."""
    plan = gateway.report.pending_plan if gateway.report is not None else None
    return plan is None or (plan.commit == commit and plan.reason == Reason.PLAN_PENDING)


def _approval_request_text(request: ApprovalRequest) -> str:
    of = f"stage {request.stage} of " if request.stage else ""
    if request.state == "Planning":
        return f"{of}commit {request.commit[:8]} is being planned before its approval"
    counts = (
        f"{request.files_added} added, {request.files_modified} modified, {request.files_deleted} deleted"
    )
    ignored = f"; {request.message}" if request.message else ""
    return (
        f"{of}commit {request.commit[:8]} is waiting for approval until {request.expires_at}: plan "
        f"{request.digest} ({counts}){ignored}"
    )


def dependencies_verdict(release: RolloutDecision) -> ConditionVerdict:
    held = [one for one in release.held if one.reason is Reason.DEPENDENCY_WAITING]
    if held:
        told = first_names([f"{one.gateway} waits for {one.why}" for one in held])
        return ConditionVerdict(Type.DEPENDENCIES_MET, False, Reason.DEPENDENCY_WAITING, told)
    if not release.ordered:
        return ConditionVerdict(Type.DEPENDENCIES_MET, None)
    message = "no gateway is waiting for another one"
    return ConditionVerdict(Type.DEPENDENCIES_MET, True, Reason.DEPENDENCIES_SATISFIED, message)


def canary_verdict(release: RolloutDecision) -> ConditionVerdict:
    if not release.staged:
        return ConditionVerdict(Type.CANARY_STAGE_FAILED, None)
    trouble = release.trouble
    if trouble is not None and trouble.reason is Reason.CANARY_STAGE_FAILED:
        return ConditionVerdict(Type.CANARY_STAGE_FAILED, True, Reason.CANARY_STAGE_FAILED, trouble.message)
    return ConditionVerdict(Type.CANARY_STAGE_FAILED, False, Reason.NONE_FOUND, "no stage has failed")


def rolled_back_verdict(fleet: GatewayFleet, *, on: bool) -> ConditionVerdict:
    """Gateways that have quarantined a commit after they rolled it back."""
    quarantined = [
        (one.name, one.report.quarantine)
        for one in fleet.gateways
        if one.report is not None and one.report.quarantine is not None
    ]
    if not quarantined:
        message = "no gateway rolled a commit back"
        return ConditionVerdict(
            Type.AUTO_ROLLBACK_PERFORMED, False if on else None, Reason.NONE_FOUND, message
        )
    scan = any(it.reason == Reason.SCAN_FAILURE_AUTO_ROLLBACK for _, it in quarantined)
    reason = Reason.SCAN_FAILURE_AUTO_ROLLBACK if scan else Reason.AUTO_ROLLBACK
    told = first_names([f"{name} ({it.message or it.commit[:8]})" for name, it in quarantined])
    return ConditionVerdict(Type.AUTO_ROLLBACK_PERFORMED, True, reason, told)


def bidirectional_verdict(
    fleet: GatewayFleet, accepted: BidirectionalResult, *, on: bool
) -> ConditionVerdict:
    return ConditionVerdict(
        Type.BIDIRECTIONAL_READY, *(bidirectional_ready(fleet, accepted.standings) if on else (None,))
    )


def conflicts_verdict(accepted: BidirectionalResult, *, on: bool) -> ConditionVerdict:
    return ConditionVerdict(Type.CONFLICT_DETECTED, *(conflict_detected(accepted) if on else (None,)))


def _unsynced_text(gateway: FleetGateway, since: str) -> str:
    report = gateway.report
    if report is None:
        silent = "has no agent" if gateway.pod.agent is AgentState.NONE else "has not reported"
        return f"{gateway.name} {gateway.mistake or silent}"
    if report.sync_status is SyncState.ERROR:
        why = report.error_message or "it gives no reason"
        return f"{gateway.name} failed ({report.reason or Reason.SYNC_FAILED}: {why})"
    if report.reason:
        return f"{gateway.name} is {report.sync_status} ({report.reason})"
    at = report.synced_commit[:8] or "nothing yet"
    return f"{gateway.name} is {report.sync_status}, at {at}" + (f", since {since}" if since else "")
