"""Asking for a sync now: the annotation that a webhook of a git server leaves, too.

The controller looks at the repository at once; what it finds takes its usual way, with all that
holds it.
"""

from __future__ import annotations

from stoker.api.to_intent.annotation_requests import NUDGED_AT, NUDGED_SOURCE
from stoker.domain.clock import Clock, SystemClock, rfc3339_micro
from stoker.fleet.lookup import RESOURCES, find_resource, patch_resource
from stoker.fleet.resource_name import ResourceName
from stoker.kube.client.client import KubeClient


async def trigger_sync(
    client: KubeClient, named: ResourceName, source: str, clock: Clock | None = None
) -> str:
    """Have the resource looked at now; what was done, in words."""
    kind = (await find_resource(client, named)).kind
    said = {NUDGED_AT: rfc3339_micro((clock or SystemClock()).now()), NUDGED_SOURCE: source}
    group = RESOURCES[kind].group
    annotations = {f"{group}/{name}": value for name, value in said.items()}
    await patch_resource(client, kind, named, {"metadata": {"annotations": annotations}})
    return f"{kind} {named} is looked at now"
