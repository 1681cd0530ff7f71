"""What a resource waits with: the plan of each gateway, and how somebody agrees to all of them.

An approval is four annotations, bound to the plan that was seen: who it is says the API server,
and the admission webhook checks both.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

import msgspec

from stoker.api.to_intent.requests import APPROVED_AT, APPROVED_BY, APPROVED_PLAN, APPROVED_REF
from stoker.api.spec.status import ApprovalRequest, GatewayStatus, SyncStatus
from stoker.domain.clock import Clock, SystemClock, parse_rfc3339, rfc3339_micro
from stoker.domain.errors import Stalled
from stoker.domain.reasons import Reason
from stoker.fleet.lookup import Seen, look, patch
from stoker.fleet.resource_name import Named
from stoker.kube.client.client import Client
from stoker.kube.client.resources import Resource

_REVIEWS = Resource(
    "authentication.k8s.io", "v1", "selfsubjectreviews", "SelfSubjectReview", namespaced=False
)


class _User(msgspec.Struct, frozen=True):
    username: str = ""


class _Who(msgspec.Struct, rename="camel", frozen=True):
    user_info: _User = _User()


class _Review(msgspec.Struct, frozen=True):
    status: _Who = _Who()


@dataclass(frozen=True, slots=True)
class WaitingPlans:
    """All that waits on one resource."""

    named: Named
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

    def as_json(self) -> dict[str, object]:
        """One object; the names are those of the status."""
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


async def read(client: Client, named: Named) -> WaitingPlans:
    seen = await look(client, named)
    return WaitingPlans(named, seen.kind, seen.status)


async def approve(client: Client, named: Named, digest: str | None, clock: Clock | None = None) -> str:
    """Agree in one's own name to what waits now; what was done, in words."""
    seen = await look(client, named)
    request = _open_request(named, seen, digest)
    review = await client.create(_REVIEWS, {}, into=_Review)
    who = review.status.user_info.username
    now = (clock or SystemClock()).now()
    asked = parse_rfc3339(request.requested_at or "1970-01-01T00:00:00Z")
    # Our clock may be behind that of whoever asked, and an approval is younger than its request.
    at = max(now, asked + timedelta(seconds=1))
    said = {
        APPROVED_BY: who,
        APPROVED_AT: rfc3339_micro(at),
        APPROVED_REF: request.ref,
        APPROVED_PLAN: request.digest,
    }
    body = {"metadata": {"annotations": {f"{seen.group}/{name}": value for name, value in said.items()}}}
    await patch(client, seen.kind, named, body)
    return f"{who} approved plan {(request.digest or '')[:12]} of commit {request.commit[:8]}"


def _open_request(named: Named, seen: Seen, digest: str | None) -> ApprovalRequest:
    request, whose = seen.status.approval, f"{seen.kind} {named}"
    if request is None or request.state != "Pending":
        how = "for nobody's approval" if request is None else f"no longer, or not yet: it is {request.state}"
        raise Stalled(f"{whose} waits {how}", reason=Reason.APPROVAL_IGNORED)
    if digest is not None and digest != request.digest:
        raise Stalled(
            f"{whose} waits with plan {request.digest}, and not with {digest[:80]}",
            reason=Reason.APPROVAL_IGNORED,
        )
    return request
