"""The controller's informers: one for each kind, on every replica.

A replica that waits for the lease watches everything too, so that it can take over at once and knows the
resources that webhooks address. No key is enqueued before every kind has been listed once: an earlier
reconcile would take a base or a pod for missing that had only not been listed yet.
`stoker.controller.cache.handlers` maps each change to the keys to enqueue.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from typing import Any, TypeVar

import msgspec

from stoker.api.kinds.ignitionsync import IgnitionSyncBase
from stoker.api.kinds.resource import CustomResource as Model
from stoker.api.kinds.stoker import SyncProfile
from stoker.api.to_intent import base_ref
from stoker.api.to_intent.inheritance import base_allows
from stoker.controller.cache.objects import (
    BASES,
    PROFILES,
    SYNCED_KINDS,
    CachedClaim,
    CachedConfigMap,
    CachedGlobalPause,
    CachedResource,
    CachedRole,
    CachedRoleBinding,
    CachedSecretHeader,
    ResourceKey,
    decode_claim,
    decode_config_map,
    decode_global_pause,
    decode_object,
    decode_resource,
    decode_role,
    decode_role_binding,
    decode_secret,
)
from stoker.controller.cache.pods import CachedPod, decode_pod, index_by_namespace, index_by_resource
from stoker.controller.cache.store import WriteThroughCache
from stoker.domain.clock import Clock
from stoker.domain.errors import InvalidValue
from stoker.domain.protocol import CR_NAME_LABEL
from stoker.domain.shards import SINGLE_SHARD, Shard
from stoker.kube.client.client import KubeClient
from stoker.kube.client.kinds import rest_resource
from stoker.kube.client.resources import CLAIMS, CONFIG_MAPS, PODS, ROLE_BINDINGS, ROLES, SECRETS, ApiResource
from stoker.kube.watch.informer import Informer
from stoker.kube.watch.namespace_access import NamespaceAccess, ignore_change
from stoker.kube.watch.reflector import Reflector
from stoker.kube.watch.store import ObjectKey

T = TypeVar("T")

PAUSE_MAP = "ignition-sync-global-pause"
"""In the operator's namespace; `paused: "true"` in it pauses all resources."""


@dataclass(frozen=True, slots=True)
class WatchScope:
    """The namespaces, labels and kinds that the controller watches."""

    home: str
    """The operator's own namespace."""
    namespaces: Collection[str] = ()
    """Namespaces whose resources are reconciled; empty means all."""
    labels: str = ""
    """A label selector that resources must match."""
    shared_volumes: bool = False
    """Whether volumes are created for resources that request them; only then are claims watched."""
    shard: Shard = SINGLE_SHARD
    """The shard whose namespaces are reconciled.

    Resources, bases and Secrets are watched beyond its namespaces, because every replica answers webhooks for
    all resources.
    """


