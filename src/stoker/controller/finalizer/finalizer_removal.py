"""Removes our finalizer from a resource, with retries on conflicting writes.

It is for resources that this installation no longer reconciles: before an uninstall, and after a resource
stopped matching the label selector. Nothing else of the resource changes, and agents are not notified: they
continue with what they have.
"""

from __future__ import annotations

from contextlib import suppress

from stoker.controller.cache.objects import SYNCED_KINDS, OwnedHeader, ResourceKey
from stoker.domain.errors import Retry
from stoker.kube.client.client import KubeClient
from stoker.kube.client.errors import Conflict, NotFound
from stoker.kube.client.kinds import rest_resource
from stoker.kube.client.objects import ObjectHeader

MAX_ATTEMPTS = 5


def finalizer_name(key: ResourceKey) -> str:
    return f"{SYNCED_KINDS[key.kind].group}/finalizer"


async def remove_finalizer(client: KubeClient, key: ResourceKey, found: OwnedHeader) -> bool:
    """Remove the finalizer; return whether it was there. After a conflict, read the resource again."""
    resource, (namespace, name) = rest_resource(SYNCED_KINDS[key.kind]), key.object
    for _ in range(MAX_ATTEMPTS):
        meta = found.metadata
        if finalizer_name(key) not in meta.finalizers:
            return False
        left = [each for each in meta.finalizers if each != finalizer_name(key)]
        patch = {"metadata": {"finalizers": left, "resourceVersion": meta.resource_version}}
        with suppress(NotFound):
            try:
                await client.patch(resource, patch, name, namespace, into=ObjectHeader)
            except Conflict:
                found = await read_header(client, key) or OwnedHeader()
                continue
        return True
    raise Retry(f"{key}: could not remove the finalizer: every write conflicted")


async def read_header(client: KubeClient, key: ResourceKey, labels: str = "") -> OwnedHeader | None:
    """Read the resource if it exists and matches `labels`, with list: the controller has no get right."""
    resource, (namespace, name) = rest_resource(SYNCED_KINDS[key.kind]), key.object
    only = await client.list(
        resource, namespace, into=OwnedHeader, labels=labels or None, fields=f"metadata.name={name}"
    )
    return only[0] if only else None
