"""Watch the product's other resources for the Secrets that they name, so that none of these reaches git.

It runs beside `config_watch`, and only where the reverser writes Secrets at all. No Secret is watched until
every kind was listed, or the API server answered that it does not serve the kind: before that, the reverser
does not know which Secrets it must not write. A kind that the reverser has no permission to list keeps all
Secrets out, and `why_unknown` returns the reason.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from functools import partial
from typing import Any

import msgspec

from stoker.api.kinds.destinations import GROUP
from stoker.api.registry import KINDS, CustomResourceKind
from stoker.domain.clock import Clock
from stoker.domain.errors import StokerError
from stoker.kube.client.client import KubeClient
from stoker.kube.client.errors import NotFound
from stoker.kube.client.kinds import rest_resource
from stoker.kube.watch.reflector import Reflector
from stoker.kube.watch.store import ObjectChange
from stoker.reverser.manifest.named_secrets import SecretRef, referenced_secrets
from stoker.telemetry.logs import get_logger

log = get_logger(__name__)

WATCHED_KINDS: tuple[CustomResourceKind, ...] = tuple(kind for kind in KINDS if kind.group != GROUP)
"""All kinds of the product except the reverser's own, which `config_watch` follows."""

SecretNames = frozenset[SecretRef]


class NamedSecretsWatch:
    """Collects the Secrets that Stokers, IgnitionSyncs, their bases and profiles name."""

    def __init__(
        self, client: KubeClient, clock: Clock, namespaces: Collection[str], changed: Callable[[], None]
    ) -> None:
        self._changed = changed
        self._synced: set[int] = set()
        self.reflectors: tuple[Reflector[SecretNames], ...] = tuple(
            Reflector(
                client,
                rest_resource(kind),
                namespace=each,
                keep=partial(_referenced_names, kind),
                on_error=self._failed,
                clock=clock,
            )
            for kind in WATCHED_KINDS
            for each in (sorted(namespaces) or (None,))
        )

    @property
    def named(self) -> SecretNames:
        return frozenset().union(
            *(refs for reflector in self.reflectors for _, refs in reflector.store.items())
        )

    @property
    def why_unknown(self) -> str:
        """Return why the named Secrets are unknown; empty if they are known."""
        for number, reflector in enumerate(self.reflectors):
            error = reflector.health.error
            if number not in self._synced and not isinstance(error, NotFound):
                what = f"{reflector.resource.plural}.{reflector.resource.group}"
                return f"{what} cannot be listed: {error.message}" if error else f"{what} are being listed"
        return ""

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for number, reflector in enumerate(self.reflectors):
                reflector.listen(self._on_change)
                group.create_task(reflector.run(), name=f"names {reflector.resource}")
                group.create_task(self._until_synced(number), name=f"listing {reflector.resource}")

    async def _until_synced(self, number: int) -> None:
        await self.reflectors[number].synced()
        self._synced.add(number)
        self._changed()

    def _on_change(self, change: ObjectChange[SecretNames]) -> None:
        if change.old != change.new:
            self._changed()

    def _failed(self, error: StokerError) -> None:
        if not isinstance(error, NotFound):
            log.warning("watch.failed", reason=error.reason, error=error.message)
        self._changed()


def _referenced_names(kind: CustomResourceKind, raw: bytes) -> SecretNames:
    obj: dict[str, Any] = msgspec.json.decode(raw)
    return referenced_secrets(kind, obj)
