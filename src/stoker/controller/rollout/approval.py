"""Approvals: a person approves exactly the plans that would be applied. Pure.

    Planning ─► Pending ─► Approved ─► Planning   (withdrawn before all gateways had it)
                   └─► Expired

Every waiting gateway plans the commit and reports the digest of its plan. The approval covers a single digest
over all of them: SHA-256, in hexadecimal, over the lines `gateway digest`, sorted, joined by a line feed and
without a line feed at the end. The gateway has its name from `targets` of the metadata ConfigMap. An approved
gateway gets its own digest and writes nothing else. If it finds another plan, the approval is void and a new
request is made.

An approval is valid if it was given after the request and before the request expired, and names no other ref
and no other plan. An approval that was in the future when it was first seen is never valid, even if no
request was pending then. Removing the annotations, or only `approved-by`, withdraws it for every gateway that
has not applied its plan; the same approval is not valid again. The admission webhook checks the approver's
identity and rights when the annotations are written (`stoker.webhooks.admission.approver_identity`); this
module only reads them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import msgspec

from stoker.api.spec.status import ApprovalRequest
from stoker.api.spec.status import SyncStatus as Status
from stoker.controller.rollout.gateways import RolloutMember
from stoker.controller.rollout.inputs import RolloutInputs
from stoker.domain.clock import EPOCH, rfc3339, rfc3339_micro, rfc3339_or
from stoker.domain.intent.annotation_requests import APPROVAL_CLOCK_TOLERANCE, ApprovalGrant
from stoker.domain.reasons import ConditionType
from stoker.kube.runtime.conditions import find_condition

_SOON = 0.1


@dataclass(frozen=True, slots=True)
class ApprovalState:
    """The state of an approval request after a decision."""

    request: ApprovalRequest | None
    granted: bool
    plans: Mapping[str, str] = field(default_factory=dict)
    """By target: the plan that was approved in this reconcile."""
    again_in: float | None = None


def plans_digest(plans: Mapping[str, str]) -> str:
    """Return the digest over all plans together."""
    lines = sorted(f"{gateway} {digest}" for gateway, digest in plans.items())
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def decide_approval(
    situation: RolloutInputs, waiting: Sequence[RolloutMember], stage: str | None
) -> ApprovalState:
    """Decide whether the waiting gateways are approved; `waiting` has all without a valid approval."""
    before = situation.request
    before = before if before is not None and before.stage == stage else None
    if not waiting:
        return ApprovalState(situation.request, granted=True)
    if before is not None and before.state == "Approved" and situation.requests.approval is None:
        said = f"the approval by {(before.approved_by or '')[:80]!r} was withdrawn"
        request = msgspec.structs.replace(_planning_request(situation, stage), message=said)
        return ApprovalState(request, granted=False, again_in=_SOON)
    again = before is not None and before.state == "Expired" and before.request != (situation.asked or None)
    before = None if again else before
    plans = {one.target: digest for one in waiting if (digest := _digest(one))}
    if len(plans) < len(waiting):
        if before is None and all(one.gateway.report is None for one in waiting):
            # Presumably first syncs: no gateway has reported yet.
            return ApprovalState(situation.request, granted=False)
        if before is not None and before.state != "Planning":
            return ApprovalState(before, granted=False, again_in=_seconds_until_expiry(before, situation.now))
        return ApprovalState(_planning_request(situation, stage), granted=False)
    digest = plans_digest(plans)
    if before is None or before.digest != digest:
        before = _approval_request(situation, stage, waiting, digest)
    if before.state == "Approved":
        return ApprovalState(before, granted=True, plans=plans)
    return _check_approval(situation, before, plans)


def _check_approval(
    situation: RolloutInputs, request: ApprovalRequest, plans: Mapping[str, str]
) -> ApprovalState:
    lapsed = request.state == "Expired" or situation.now >= rfc3339_or(request.expires_at, EPOCH)
    why = approval_rejection(situation, request, plans)
    given = situation.requests.approval
    if lapsed:
        late = "the request has expired; request a sync to create a new one" if given and not why else why
        said = msgspec.structs.replace(request, state="Expired", message=late or None)
        return ApprovalState(said, granted=False)
    if given is None or why:
        said = msgspec.structs.replace(request, message=why or None)
        return ApprovalState(said, granted=False, again_in=_seconds_until_expiry(request, situation.now))
    said = msgspec.structs.replace(
        request,
        state="Approved",
        approved_by=given.by[:253],
        approved_at=rfc3339_micro(given.at),
        message=None,
    )
    return ApprovalState(said, granted=True, plans=plans)


def approval_rejection(situation: RolloutInputs, request: ApprovalRequest, plans: Mapping[str, str]) -> str:
    """Why an existing approval is not valid; empty if it is valid or there is none."""
    given, named = situation.requests.approval, situation.requests.approved_plans
    if given is None:
        return ""
    who = f"the approval by {given.by[:80]!r}"
    if ahead := _future_approval_remark(situation):
        return ahead
    if given.at <= rfc3339_or(request.requested_at, EPOCH):
        return f"{who} of {rfc3339(given.at)} is older than the request"
    if given.ref is not None and given.ref not in (situation.ref, str(situation.commit)):
        return f"{who} is for ref {str(given.ref)[:80]}, but {situation.ref[:80]} is pending"
    if named and request.digest not in named and not set(plans.values()) <= set(named):
        return f"{who} is for another plan than {request.digest}"
    return ""


def future_approval_message(given: ApprovalGrant | None, before: Status, now: datetime) -> str:
    """The message for an approval from the future, or that was in the future when first seen; else empty.

    The message itself is the record: it is kept in the request, or in the condition while there is no
    request.
    """
    if given is None:
        return ""
    said = f"the approval by {given.by[:80]!r} is in the future ({rfc3339(given.at)}) and is ignored"
    if given.at > now + APPROVAL_CLOCK_TOLERANCE:
        return said
    condition = find_condition(before.conditions or (), ConditionType.PENDING_APPROVAL)
    told = [before.approval.message if before.approval is not None else "", condition and condition.message]
    return said if any(said in (one or "") for one in told) else ""


def _future_approval_remark(situation: RolloutInputs) -> str:
    return future_approval_message(situation.requests.approval, situation.before, situation.now)


def remember_future_approval(
    situation: RolloutInputs, request: ApprovalRequest | None
) -> ApprovalRequest | None:
    """Return the request with the message that records an approval from the future."""
    ahead = _future_approval_remark(situation)
    if request is None or request.message or not ahead:
        return request
    return msgspec.structs.replace(request, message=ahead)


def is_for_another_plan(message: str | None) -> bool:
    """Whether an approval is for something else than the request; an outdated approval is no error."""
    return bool(message) and not (message or "").endswith("is older than the request")


def _planning_request(situation: RolloutInputs, stage: str | None) -> ApprovalRequest:
    return ApprovalRequest(
        commit=str(situation.commit),
        ref=situation.ref or None,
        stage=stage,
        state="Planning",
        requested_at=rfc3339_micro(begins) if (begins := _request_start(situation)) > situation.now else None,
        request=situation.asked or None,
    )


def _request_start(situation: RolloutInputs) -> datetime:
    """When a new request begins to wait: after every used approval, whichever clock gave its time.

    Otherwise an approval from a clock ahead of ours would be valid for the next request too.
    """
    last = situation.before.approval
    if last is None:
        return situation.now
    return max(situation.now, rfc3339_or(last.approved_at, EPOCH), rfc3339_or(last.requested_at, EPOCH))


def _approval_request(
    situation: RolloutInputs, stage: str | None, waiting: Sequence[RolloutMember], digest: str
) -> ApprovalRequest:
    plans = [one.plan for one in waiting if one.plan is not None]
    return msgspec.structs.replace(
        _planning_request(situation, stage),
        state="Pending",
        digest=digest,
        requested_at=rfc3339_micro(_request_start(situation)),
        expires_at=rfc3339(situation.now + timedelta(seconds=situation.approval.timeout)),
        files_added=sum(one.files_added for one in plans),
        files_modified=sum(one.files_modified for one in plans),
        files_deleted=sum(one.files_deleted for one in plans),
    )


def _digest(member: RolloutMember) -> str:
    return member.plan.digest if member.plan is not None else member.agreed


def _seconds_until_expiry(request: ApprovalRequest, now: datetime) -> float | None:
    if request.state != "Pending":
        return None
    return max(0.1, (rfc3339_or(request.expires_at, EPOCH) - now).total_seconds())
