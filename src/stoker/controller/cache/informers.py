"""What the controller watches: one reflector for each kind and scope, on every replica.

A replica that waits for the lease sees all of it too, so that it can take over at
once and knows whom a webhook may call. Nothing is told to anybody before every kind
has been listed once: a pass that ran earlier would take a base or a pod for missing
that had only not been read yet. Which resource a change concerns is decided in
`stoker.controller.cache.handlers`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
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
    CachedResource,
    CachedRole,
    CachedRoleBinding,
    CachedSecretHeader,
    ResourceKey,
    decode_claim,
    decode_config_map,
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
from stoker.kube.watch.namespace_access import NamespaceAccess, ignore_change
from stoker.kube.watch.reflector import ChangeListener, Reflector
from stoker.kube.watch.store import ObjectKey
from stoker.telemetry.logs import get_logger

T = TypeVar("T")

PAUSE_MAP = "ignition-sync-global-pause"
"""In the operator's namespace; `paused: "true"` in it stops everything (R-CM-26)."""

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class WatchScope:
    """What is looked at."""

    home: str
    """The operator's own namespace."""
    namespaces: Collection[str] = ()
    """Namespaces whose resources are worked on; none named means all."""
    labels: str = ""
    """A selector that resources must fit."""
    shared_volumes: bool = False
    """Whether volumes are made for resources that ask for one; their claims are watched then."""
    shard: Shard = SINGLE_SHARD
    """Whose namespaces are worked on. Resources, bases and Secrets are seen beyond them: webhooks are
    answered for all resources, whichever replica they reach."""


