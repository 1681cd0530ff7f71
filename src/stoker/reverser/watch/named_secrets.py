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
from stoker.kube.client.client import KubeClient
from stoker.kube.client.errors import NotFound
from stoker.kube.client.kinds import rest_resource
from stoker.kube.watch.informer import Informer
from stoker.kube.watch.reflector import Reflector
from stoker.kube.watch.store import ObjectChange
from stoker.reverser.manifest.named_secrets import SecretRef, referenced_secrets

WATCHED_KINDS: tuple[CustomResourceKind, ...] = tuple(kind for kind in KINDS if kind.group != GROUP)
"""All kinds of the product except the reverser's own, which `config_watch` follows."""

SecretNames = frozenset[SecretRef]


class NamedSecretsWatch:
    """Collects the Secrets that Stokers, IgnitionSyncs, their bases and profiles name."""

    def __init__(
        self, client: KubeClient, clock: Clock, namespaces: Collection[str], changed: Callable[[], None]
    ) -> None:
        self._changed = changed
        self._informers: tuple[Informer[SecretNames], ...] = tuple(
            Informer(
                client,
                rest_resource(kind),
                partial(_referenced_names, kind),
                clock,
                namespaces=sorted(namespaces) or (None,),
                on_error=lambda namespace, error: changed(),
            )
            for kind in WATCHED_KINDS
        )

    @property
    def named(self) -> SecretNames:
        return frozenset().union(*(refs for informer in self._informers for refs in informer.values()))

    @property
    def why_unknown(self) -> str:
        """Return why the named Secrets are unknown; empty if they are known."""
        for reflector in (each for informer in self._informers for each in informer.reflectors):
            health = reflector.health
            if not health.synced and not isinstance(health.error, NotFound):
                what = f"{reflector.resource.plural}.{reflector.resource.group}"
                why = f"cannot be listed: {health.error.message}" if health.error else "are being listed"
                return f"{what} {why}"
        return ""

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for informer in self._informers:
                informer.listen(self._on_change)
                group.create_task(informer.run(), name=f"names {informer.resource}")
                for reflector in informer.reflectors:
                    group.create_task(self._until_synced(reflector), name=f"listing {informer.resource}")

    async def _until_synced(self, reflector: Reflector[SecretNames]) -> None:
        await reflector.synced()
        self._changed()

    def _on_change(self, change: ObjectChange[SecretNames]) -> None:
        if change.old != change.new:
            self._changed()


def _referenced_names(kind: CustomResourceKind, raw: bytes) -> SecretNames:
    obj: dict[str, Any] = msgspec.json.decode(raw)
    return referenced_secrets(kind, obj)
