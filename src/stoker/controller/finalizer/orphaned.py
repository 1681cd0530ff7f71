"""Resources that this installation has tied and that do not fit its labels: they are let go.

The selector was changed, or a resource lost its label while nobody was there to see it.
Nobody here would see the end of such a resource, and its finalizer would hold it for ever.

Every installation has a finalizer of the same name, so the name does not tell whose it is.
The API server does: it notes who put a field there, and each installation writes as a
manager of its own, named after its home. One that another installation has tied is left
alone. One that we have tied and another works on by now is let go as well: that one sees
it and puts its own there.

Only the names are found here. Each goes the way of all resources that we lost sight of, and
is looked at once more before anything is taken off.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from itertools import product

import msgspec

from stoker.controller.cache.objects import SYNCED_KINDS, OwnedHeader, OwnedMeta, ResourceKey
from stoker.controller.finalizer.finalizer_removal import finalizer_name
from stoker.domain.clock import Clock
from stoker.domain.errors import StokerError
from stoker.kube.client.client import KubeClient
from stoker.kube.client.errors import Forbidden
from stoker.kube.client.kinds import rest_resource
from stoker.kube.watch.store import ObjectKey
from stoker.telemetry.logs import get_logger

PAUSE = 30.0
"""Seconds until a look that failed is tried again."""

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
    """The head of a resource with who wrote what of it."""

    metadata: _FinalizedMeta = _FinalizedMeta()


def finalizer_manager(home: str) -> str:
    """As whom an installation puts its finalizer on resources; `home` is its own namespace."""
    return f"stoker-controller/{home}"


def has_finalizer_of(manager: str, key: ResourceKey, found: FinalizedHeader) -> bool:
    """Whether that installation, and no other, has put the finalizer there."""
    mark, noted = f'v:"{finalizer_name(key)}"', found.metadata.managed_fields
    return {one.manager for one in noted if mark in one.fields.metadata.finalizers} == {manager}


class OrphanedFinalizers:
    """Looks at the beginning of a term, and again when there is more to work on."""

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
        """`seen` are those that fit; `found` is told of each that we have tied and that is not."""
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
        """Ends only by being cancelled."""
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
            return []  # a namespace that refuses us keeps nobody from the others
