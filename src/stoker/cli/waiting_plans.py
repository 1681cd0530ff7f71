"""What a resource in a cluster waits with: the plan of each gateway, and how to agree to all of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta

import msgspec

from stoker.api.adapters.requests import APPROVED_AT, APPROVED_BY, APPROVED_PLAN, APPROVED_REF
from stoker.api.blocks.status import ApprovalRequest, GatewayStatus, SyncStatus
from stoker.cli.in_cluster import Place
from stoker.cli.named_resources import RESOURCES, Seen, look
from stoker.domain.clock import Clock, SystemClock, parse_rfc3339, rfc3339_micro
from stoker.domain.errors import Stalled
from stoker.domain.reasons import Reason
from stoker.kube.objects import Header
from stoker.kube.resources import Resource

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

    place: Place
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
            "namespace": self.place.namespace,
            "name": self.place.name,
            "approval": msgspec.to_builtins(self.request) if self.request is not None else None,
            "gateways": [
                {"name": one.name, "podName": one.pod_name, "plan": msgspec.to_builtins(one.pending_plan)}
                for one in self.gateways
            ],
        }

    def lines(self) -> Iterator[str]:
        """The same for people, and what to do next."""
        for one in self.gateways:
            plan = one.pending_plan
            if plan is not None:
                counts = _counts(plan.files_added, plan.files_modified, plan.files_deleted)
                yield f"{one.name}: {counts} ({plan.reason or 'waiting'}; plan {plan.digest})"
        request = self.request
        if request is None:
            yield f"{self.kind} {self.place.namespace}/{self.place.name} waits for nobody's approval"
            return
        of = f"stage {request.stage} of " if request.stage else ""
        yield f"{of}commit {request.commit[:8]} ({request.ref}) is {request.state}" + _by(request)
        if request.message:
            yield request.message
        if self.waits:
            counts = _counts(request.files_added, request.files_modified, request.files_deleted)
            yield f"together: {counts}; plan {request.digest}; lapses at {request.expires_at}"
            yield (
                f"to approve: stoker approve --namespace {self.place.namespace} --name {self.place.name} "
                f"--digest {request.digest}"
            )


async def read(place: Place) -> WaitingPlans:
    async with place.client() as client:
        seen = await look(client, place)
    return WaitingPlans(place, seen.kind, seen.status)


async def approve(place: Place, digest: str | None, clock: Clock | None = None) -> str:
    """Agree in one's own name to what waits now; what was done, in words."""
    async with place.client() as client:
        seen = await look(client, place)
        request = _open_request(place, seen, digest)
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
        await client.patch(RESOURCES[seen.kind], body, place.name, place.namespace, into=Header)
    return f"{who} approved plan {request.digest} of commit {request.commit[:8]}"


def _open_request(place: Place, seen: Seen, digest: str | None) -> ApprovalRequest:
    request, whose = seen.status.approval, f"{seen.kind} {place.namespace}/{place.name}"
    if request is None or request.state != "Pending":
        how = "for nobody's approval" if request is None else f"no longer, or not yet: it is {request.state}"
        raise Stalled(f"{whose} waits {how}", reason=Reason.APPROVAL_IGNORED)
    if digest is not None and digest != request.digest:
        raise Stalled(
            f"{whose} waits with plan {request.digest}, and not with {digest[:80]}",
            reason=Reason.APPROVAL_IGNORED,
        )
    return request


def _counts(added: int | None, modified: int | None, deleted: int | None) -> str:
    return f"{added or 0} added, {modified or 0} modified, {deleted or 0} deleted"


def _by(request: ApprovalRequest) -> str:
    return f" by {request.approved_by} at {request.approved_at}" if request.approved_by else ""
