"""Sets the finalizer of a resource, and removes it once its agents know of the deletion.

The finalizer exists only so that agents learn of the deletion. Nothing else is cleaned up, and the files of
gateways stay as they are. It is therefore bounded: it is removed when every live agent has acknowledged, or
after `ACKNOWLEDGE_SECONDS` in any case. The wait is a requeue, never a sleep.

Without finalizers (`--no-finalizers`) a deleted resource is gone at once, and its agents learn of it from the
missing metadata ConfigMap. The chart chooses that where the controller's rights are Roles in the watched
namespaces: deleting a namespace deletes the Role too, possibly first, and a finalizer would then block the
namespace forever.

A resource that no longer matches the label selector loses the finalizer as well, because this controller
would not see its deletion. Another installation that reconciles it from then on sets its own.
`stoker.controller.finalizer.orphaned` finds resources that lost the label while no controller ran.
`remove_finalizer` is for resources that this installation no longer reconciles, also before an uninstall:
nothing else of the resource changes, and agents are not notified: they continue with what they have.
"""

from __future__ import annotations

from contextlib import suppress

import msgspec

from stoker.controller.cache.gateways import GatewayFleet, fleet_of
from stoker.controller.cache.informers import ControllerInformers
from stoker.controller.cache.objects import SYNCED_KINDS, CachedResource, OwnedHeader, ResourceKey
from stoker.controller.cache.pods import AgentState
from stoker.controller.cache.reports import reports_by_gateway
from stoker.controller.owned.configmaps import ConfigMapPublisher
from stoker.domain.clock import Clock, parse_rfc3339
from stoker.domain.errors import Retry, Wait
from stoker.domain.reasons import Reason
from stoker.kube.client.client import KubeClient
from stoker.kube.client.errors import Conflict, NotFound
from stoker.kube.client.kinds import rest_resource
from stoker.kube.client.objects import ObjectHeader
from stoker.telemetry.logs import get_logger

ACKNOWLEDGE_SECONDS = 30.0
POLL_SECONDS = 2.0
MAX_ATTEMPTS = 5
"""Conflicting writes after which a removal fails."""

log = get_logger(__name__)


class Finalizer:
    """Sets the finalizer on resources, and removes it."""

    def __init__(
        self,
        observed: ControllerInformers,
        client: KubeClient,
        publisher: ConfigMapPublisher,
        clock: Clock,
        *,
        manager: str,
        labels: str = "",
        enabled: bool = True,
    ) -> None:
        """`labels` is the selector of our resources; empty matches all. `manager` is the field manager.

        If not `enabled`, no resource gets a finalizer, and an existing finalizer of ours is removed.
        """
        self._observed = observed
        self._client = client
        self._publisher = publisher
        self._clock = clock
        self._manager = manager
        self._labels = labels
        self._enabled = enabled
        self._leaving: dict[ResourceKey, float] = {}

    async def ensure(self, key: ResourceKey, kept: CachedResource) -> CachedResource:
        """Return the resource with our finalizer, or without it if finalizers are not enabled."""
        finalizers = kept.header.metadata.finalizers
        if (finalizer_name(key) in finalizers) is self._enabled:
            return kept
        others = tuple(name for name in finalizers if name != finalizer_name(key))
        return await self._write(key, kept, (*others, finalizer_name(key)) if self._enabled else others)

    async def part(self, key: ResourceKey, kept: CachedResource) -> None:
        """Remove the finalizer of a deleted resource; raise Wait while live agents have not acknowledged."""
        finalizers = kept.header.metadata.finalizers
        if finalizer_name(key) not in finalizers:
            return
        since = self._leaving.setdefault(key, self._clock.monotonic())
        told = await self._publisher.say_goodbye(key)
        silent = self._silent(key) if told else ()
        left = self._left(kept, since)
        if silent and left > 0:
            raise Wait(
                f"waiting for the agents of {', '.join(silent[:5])} to acknowledge deletion",
                after=min(POLL_SECONDS, left),
                reason=Reason.TERMINATING,
            )
        log.info("resource.released", silent=len(silent))
        rest_of = tuple(name for name in finalizers if name != finalizer_name(key))
        with suppress(NotFound):
            await self._write(key, kept, rest_of)
        self._leaving.pop(key, None)

    async def outgrown(self, key: ResourceKey) -> None:
        """Remove the finalizer of a resource that left our watches, if it exists without our labels."""
        if not self._labels or await read_header(self._client, key, self._labels) is not None:
            return
        found = await read_header(self._client, key)
        if found is not None and await remove_finalizer(self._client, key, found):
            log.info("resource.unselected", labels=self._labels)

    def forget(self, key: ResourceKey) -> None:
        self._leaving.pop(key, None)

    def _silent(self, key: ResourceKey) -> tuple[str, ...]:
        fleet = fleet_of(self._observed.pods_of(key), reports_by_gateway(self._observed.maps, key))
        return unacknowledged_agents(fleet)

    def _left(self, kept: CachedResource, since: float) -> float:
        """Seconds left by the server's clock or by ours, whichever ends first."""
        own = ACKNOWLEDGE_SECONDS - (self._clock.monotonic() - since)
        told = kept.header.metadata.deletion_timestamp
        if told is None:
            return own
        return min(own, ACKNOWLEDGE_SECONDS - (self._clock.now() - parse_rfc3339(told)).total_seconds())

    async def _write(
        self, key: ResourceKey, kept: CachedResource, finalizers: tuple[str, ...]
    ) -> CachedResource:
        metadata = {"finalizers": list(finalizers), "resourceVersion": kept.header.metadata.resource_version}
        patch = self._client.patch(
            rest_resource(SYNCED_KINDS[key.kind]),
            {"metadata": metadata},
            key.object.name,
            key.object.namespace,
            into=msgspec.Raw,
            manager=self._manager,
        )
        return await self._observed.resources[key.kind].write(key.object, patch)


def unacknowledged_agents(fleet: GatewayFleet) -> tuple[str, ...]:
    """Live agents that have not acknowledged the deletion."""
    return tuple(
        one.name
        for one in fleet.gateways
        if one.pod.agent is AgentState.READY and not (one.report is not None and one.report.terminating_ack)
    )


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
