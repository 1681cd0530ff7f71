"""The lists and watches behind `ClusterViewSource`: one for each kind, and for each namespace if limited.

Each watch keeps only the fields that a page shows. A failing watch is logged once for each reason and
retried as long as the process lives.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from functools import partial
from typing import Any, TypeVar

from stoker.domain.clock import Clock
from stoker.domain.errors import StokerError
from stoker.kube.client.client import KubeClient
from stoker.kube.client.resources import ApiResource
from stoker.kube.watch.reflector import Reflector
from stoker.kube.watch.store import ObjectChange, ObjectKey
from stoker.telemetry.logs import get_logger

T = TypeVar("T")

PAGE = 50
"""Objects in one page of a list: a status may be half a megabyte, and almost none of it is kept."""

log = get_logger(__name__)


class DashboardWatches:
    """All watches of one view source."""

    def __init__(self, client: KubeClient, namespaces: Collection[str], clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._scopes: Collection[str | None] = namespaces or (None,)
        self._unseen: dict[str, str] = {}
        self._unlisted: set[str] = set()
        self._looked = asyncio.Event()
        self.reflectors: list[Reflector[Any]] = []

    def add(
        self, resource: ApiResource, keep: Callable[[bytes], T], changed: Callable[[ObjectChange[T]], None]
    ) -> None:
        """Watch a kind in every namespace of the view."""
        for namespace in self._scopes:
            self.add_one(resource, keep, changed, namespace)

    def add_one(
        self,
        resource: ApiResource,
        keep: Callable[[bytes], T],
        changed: Callable[[ObjectChange[T]], None],
        namespace: str | None,
        *,
        fields: str | None = None,
    ) -> None:
        what = _watch_title(resource, namespace)
        self._unlisted.add(what)

        def on_change(change: ObjectChange[T]) -> None:
            self._unseen.pop(what, None)
            changed(change)

        self.reflectors.append(
            Reflector(
                self._client,
                resource,
                namespace=namespace,
                fields=fields,
                keep=keep,
                on_change=on_change,
                on_error=partial(self._cannot_see, what),
                on_refused=partial(_log_unreadable, resource),
                page_size=PAGE,
                clock=self._clock,
            )
        )

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for reflector in self.reflectors:
                group.create_task(reflector.run(), name=f"dashboard {reflector.resource}")
                group.create_task(self._until_listed(reflector))

    async def looked(self) -> None:
        """Wait until each kind was listed once or its list failed."""
        await self._looked.wait()

    def places(self, resource: ApiResource) -> set[str]:
        """Return the namespaces that have, or may have, an object of this kind."""
        if None not in self._scopes:
            return {one for one in self._scopes if one is not None}
        watched = (one for one in self.reflectors if one.resource == resource)
        return {key.namespace for one in watched for key, _ in one.store.items()}

    async def _until_listed(self, reflector: Reflector[Any]) -> None:
        await reflector.synced()
        self._listed(_watch_title(reflector.resource, reflector.namespace))

    def _listed(self, what: str) -> None:
        self._unlisted.discard(what)
        if not self._unlisted:
            self._looked.set()

    def _cannot_see(self, what: str, error: StokerError) -> None:
        """Log a failure once for each reason: the reflector retries as long as the process lives."""
        self._listed(what)
        if self._unseen.get(what) != error.reason:
            self._unseen[what] = error.reason
            log.warning("dashboard.unseen", kind=what, reason=error.reason, error=error.message)


def _watch_title(resource: ApiResource, namespace: str | None) -> str:
    return f"{resource} in {namespace}" if namespace else str(resource)


def _log_unreadable(resource: ApiResource, key: ObjectKey, error: Exception) -> None:
    log.warning("dashboard.unreadable", kind=resource.kind, key=str(key), error=type(error).__name__)
