"""Finds resources with this installation's finalizer that no longer match its label selector.

The selector was changed, or a resource lost its label while no controller ran. This installation would not
see the deletion of the resource, and its finalizer would block it forever.

The finalizer has the same name in every installation, so the name does not show the owner. The managed fields
do: each installation writes as a field manager named after its namespace. A finalizer that another
installation set is left alone. A finalizer that we set on a resource which another installation now
reconciles is removed too: that installation sees it and sets its own.

This module only finds keys. The reconciler handles each key like any resource that left our watches, and
reads the resource once more before it removes the finalizer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from itertools import product

import msgspec

from stoker.controller.cache.objects import SYNCED_KINDS, OwnedHeader, OwnedMeta, ResourceKey
from stoker.controller.finalizer.finalizer import finalizer_name
from stoker.domain.clock import Clock
from stoker.domain.errors import StokerError
from stoker.kube.client.client import KubeClient
from stoker.kube.client.errors import Forbidden
from stoker.kube.client.kinds import rest_resource
from stoker.kube.watch.store import ObjectKey
from stoker.telemetry.logs import get_logger

PAUSE = 30.0
"""Seconds until a failed check is retried."""

log = get_logger(__name__)


class _FinalizersField(msgspec.Struct, frozen=True):
    finalizers: dict[str, object] = msgspec.field(name="f:finalizers", default_factory=dict)


class _ManagedFields(msgspec.Struct, frozen=True):
    metadata: _FinalizersField = msgspec.field(name="f:metadata", default=_FinalizersField())


class _ManagedFieldsEntry(msgspec.Struct, frozen=True):
    manager: str = ""
    fields: _ManagedFields = msgspec.field(name="fieldsV1", default=_ManagedFields())


class _FinalizedMeta(OwnedMeta, frozen=True, rename="camel"):
    managed_fields: tuple[_ManagedFieldsEntry, ...] = ()


class FinalizedHeader(OwnedHeader, frozen=True):
    """The metadata of a resource with its managed fields."""

    metadata: _FinalizedMeta = _FinalizedMeta()


def finalizer_manager(home: str) -> str:
    """The field manager under which an installation sets finalizers; `home` is its own namespace."""
    return f"stoker-controller/{home}"


def has_finalizer_of(manager: str, key: ResourceKey, found: FinalizedHeader) -> bool:
    """Whether that installation, and no other, has set the finalizer."""
    mark, noted = f'v:"{finalizer_name(key)}"', found.metadata.managed_fields
    return {one.manager for one in noted if mark in one.fields.metadata.finalizers} == {manager}


class OrphanedFinalizers:
    """Checks at the beginning of a term, and again when there are more namespaces to reconcile."""

    def __init__(
        self,
        client: KubeClient,
        clock: Clock,
        manager: str,
        namespaces: Collection[str],
        *,
        seen: Callable[[ResourceKey], bool],
        found: Callable[[ResourceKey], None],
    ) -> None:
        """`seen` is whether a key is in our watches; `found` gets each key with our finalizer that is not."""
        self._client = client
        self._clock = clock
        self._manager = manager
        self._scopes: Collection[str | None] = namespaces or (None,)
        self._seen = seen
        self._found = found
        self._wanted = asyncio.Event()

    def look(self) -> None:
        self._wanted.set()

    async def run(self) -> None:
        """Check when requested, until cancelled."""
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            try:
                await self._look()
            except StokerError as error:
                log.warning("leftovers.unseen", reason=error.reason, error=error.message)
                await self._clock.sleep(PAUSE)
                self._wanted.set()

    async def _look(self) -> None:
        for kind, scope in product(SYNCED_KINDS, self._scopes):
            for one in await self._listed(kind, scope):
                key = ResourceKey(kind, ObjectKey(one.metadata.namespace, one.metadata.name))
                if has_finalizer_of(self._manager, key, one) and not self._seen(key):
                    self._found(key)

    async def _listed(self, kind: str, scope: str | None) -> list[FinalizedHeader]:
        try:
            return await self._client.list(rest_resource(SYNCED_KINDS[kind]), scope, into=FinalizedHeader)
        except Forbidden:
            if scope is None:
                raise
            return []  # a forbidden namespace must not block the check of the others
