"""The informers behind `ClusterViewSource`: those that the process shares, and its own for all other kinds.

An informer of the dashboard keeps only the fields that a page shows. In a controller's process, the caches of
the controller are read instead (`stoker.dashboard.cluster.shared_cache`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from typing import Any, TypeVar

from stoker.dashboard.cluster.shared_cache import SharedCacheReader, SharedInformers, ViewUpdate
from stoker.domain.clock import Clock
from stoker.kube.client.client import KubeClient
from stoker.kube.client.resources import ApiResource
from stoker.kube.watch.informer import Informer
from stoker.kube.watch.reflector import ChangeListener, Reflector

T = TypeVar("T")

PAGE = 50
"""Objects in one page of a list: a status may be half a megabyte, and almost none of it is kept."""


class DashboardWatches:
    """All informers of one view source."""

    def __init__(
        self, client: KubeClient, namespaces: Collection[str], clock: Clock, shared: SharedInformers
    ) -> None:
        self._client = client
        self._clock = clock
        self._scopes: Collection[str | None] = namespaces or (None,)
        self._shared = shared
        self._own: list[Informer[Any]] = []
        self._readers: list[SharedCacheReader[Any]] = []

    def add(
        self,
        resource: ApiResource,
        keep: Callable[[bytes], T],
        changed: ChangeListener[T],
        namespaces: Collection[str | None] | None = None,
        *,
        fields: str | None = None,
    ) -> None:
        """Watch a kind, in every namespace of the view unless others are named."""
        informer = Informer(
            self._client,
            resource,
            keep,
            self._clock,
            namespaces=self._scopes if namespaces is None else namespaces,
            fields=fields,
            page_size=PAGE,
        )
        informer.listen(changed)
        self._own.append(informer)

    def add_shared(
        self,
        name: str,
        resource: ApiResource,
        keep: Callable[[bytes], T],
        update: ViewUpdate[T],
        namespaces: Collection[str | None] | None = None,
        *,
        fields: str | None = None,
    ) -> None:
        """Read a kind from the process's own informer; watch it if the process has none."""
        shared = self._shared.get(name)
        if shared is not None:
            self._readers.append(SharedCacheReader(shared, keep, update))
        else:
            self.add(resource, keep, lambda change: update(change.key, change.new), namespaces, fields=fields)

    @property
    def reflectors(self) -> tuple[Reflector[Any], ...]:
        informers = [*self._own, *(reader.informer for reader in self._readers)]
        return tuple(reflector for informer in informers for reflector in informer.reflectors)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for informer in self._own:
                group.create_task(informer.run(), name=f"dashboard {informer.resource}")
            for reader in self._readers:
                group.create_task(reader.run(), name=f"dashboard {reader.informer.resource}")

    async def looked(self) -> None:
        """Wait until each kind was listed once or its list failed."""
        for informer in self._own:
            await informer.answered()
        for reader in self._readers:
            await reader.caught_up()

    def places(self, resource: ApiResource) -> set[str]:
        """Return the namespaces that have, or may have, an object of this kind."""
        if None not in self._scopes:
            return {namespace for namespace in self._scopes if namespace is not None}
        watched = (reflector for reflector in self.reflectors if reflector.resource == resource)
        return {key.namespace for reflector in watched for key in reflector.store}
