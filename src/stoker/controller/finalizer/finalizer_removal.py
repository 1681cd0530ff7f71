"""Takes our finalizer off a resource that somebody may change meanwhile.

For resources that nobody here works on any more: before an uninstall, and when a label by
which they were ours is gone. Nothing else of them is touched, and nobody is told: agents go
on with what they have.
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
    """Take it off; whether it was there. One that changes at the same moment is read again."""
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
    raise Retry(f"{key} cannot be let go of: it changed each time")


async def read_header(client: KubeClient, key: ResourceKey, labels: str = "") -> OwnedHeader | None:
    """The resource, where there is one and it fits the labels; we may list, and not get."""
    resource, (namespace, name) = rest_resource(SYNCED_KINDS[key.kind]), key.object
    only = await client.list(
        resource, namespace, into=OwnedHeader, labels=labels or None, fields=f"metadata.name={name}"
    )
    return only[0] if only else None
