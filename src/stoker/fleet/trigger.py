"""Triggers a sync now, with the annotation that the webhook receiver also writes after a push.

The controller reads the repository at once. A new commit then goes through the usual checks, such as pause
and approval.
"""

from __future__ import annotations

from stoker.api.to_intent.annotations.annotation_requests import NUDGED_AT, NUDGED_SOURCE
from stoker.domain.clock import Clock, SystemClock, rfc3339_micro
from stoker.fleet.lookup import RESOURCES, find_resource, patch_resource
from stoker.fleet.resource_name import ResourceName
from stoker.kube.client.client import KubeClient


async def trigger_sync(
    client: KubeClient, named: ResourceName, source: str, clock: Clock | None = None
) -> str:
    """Make the controller reconcile the resource now; return a sentence that describes the request."""
    kind = (await find_resource(client, named)).kind
    said = {NUDGED_AT: rfc3339_micro((clock or SystemClock()).now()), NUDGED_SOURCE: source}
    group = RESOURCES[kind].group
    annotations = {f"{group}/{name}": value for name, value in said.items()}
    await patch_resource(client, kind, named, {"metadata": {"annotations": annotations}})
    return f"{kind} {named} is looked at now"