class ControllerInformers:
    """The object caches that all reconciles read."""

    def __init__(self, client: KubeClient, scope: WatchScope, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._namespaces: Collection[str | None] = scope.namespaces or (None,)
        self._own: Collection[str | None] = [each for each in scope.namespaces if scope.shard.has(each)]
        self._own = self._own if scope.namespaces else (None,)
        self._wanted = None if scope.shard == SINGLE_SHARD else _in_shard(scope.shard)
        self._is_selective = bool(scope.labels)
        self.listed = asyncio.Event()
        """Set when every kind has been listed once, except in namespaces that forbid all access."""
        self.reach = NamespaceAccess(scope.home)
        self.recovered: Callable[[], None] = ignore_change
        """Called when a watch works again after an API server outage, so that failed work is retried."""
        self.resources: Mapping[str, WriteThroughCache[CachedResource]] = {
            name: self._cache(rest_resource(kind), decode_object, labels=scope.labels)
            for name, kind in SYNCED_KINDS.items()
        }
        self.bases = self._cache(rest_resource(BASES), decode_object)
        self.profiles = self._cache(rest_resource(PROFILES), decode_object, scopes=self._own)
        self.pods: WriteThroughCache[CachedPod | None] = self._cache(
            PODS,
            decode_pod,
            scopes=self._own,
            indexes={"resource": index_by_resource, "namespace": index_by_namespace},
        )
        self.maps: WriteThroughCache[CachedConfigMap] = self._of_ours(CONFIG_MAPS, decode_config_map)
        self.roles: WriteThroughCache[CachedRole] = self._of_ours(ROLES, decode_role)
        self.bindings: WriteThroughCache[CachedRoleBinding] = self._of_ours(
            ROLE_BINDINGS, decode_role_binding
        )
        self.shared_volumes = scope.shared_volumes
        self.claims: WriteThroughCache[CachedClaim] = self._of_ours(
            CLAIMS, decode_claim, watched=scope.shared_volumes
        )
        self.secrets: WriteThroughCache[CachedSecretHeader] = self._cache(
            SECRETS, decode_secret, metadata_only=True
        )
        self.pause: WriteThroughCache[CachedGlobalPause] = self._cache(
            CONFIG_MAPS, decode_global_pause, scopes=(scope.home,), fields=f"metadata.name={PAUSE_MAP}"
        )
        self._pause_key = ObjectKey(scope.home, PAUSE_MAP)
        self.reach.watch(self.caches)

    @property
    def caches(self) -> tuple[WriteThroughCache[Any], ...]:
        return (
            *self.resources.values(),
            self.bases,
            self.profiles,
            self.pods,
            self.maps,
            self.roles,
            self.bindings,
            self.claims,
            self.secrets,
            self.pause,
        )

    @property
    def reflectors(self) -> tuple[Reflector[Any], ...]:
        return tuple(chain.from_iterable(cache.reflectors for cache in self.caches))

    async def run(self) -> None:
        """Run all informers until cancelled."""
        async with asyncio.TaskGroup() as group:
            for cache in self.caches:
                group.create_task(cache.run(), name=str(cache.resource))
            await self.reach.until_judged(group)
            self.listed.set()

    @property
    def complete(self) -> Mapping[str, Informer[Any]]:
        """The caches that hold every object with its raw bytes: resources by kind, and `PAUSE_MAP`.

        A label selector hides resources from the caches. A shard's caches hold the resources of all shards,
        because every shard answers webhooks for them.
        """
        resources = {} if self._is_selective else self.resources
        return {**resources, PAUSE_MAP: self.pause}

    def begin_term(self) -> None:
        """Drop the remembered writes of an earlier term: other leaders have changed the objects since."""
        for cache in self.caches:
            cache.forget_writes()

    def _tell_recovered(self) -> None:
        self.recovered()  # the hook of the current term

    def at_rest(self) -> None:
        """Reset the hooks at the end of a term."""
        self.recovered = self.reach.lit = ignore_change

    def find(self, key: ResourceKey) -> CachedResource | None:
        return self.resources[key.kind].get(key.object)

    def every(self, namespace: str | None = None) -> Iterator[ResourceKey]:
        """The keys of all resources, or of those in a namespace."""
        for kind, cache in self.resources.items():
            for key in cache:
                if namespace in (None, key.namespace):
                    yield ResourceKey(kind, key)

    def heirs(self, base: ObjectKey) -> Iterator[ResourceKey]:
        """The resources that inherit from a base."""
        for kind, cache in self.resources.items():
            for key, kept in cache.items():
                try:
                    wanted = base_ref(decode_resource(kept, SYNCED_KINDS[kind].model))
                except InvalidValue:
                    continue  # its own reconcile reports the error
                if wanted is not None and base == ObjectKey(wanted.namespace or "", wanted.name):
                    yield ResourceKey(kind, key)

    def base_for(self, resource: Model) -> tuple[IgnitionSyncBase | None, bytes]:
        """Return the base that a resource inherits from, if it exists and allows that, and its raw bytes.

        A base that does not allow it is not even decoded: an error in it would reveal that it exists.
        """
        wanted, namespace = base_ref(resource), resource.metadata.namespace
        home = wanted.namespace or "" if wanted else ""
        kept = self.bases.get(ObjectKey(home, wanted.name)) if wanted else None
        if kept is None or not base_allows(home, namespace, kept.header.metadata.annotations):
            return None, b""
        return decode_resource(kept, IgnitionSyncBase), kept.raw

    def profiles_in(self, namespace: str) -> dict[str, SyncProfile]:
        """The decodable profiles of a namespace, by name; others have the error in their own status."""
        found: dict[str, SyncProfile] = {}
        for key, kept in self.profiles.items():
            if key.namespace == namespace:
                profile = _decode_profile(kept.raw)
                if profile is not None:
                    found[key.name] = profile
        return found

    def pods_of(self, key: ResourceKey) -> list[CachedPod]:
        """The pods that belong to a resource, in every phase."""
        namespace, name = key.object
        named = [pod for _, pod in self.pods.find("resource", f"{namespace}/{name}") if pod is not None]
        found = [pod for pod in named if self._meant(pod, key)]
        nameless = [pod for _, pod in self.pods.find("resource", f"{namespace}/*") if pod is not None]
        if nameless and list(self.every(namespace)) == [key]:
            found += nameless
        return sorted(found, key=lambda pod: pod.name)

    def has_nameless(self, namespace: str) -> bool:
        """Whether the namespace has a pod that does not name its resource."""
        return any(True for _ in self.pods.find("resource", f"{namespace}/*"))

    def _meant(self, pod: CachedPod, key: ResourceKey) -> bool:
        if pod.resource_kind:
            return pod.resource_kind == key.kind
        others = (kind for kind in self.resources if kind != key.kind)
        return not any(self.resources[kind].get(key.object) for kind in others)

    def paused_by(self) -> str:
        """Why all resources are paused; empty if they are not."""
        seen = self.pause.get(self._pause_key)
        paused = seen is not None and seen.paused
        return f"ConfigMap {self._pause_key} pauses everything" if paused else ""

    def _of_ours(
        self, resource: ApiResource, keep: Callable[[bytes], T], *, watched: bool = True
    ) -> WriteThroughCache[T]:
        """Watch only objects with our label, which every object that we create has."""
        return self._cache(resource, keep, scopes=self._own if watched else (), labels=CR_NAME_LABEL)

    def _cache(
        self,
        resource: ApiResource,
        keep: Callable[[bytes], T],
        *,
        scopes: Collection[str | None] | None = None,
        labels: str | None = None,
        fields: str | None = None,
        metadata_only: bool = False,
        indexes: Mapping[str, Callable[[ObjectKey, T], Iterator[str]]] | None = None,
    ) -> WriteThroughCache[T]:
        return WriteThroughCache(
            self._client,
            resource,
            keep,
            self._clock,
            namespaces=self._namespaces if scopes is None else scopes,
            labels=labels,
            fields=fields,
            metadata_only=metadata_only,
            indexes=indexes,
            # A selector cannot express the shard's hash, so without named namespaces all objects arrive here.
            wanted=self._wanted if scopes is self._own else None,
            on_error=self.reach.failed,
            on_recovered=self._tell_recovered,
        )


def _in_shard(shard: Shard) -> Callable[[ObjectKey], bool]:
    return lambda key: shard.has(key.namespace)


@lru_cache(maxsize=512)
def _decode_profile(raw: bytes) -> SyncProfile | None:
    """Cached, because every reconcile reads the profiles of its namespace and they change seldom."""
    try:
        return msgspec.json.decode(raw, type=SyncProfile)
    except msgspec.ValidationError:
        return None
