"""Reads the plans of a resource that wait for approval, and approves one in the user's name.

With `spec.approval` a new commit waits for one approval of the plans of all gateways. The plan of a single
gateway waits when the deletion guard holds it. Both are approved with the same four annotations, which are
bound to the digest of the plan. The API server reports the name of the approving user, and the admission
webhook checks both the name and the digest.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import NamedTuple

import msgspec

from stoker.api.spec.status import ApprovalRequest, GatewayStatus, SyncStatus
from stoker.api.to_intent.annotations.annotation_requests import (
    APPROVED_AT,
    APPROVED_BY,
    APPROVED_PLAN,
    APPROVED_REF,
)
from stoker.domain.clock import EPOCH, Clock, SystemClock, rfc3339_micro, rfc3339_or
from stoker.domain.errors import Stalled
from stoker.domain.reasons import Reason
from stoker.engine.plan.guards import APPROVABLE_REASONS
from stoker.fleet.lookup import FoundResource, find_resource, patch_resource
from stoker.fleet.resource_name import ResourceName
from stoker.kube.client.client import KubeClient
from stoker.kube.client.resources import ApiResource

_REVIEWS = ApiResource(
    "authentication.k8s.io", "v1", "selfsubjectreviews", "SelfSubjectReview", namespaced=False
)


class _SelfUser(msgspec.Struct, frozen=True):
    username: str = ""


class _SelfSubject(msgspec.Struct, rename="camel", frozen=True):
    user_info: _SelfUser = _SelfUser()


class _SelfSubjectReview(msgspec.Struct, frozen=True):
    status: _SelfSubject = _SelfSubject()


@dataclass(frozen=True, slots=True)
class PendingPlans:
    """All plans of one resource that wait for approval."""

    named: ResourceName
    kind: str
    status: SyncStatus

    @property
    def request(self) -> ApprovalRequest | None:
        return self.status.approval

    @property
    def gateways(self) -> list[GatewayStatus]:
        return [one for one in self.status.discovered_gateways or () if one.pending_plan is not None]

    @property
    def waits(self) -> bool:
        return self.request is not None and self.request.state == "Pending"

    @property
    def held(self) -> list[GatewayStatus]:
        """Gateways whose plan the deletion guard holds, whether or not a commit waits for approval."""
        return held_gateways(self.status)

    def as_json(self) -> dict[str, object]:
        """One JSON object; its field names are those of the status."""
        return {
            "kind": self.kind,
            "namespace": self.named.namespace,
            "name": self.named.name,
            "approval": msgspec.to_builtins(self.request) if self.request is not None else None,
            "gateways": [
                {"name": one.name, "podName": one.pod_name, "plan": msgspec.to_builtins(one.pending_plan)}
                for one in self.gateways
            ],
        }


def held_gateways(status: SyncStatus) -> list[GatewayStatus]:
    """Gateways whose plan the deletion guard holds."""
    return [
        one
        for one in status.discovered_gateways or ()
        if one.pending_plan is not None and one.pending_plan.reason in APPROVABLE_REASONS
    ]


async def read_waiting_plans(client: KubeClient, named: ResourceName) -> PendingPlans:
    seen = await find_resource(client, named)
    return PendingPlans(named, seen.kind, seen.status)


async def approve_plan(
    client: KubeClient, named: ResourceName, digest: str | None, clock: Clock | None = None
) -> str:
    """Approve the waiting plan as the client's own user; return a sentence that describes the approval.

    Without a digest it is the plan of the waiting commit, else the only plan that the deletion guard holds.
    A digest must match a waiting plan. Otherwise raises `Stalled` and writes nothing.
    """
    seen = await find_resource(client, named)
    plan = _find_open_plan(named, seen, digest)
    review = await client.create(_REVIEWS, {}, into=_SelfSubjectReview)
    who = review.status.user_info.username
    now = (clock or SystemClock()).now()
    asked = rfc3339_or(plan.requested_at, EPOCH)
    # This machine's clock may be behind that of the controller, which wrote the time of the request; an
    # approval older than its request is ignored.
    at = max(now, asked + timedelta(seconds=1))
    said = {
        APPROVED_BY: who,
        APPROVED_AT: rfc3339_micro(at),
        APPROVED_REF: plan.ref,
        APPROVED_PLAN: plan.digest,
    }
    body = {"metadata": {"annotations": {f"{seen.group}/{name}": value for name, value in said.items()}}}
    await patch_resource(client, seen.kind, named, body)
    return f"{who} approved plan {plan.digest[:12]} of {plan.what}"


class _OpenPlan(NamedTuple):
    """The plan to approve."""

    digest: str
    what: str
    ref: str | None = None
    requested_at: str | None = None


def _find_open_plan(named: ResourceName, seen: FoundResource, digest: str | None) -> _OpenPlan:
    request, whose = seen.status.approval, f"{seen.kind} {named}"
    held = {one.pending_plan.digest: one.name for one in held_gateways(seen.status) if one.pending_plan}
    if request is not None and request.state == "Pending" and (digest is None or digest not in held):
        if digest is not None and digest != request.digest:
            raise Stalled(
                f"{whose} waits with plan {request.digest}, and not with {digest[:80]}",
                reason=Reason.APPROVAL_IGNORED,
            )
        what = f"commit {request.commit[:8]}"
        return _OpenPlan(request.digest or "", what, request.ref, request.requested_at)
    if not held:
        why = "no plan waits for approval" if request is None else f"the approval is {request.state}"
        raise Stalled(f"{whose}: {why}", reason=Reason.APPROVAL_IGNORED)
    if digest is None and len(held) > 1:
        raise Stalled(
            f"{whose} holds {len(held)} plans; name one of them with --digest: {', '.join(sorted(held))}",
            reason=Reason.APPROVAL_IGNORED,
        )
    if digest is not None and digest not in held:
        raise Stalled(
            f"{whose} waits with plan {', '.join(sorted(held))}, and not with {digest[:80]}",
            reason=Reason.APPROVAL_IGNORED,
        )
    plan = digest or min(held)
    return _OpenPlan(plan, f"gateway {held[plan]}")
