"""The beginning and the end of a resource: its finalizer, and the farewell to its agents (C-043).

The finalizer is there so that agents hear of the end; nothing else is owed, and the
files of the gateways stay as they are. So it is bounded: when every agent that is alive
has answered, or after thirty seconds in any case, it goes. The wait is by coming back
and never by sleeping.

Without finalizers (`--no-finalizers`) a resource is gone as soon as it is deleted, and its
agents learn it from the missing metadata ConfigMap. The chart chooses that where the
controller's rights are Roles of the watched namespaces: a namespace that is deleted takes
the Role along, possibly first, and a finalizer would then keep the namespace for ever.

A resource that loses the label by which it was ours loses the finalizer as well: nobody
here would see its end. Another installation that works on it from then on puts its own there.
`stoker.controller.finalizer.orphaned` finds those that lost it while nobody looked.
"""

from __future__ import annotations

from contextlib import suppress

import msgspec

from stoker.controller.cache.gateways import GatewayFleet, fleet_of
from stoker.controller.cache.informers import ControllerInformers
from stoker.controller.cache.objects import SYNCED_KINDS, CachedResource, ResourceKey
from stoker.controller.cache.pods import AgentState
from stoker.controller.cache.reports import reports_by_gateway
from stoker.controller.finalizer.finalizer_removal import finalizer_name, read_header, remove_finalizer
from stoker.controller.owned.configmaps import ConfigMapPublisher
from stoker.domain.clock import Clock, parse_rfc3339
from stoker.domain.errors import Wait
from stoker.domain.reasons import Reason
from stoker.kube.client.client import KubeClient
from stoker.kube.client.errors import NotFound
from stoker.kube.client.kinds import rest_resource
from stoker.telemetry.logs import get_logger

ACKNOWLEDGE_SECONDS = 30.0
POLL_SECONDS = 2.0

log = get_logger(__name__)


class Finalizer:
    """Puts the finalizer on resources, and takes it off."""

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
        """`labels` are those by which resources are ours; none: all are. `manager` is as whom we tie them.

        Not `enabled`: no resource gets a finalizer, and one that ours is on loses it.
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
        """The resource with our finalizer on it, or without it where finalizers are not enabled."""
        finalizers = kept.header.metadata.finalizers
        if (finalizer_name(key) in finalizers) is self._enabled:
            return kept
        others = tuple(name for name in finalizers if name != finalizer_name(key))
        return await self._write(key, kept, (*others, finalizer_name(key)) if self._enabled else others)

    async def part(self, key: ResourceKey, kept: CachedResource) -> None:
        """Let a deleted resource go, or raise Wait while agents have not answered."""
        finalizers = kept.header.metadata.finalizers
        if finalizer_name(key) not in finalizers:
            return
        since = self._leaving.setdefault(key, self._clock.monotonic())
        told = await self._publisher.say_goodbye(key)
        silent = self._silent(key) if told else ()
        left = self._left(kept, since)
        if silent and left > 0:
            raise Wait(
                f"waiting for the agents of {', '.join(silent[:5])} to say goodbye",
                after=min(POLL_SECONDS, left),
                reason=Reason.TERMINATING,
            )
        log.info("resource.released", silent=len(silent))
        rest_of = tuple(name for name in finalizers if name != finalizer_name(key))
        with suppress(NotFound):
            await self._write(key, kept, rest_of)
        self._leaving.pop(key, None)

    async def outgrown(self, key: ResourceKey) -> None:
        """One that is not seen any more: if it is still there without our labels, it is let go."""
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
        """Seconds left by the server's clock or by ours, whichever is over first."""
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
    """Agents that are alive and have not said goodbye."""
    return tuple(
        one.name
        for one in fleet.gateways
        if one.pod.agent is AgentState.READY and not (one.report is not None and one.report.terminating_ack)
    )
