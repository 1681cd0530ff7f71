"""Approves the deletions that a reverser holds for a GitDestination, in the user's own name.

The approval is one annotation with the digest of the plan that the status shows. The reverser deletes exactly
the files of that plan. If the plan has changed meanwhile, it deletes nothing and reports the new plan.
"""

from __future__ import annotations

import msgspec

from stoker.api.kinds.destinations import GROUP, GitDestination, GitDestinationStatus
from stoker.api.registry import KINDS
from stoker.api.to_intent.annotations.annotation_requests import APPROVED_PLAN
from stoker.domain.errors import Stalled
from stoker.domain.reasons import Reason
from stoker.fleet.resource_name import ResourceName
from stoker.kube.client.client import KubeClient
from stoker.kube.client.kinds import rest_resource
from stoker.kube.client.objects import ObjectHeader

DESTINATION = GitDestination.__name__
_DESTINATIONS = rest_resource(next(kind for kind in KINDS if kind.model is GitDestination))


class _HeldDestination(msgspec.Struct, frozen=True):
    status: GitDestinationStatus = msgspec.field(default_factory=GitDestinationStatus)


async def approve_deletions(client: KubeClient, named: ResourceName, digest: str | None) -> str:
    """Approve the plan that the status shows as held; return a sentence that describes the approval."""
    body = await client.get(_DESTINATIONS, named.name, named.namespace, into=_HeldDestination)
    held = body.status.held_deletions
    if held is None:
        raise Stalled(f"{DESTINATION} {named} holds no deletions", reason=Reason.APPROVAL_IGNORED)
    if digest is not None and digest != held.digest:
        raise Stalled(
            f"{DESTINATION} {named} holds plan {held.digest}, and not {digest[:80]}",
            reason=Reason.APPROVAL_IGNORED,
        )
    if held.digest in (body.status.approvals_used or ()):
        raise Stalled(
            f"the approval of plan {held.digest} was used before and counts once: remove annotation "
            f"{GROUP}/{APPROVED_PLAN} of {DESTINATION} {named}, then approve again",
            reason=Reason.APPROVAL_IGNORED,
        )
    annotations = {f"{GROUP}/{APPROVED_PLAN}": held.digest}
    patch = {"metadata": {"annotations": annotations}}
    await client.patch(_DESTINATIONS, patch, named.name, named.namespace, into=ObjectHeader)
    return f"approved plan {held.digest[:12]}: {held.count} files of {DESTINATION} {named} will be deleted"
