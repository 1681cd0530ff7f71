"""Writes the ConfigMaps of a resource: metadata for agents, and status ConfigMaps for their reports.

Status ConfigMaps are created before agents learn their names, with the resource as owner; each agent writes
only its own key. The key of a deleted pod stays for `FORGET_AFTER` seconds, because the pod that replaces it
continues from the last report. The controller then removes the key, with the resourceVersion that was read.
Nothing is written while the content is unchanged.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping

from stoker.controller.cache.gateways import GatewayFleet, NeighbourGateway, fleet_of
from stoker.controller.cache.informers import ControllerInformers
from stoker.controller.cache.objects import (
    CachedConfigMap,
    CachedResource,
    ResourceKey,
    belongs_to,
    owned_metadata,
)
from stoker.controller.cache.reports import parse_report, reports_by_gateway, status_maps
from stoker.controller.owned.apply_objects import OwnedObjectWriter
from stoker.controller.owned.metadata import parse_metadata
from stoker.domain.clock import Clock
from stoker.domain.errors import InvalidValue
from stoker.domain.protocol import (
    AgentMetadata,
    check_signature,
    metadata_map_name,
    sign_data,
    status_map_name,
    strip_signature,
)
from stoker.domain.protocol.signature import RESOURCE_UID
from stoker.domain.secrets import Secret
from stoker.kube.client.resources import CONFIG_MAPS
from stoker.kube.watch.store import ObjectKey

FORGET_AFTER = 30.0

MetadataKeyReader = Callable[[str], Awaitable[Secret | None]]
"""Reads the key that signs the metadata ConfigMaps of a namespace; None if they are not signed."""


class ConfigMapPublisher:
    """Writes metadata and status ConfigMaps."""

    def __init__(
        self,
        observed: ControllerInformers,
        writer: OwnedObjectWriter,
        clock: Clock,
        *,
        signing_key: MetadataKeyReader | None = None,
        forget_after: float = FORGET_AFTER,
    ) -> None:
        self._observed = observed
        self._writer = writer
        self._clock = clock
        self._signing_key = signing_key
        self._forget_after = forget_after
        self._gone: dict[ResourceKey, dict[str, float]] = {}
        self._sequences: dict[ObjectKey, int] = {}

    def published(self, key: ResourceKey) -> AgentMetadata | None:
        """The published metadata; None if it is missing or invalid."""
        seen = self._observed.maps.get(_metadata_key(key))
        return parse_metadata(seen.data) if seen is not None else None

    def neighbours(self, namespace: str, but: ResourceKey | None = None) -> Iterator[NeighbourGateway]:
        """All gateways of a namespace, of every resource except `but`."""
        for key in list(self._observed.every(namespace)):
            if key != but:
                published = self.published(key)
                commit = str(published.commit or "") if published is not None else ""
                fleet = fleet_of(self._observed.pods_of(key), reports_by_gateway(self._observed.maps, key))
                yield from (NeighbourGateway(one, commit) for one in fleet.gateways)

    async def prepare(self, key: ResourceKey, kept: CachedResource, shards: Mapping[str, int]) -> int:
        """Create the needed status ConfigMaps; return the highest number in use."""
        there = dict(status_maps(self._observed.maps, key))
        for shard in sorted({0, *shards.values()}):
            name = status_map_name(key.door, key.object.name, shard)
            seen = there.get(shard)
            if seen is None:
                body = {"metadata": owned_metadata(key, kept, name)}
                await self._writer.create(self._observed.maps, CONFIG_MAPS, body)
            elif not belongs_to(seen.metadata, key, kept):
                where = ObjectKey(key.object.namespace, name)
                body = {"metadata": owned_metadata(key, kept, name)}
                await self._writer.patch(self._observed.maps, CONFIG_MAPS, where, body)
        return max({0, *there, *shards.values()})

    async def publish(self, key: ResourceKey, kept: CachedResource, metadata: AgentMetadata) -> bool:
        """Write the metadata ConfigMap if it differs; return whether it was written."""
        where = _metadata_key(key)
        data = await self._signed(metadata.data(), where, kept.header.metadata.uid)
        seen = self._observed.maps.get(where)
        if seen is not None and seen.data == data and belongs_to(seen.metadata, key, kept):
            return False
        body = {"metadata": owned_metadata(key, kept, where.name), "data": data}
        await self._writer.put(self._observed.maps, CONFIG_MAPS, body)
        return True

    async def say_goodbye(self, key: ResourceKey) -> bool:
        """Announce the deletion of the resource to its agents; False if there is no metadata ConfigMap."""
        where = _metadata_key(key)
        seen = self._observed.maps.get(where)
        if seen is None:
            return False
        kept = self._observed.find(key)
        told = strip_signature({**(seen.data or {}), "terminating": "true"})
        data = await self._signed(told, where, kept.header.metadata.uid if kept is not None else "")
        if seen.data != data:
            await self._writer.patch(self._observed.maps, CONFIG_MAPS, where, {"data": data})
        return True

    async def tidy(self, key: ResourceKey, fleet: GatewayFleet, shards: Mapping[str, int]) -> float | None:
        """Remove the reports of deleted pods; return the seconds until there are more to remove."""
        now = self._clock.monotonic()
        before = self._gone.pop(key, {})
        waiting: dict[str, float] = {}
        for shard, seen in status_maps(self._observed.maps, key):
            out = []
            for name in self._strangers(key, seen, shard, fleet, shards):
                since = before.get(name, now)
                if now - since >= self._forget_after:
                    out.append(name)
                else:
                    waiting[name] = since
            if out:
                where = ObjectKey(key.object.namespace, seen.metadata.name)
                patch = {"data": dict.fromkeys(out)}
                await self._writer.patch(self._observed.maps, CONFIG_MAPS, where, patch)
        if waiting:
            self._gone[key] = waiting
            return max(0.1, self._forget_after - (now - min(waiting.values())))
        return None

    def forget(self, key: ResourceKey) -> None:
        self._gone.pop(key, None)
        self._sequences.pop(_metadata_key(key), None)

    def _strangers(
        self,
        key: ResourceKey,
        seen: CachedConfigMap,
        shard: int,
        fleet: GatewayFleet,
        shards: Mapping[str, int],
    ) -> list[str]:
        """Keys of deleted pods, and copies of reports that moved to another ConfigMap."""
        found = []
        for name, text in (seen.data or {}).items():
            report = parse_report(text)
            pod = report.pod_name if report is not None else ""
            gone = name not in fleet.accounted and pod not in fleet.pods
            home = shards.get(name, 0)
            if gone or (home != shard and self._is_in(key, name, home)):
                found.append(name)
        return found

    def _is_in(self, key: ResourceKey, name: str, shard: int) -> bool:
        where = ObjectKey(key.object.namespace, status_map_name(key.door, key.object.name, shard))
        seen = self._observed.maps.get(where)
        return seen is not None and name in (seen.data or {})

    async def _signed(self, data: dict[str, str], where: ObjectKey, uid: str) -> dict[str, str]:
        """Sign the data if the installation has a key in the namespace; agents then accept nothing else.

        Unchanged data with a valid signature stays as it is. Otherwise the sequence number is higher than any
        before: it is the time in milliseconds, so a new leader needs no memory of what an earlier leader
        wrote.
        """
        secret = None if self._signing_key is None else await self._signing_key(where.namespace)
        if secret is None:
            return data
        seen = self._observed.maps.get(where)
        before = dict(seen.data or {}) if seen is not None else {}
        highest = self._sequences.get(where, 0)
        try:
            sequence = check_signature(before, secret, of=str(where))
        except InvalidValue:  # signed with another key, or changed by another writer
            sequence = -1
        if sequence >= highest and strip_signature(before) == data and before.get(RESOURCE_UID) == uid:
            return before
        now = int(self._clock.now().timestamp() * 1000)
        self._sequences[where] = number = max(now, highest + 1, sequence + 1)
        return sign_data(data, secret, of=str(where), uid=uid, sequence=number)


def _metadata_key(key: ResourceKey) -> ObjectKey:
    return ObjectKey(key.object.namespace, metadata_map_name(key.door, key.object.name))