class ControllerInformers:
    """The stores behind all passes."""

    def __init__(self, client: KubeClient, scope: WatchScope, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._namespaces: Collection[str | None] = scope.namespaces or (None,)
        self._own: Collection[str | None] = [each for each in scope.namespaces if scope.shard.has(each)]
        self._own = self._own if scope.namespaces else (None,)
        self._wanted = None if scope.shard == SINGLE_SHARD else _in_shard(scope.shard)
        self.listed = asyncio.Event()
        """Every kind has been listed once, but in namespaces that refuse us everything."""
        self.reach = NamespaceAccess(scope.home)
        self.recovered: Callable[[], None] = ignore_change
        """Told that a watch is open again: the API server was away, and what failed meanwhile may go well."""
        self.resources: Mapping[str, WriteThroughCache[CachedResource]] = {
            name: self._shelf(rest_resource(kind), decode_object, labels=scope.labels)
            for name, kind in SYNCED_KINDS.items()
        }
        self.bases = self._shelf(rest_resource(BASES), decode_object)
        self.profiles = self._shelf(rest_resource(PROFILES), decode_object, scopes=self._own)
        self.pods: WriteThroughCache[CachedPod | None] = self._shelf(
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
        self.secrets: WriteThroughCache[CachedSecretHeader] = self._shelf(
            SECRETS, decode_secret, metadata_only=True
        )
        self.pause: WriteThroughCache[CachedConfigMap] = self._shelf(
            CONFIG_MAPS, decode_config_map, scopes=(scope.home,), fields=f"metadata.name={PAUSE_MAP}"
        )
        self._pause_key = ObjectKey(scope.home, PAUSE_MAP)
        self.reach.watch(self.reflectors)

    @property
    def shelves(self) -> tuple[WriteThroughCache[Any], ...]:
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
        return tuple(chain.from_iterable(shelf.reflectors for shelf in self.shelves))

    async def run(self) -> None:
        """Keep the stores right until cancelled."""
        async with asyncio.TaskGroup() as group:
            for reflector in self.reflectors:
                group.create_task(reflector.run(), name=str(reflector.resource))
            await self.reach.until_judged(group)
            self.listed.set()

    def begin_term(self) -> None:
        """What an earlier term of ours wrote was written over by others since."""
        for shelf in self.shelves:
            shelf.forget_writes()

    def _tell_recovered(self) -> None:
        self.recovered()  # whoever works at that time

    def at_rest(self) -> None:
        """Nobody works any more."""
        self.recovered = self.reach.lit = ignore_change

    def find(self, key: ResourceKey) -> CachedResource | None:
        return self.resources[key.kind].get(key.object)

    def every(self, namespace: str | None = None) -> Iterator[ResourceKey]:
        """All resources, or those of a namespace."""
        for kind, shelf in self.resources.items():
            for key in shelf.each():
                if namespace in (None, key.namespace):
                    yield ResourceKey(kind, key)

    def heirs(self, base: ObjectKey) -> Iterator[ResourceKey]:
        """The resources that inherit from a base."""
        for kind, shelf in self.resources.items():
            for key, kept in shelf.items():
                try:
                    wanted = base_ref(decode_resource(kept, SYNCED_KINDS[kind].model))
                except InvalidValue:
                    continue  # its own pass says so
                if wanted is not None and base == ObjectKey(wanted.namespace or "", wanted.name):
                    yield ResourceKey(kind, key)

    def base_for(self, resource: Model) -> tuple[IgnitionSyncBase | None, bytes]:
        """The base that a resource inherits from, where it exists and allows that, and its bytes.

        One that does not allow it is not even decoded: an error in it would show that it exists.
        """
        wanted, namespace = base_ref(resource), resource.metadata.namespace
        home = wanted.namespace or "" if wanted else ""
        kept = self.bases.get(ObjectKey(home, wanted.name)) if wanted else None
        if kept is None or not base_allows(home, namespace, kept.header.metadata.annotations):
            return None, b""
        return decode_resource(kept, IgnitionSyncBase), kept.raw

    def profiles_in(self, namespace: str) -> dict[str, SyncProfile]:
        """Those that can be read, by name; what is wrong with another is said on that one."""
        found: dict[str, SyncProfile] = {}
        for key, kept in self.profiles.items():
            if key.namespace == namespace:
                profile = _decode_profile(kept.raw)
                if profile is not None:
                    found[key.name] = profile
        return found

    def pods_of(self, key: ResourceKey) -> list[CachedPod]:
        """The pods that belong to a resource, in every phase (C-073)."""
        namespace, name = key.object
        named = [pod for _, pod in self.pods.find("resource", f"{namespace}/{name}") if pod is not None]
        found = [pod for pod in named if self._meant(pod, key)]
        nameless = [pod for _, pod in self.pods.find("resource", f"{namespace}/*") if pod is not None]
        if nameless and list(self.every(namespace)) == [key]:
            found += nameless
        return sorted(found, key=lambda pod: pod.name)

    def has_nameless(self, namespace: str) -> bool:
        """Whether a pod there leaves it open which resource it means."""
        return any(True for _ in self.pods.find("resource", f"{namespace}/*"))

    def _meant(self, pod: CachedPod, key: ResourceKey) -> bool:
        if pod.resource_kind:
            return pod.resource_kind == key.kind
        others = (kind for kind in self.resources if kind != key.kind)
        return not any(self.resources[kind].get(key.object) for kind in others)

    def paused_by(self) -> str:
        """Why everything is paused; empty if it is not."""
        seen = self.pause.get(self._pause_key)
        paused = seen is not None and (seen.data or {}).get("paused", "").strip() == "true"
        return f"ConfigMap {self._pause_key} pauses everything" if paused else ""

    def _of_ours(
        self, resource: ApiResource, keep: Callable[[bytes], T], *, watched: bool = True
    ) -> WriteThroughCache[T]:
        """What is made for resources carries a label of ours."""
        return self._shelf(resource, keep, scopes=self._own if watched else (), labels=CR_NAME_LABEL)

    def _shelf(
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
        def reflector(namespace: str | None) -> Reflector[T]:
            return Reflector(
                self._client,
                resource,
                namespace=namespace,
                labels=labels or None,
                fields=fields,
                metadata_only=metadata_only,
                keep=keep,
                on_error=partial(self.reach.failed, namespace),
                on_recovered=self._tell_recovered,
                on_refused=_log_unreadable(resource),
                indexes=indexes,
                # A selector cannot say a hash, so where no namespaces are named all of them come by.
                wanted=self._wanted if scopes is self._own else None,
                clock=self._clock,
            )

        return WriteThroughCache(
            [reflector(each) for each in (self._namespaces if scopes is None else scopes)], keep
        )


def _in_shard(shard: Shard) -> Callable[[ObjectKey], bool]:
    return lambda key: shard.has(key.namespace)


@lru_cache(maxsize=512)
def _decode_profile(raw: bytes) -> SyncProfile | None:
    """Every pass looks at the profiles of its namespace, and they change seldom."""
    try:
        return msgspec.json.decode(raw, type=SyncProfile)
    except msgspec.ValidationError:
        return None


def add_listener(shelf: WriteThroughCache[T], listener: ChangeListener[T]) -> None:
    for reflector in shelf.reflectors:
        reflector.listen(listener)


def _log_unreadable(resource: ApiResource) -> Callable[[ObjectKey, Exception], None]:
    def refused(key: ObjectKey, error: Exception) -> None:
        kind = type(error).__name__ if not isinstance(error, msgspec.ValidationError) else str(error)
        log.warning("object.unreadable", kind=resource.kind, key=str(key), error=kind)

    return refused
