"""Writes the objects that a resource owns.

Each write carries the resourceVersion that was read: a concurrent change, or the next leader, wins, and the
reconcile is repeated. An object that exists although the watch does not show it, because its label was
removed, is taken over by name.
"""

from __future__ import annotations

from typing import Any, Protocol, TypeVar

import msgspec

from stoker.controller.cache.objects import OwnedMeta
from stoker.controller.cache.store import WriteThroughCache
from stoker.kube.client.client import KubeClient
from stoker.kube.client.errors import AlreadyExists
from stoker.kube.client.objects import ObjectHeader
from stoker.kube.client.resources import ApiResource
from stoker.kube.watch.store import ObjectKey


class OwnedObject(Protocol):
    @property
    def metadata(self) -> OwnedMeta: ...


T = TypeVar("T", bound=OwnedObject)


class OwnedObjectWriter:
    """Creates, replaces and patches objects, and puts the response into the cache."""

    def __init__(self, client: KubeClient) -> None:
        self._client = client

    async def put(self, cache: WriteThroughCache[T], resource: ApiResource, body: dict[str, Any]) -> T:
        """Create or replace the object; other content is removed."""
        key = ObjectKey(body["metadata"]["namespace"], body["metadata"]["name"])
        whole = {"apiVersion": resource.api_version, "kind": resource.kind, **body}
        seen = cache.get(key)
        version = seen.metadata.resource_version if seen is not None else ""
        if seen is None:
            try:
                request = self._client.create(resource, whole, key.namespace, into=msgspec.Raw)
                return await cache.write(key, request)
            except AlreadyExists:
                found = await self._client.get(resource, key.name, key.namespace, into=ObjectHeader)
                version = found.metadata.resource_version
        whole["metadata"] = {**body["metadata"], "resourceVersion": version}
        request = self._client.replace(resource, whole, key.name, key.namespace, into=msgspec.Raw)
        return await cache.write(key, request)

    async def create(self, cache: WriteThroughCache[T], resource: ApiResource, body: dict[str, Any]) -> None:
        """Create the object; if it exists, keep its content and only patch its metadata."""
        key = ObjectKey(body["metadata"]["namespace"], body["metadata"]["name"])
        whole = {"apiVersion": resource.api_version, "kind": resource.kind, **body}
        try:
            request = self._client.create(resource, whole, key.namespace, into=msgspec.Raw)
            await cache.write(key, request)
        except AlreadyExists:
            await self.patch(cache, resource, key, {"metadata": body["metadata"]})

    async def patch(
        self, cache: WriteThroughCache[T], resource: ApiResource, key: ObjectKey, body: dict[str, Any]
    ) -> None:
        """Send a merge patch, with the cached resourceVersion if the object is cached."""
        seen = cache.get(key)
        if seen is not None:
            version = {"resourceVersion": seen.metadata.resource_version}
            body = {**body, "metadata": {**body.get("metadata", {}), **version}}
        request = self._client.patch(resource, body, key.name, key.namespace, into=msgspec.Raw)
        await cache.write(key, request)
