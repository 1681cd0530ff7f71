"""Watch handlers: map a changed object to the keys of resources and profiles to enqueue.

A change of only the status enqueues nothing, or each status write would cause the next reconcile. The same
holds for the echo of our own write, for a heartbeat, and for a pod that changed only in fields that the
controller does not read. Reports of agents are enqueued with a short delay, so that the reports of a whole
fleet cause one reconcile.

Nothing is enqueued while this replica does not lead. A term as leader begins by enqueueing all keys.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, TypeVar

from stoker.api.to_intent.annotations.annotation_requests import (
    APPROVED_AT,
    APPROVED_BY,
    APPROVED_PLAN,
    APPROVED_REF,
)
from stoker.api.to_intent.pod_facts import PodAnnotationKey
from stoker.controller.cache.informers import ControllerInformers
from stoker.controller.cache.objects import (
    SYNCED_KINDS,
    CachedClaim,
    CachedConfigMap,
    CachedGlobalPause,
    CachedResource,
    CachedRole,
    CachedRoleBinding,
    CachedSecretHeader,
    ResourceKey,
)
from stoker.controller.cache.pods import UNNAMED_RESOURCE, CachedPod
from stoker.controller.cache.reports import parse_report
from stoker.controller.cache.store import WriteThroughCache
from stoker.domain.protocol import CR_KIND_LABEL, CR_NAME_LABEL, metadata_map_name
from stoker.kube.watch.store import ObjectChange, ObjectKey

_CachedOwned = CachedConfigMap | CachedRole | CachedRoleBinding | CachedClaim
CachedOwnedT = TypeVar("CachedOwnedT", CachedRole, CachedRoleBinding, CachedClaim)

_ANNOTATION_PREFIXES = ("stoker.io/", "sync.ignition.io/")
_UNPREFIXED_ANNOTATIONS = frozenset({APPROVED_BY, APPROVED_AT, APPROVED_REF, APPROVED_PLAN})


class KeySink(NamedTuple):
    """The functions that enqueue keys."""

    now: Callable[[ResourceKey], None]
    soon: Callable[[ResourceKey], None]
    profile: Callable[[ObjectKey], None]

    def only(self, may: Callable[[str], bool]) -> KeySink:
        """Return a sink that drops the keys of namespaces for which `may` is false."""

        def within(take: Callable[[ResourceKey], None]) -> Callable[[ResourceKey], None]:
            return lambda key: take(key) if may(key.object.namespace) else None

        profile = self.profile
        return KeySink(
            within(self.now), within(self.soon), lambda key: profile(key) if may(key.namespace) else None
        )


class SecretReferences:
    """Which resources name which Secrets, as found by the last reconcile of each."""

    def __init__(self) -> None:
        self._names: dict[ResourceKey, frozenset[str]] = {}
        self._users: defaultdict[ObjectKey, set[ResourceKey]] = defaultdict(set)

    def put(self, key: ResourceKey, names: Iterable[str]) -> None:
        self.forget(key)
        self._names[key] = frozenset(names)
        for name in self._names[key]:
            self._users[ObjectKey(key.object.namespace, name)].add(key)

    def forget(self, key: ResourceKey) -> None:
        for name in self._names.pop(key, ()):
            secret = ObjectKey(key.object.namespace, name)
            self._users[secret].discard(key)
            if not self._users[secret]:
                del self._users[secret]

    def users(self, secret: ObjectKey) -> tuple[ResourceKey, ...]:
        return tuple(self._users.get(secret, ()))


class WaitingResources:
    """Resources with a gateway that waits for other gateways, possibly of another resource."""

    def __init__(self) -> None:
        self._keys: set[ResourceKey] = set()

    def put(self, key: ResourceKey, waits: bool) -> None:
        if waits:
            self._keys.add(key)
        else:
            self._keys.discard(key)

    def in_namespace(self, namespace: str) -> tuple[ResourceKey, ...]:
        return tuple(key for key in self._keys if key.object.namespace == namespace)

    def forget(self, key: ResourceKey) -> None:
        self._keys.discard(key)


class WatchHandlers:
    """Listens to all informers and enqueues keys."""

    def __init__(self, observed: ControllerInformers, references: SecretReferences) -> None:
        self._observed = observed
        self.references = references
        self.waiting = WaitingResources()
        self.unseen: set[ResourceKey] = set()
        """Keys that left our watches without being deleted; the reconciler discards each handled key."""
        self._sink: KeySink | None = None
        for kind, cache in observed.resources.items():
            cache.listen(self._on_resource(kind))
        observed.bases.listen(self._on_base)
        observed.profiles.listen(self._on_profile)
        observed.pods.listen(self._on_pod)
        observed.maps.listen(self._on_map)
        observed.roles.listen(self._on_ours(observed.roles))
        observed.bindings.listen(self._on_ours(observed.bindings))
        observed.claims.listen(self._on_ours(observed.claims))
        observed.secrets.listen(self._on_secret)
        observed.pause.listen(self._on_pause)

    def tell(self, sink: KeySink) -> None:
        """Begin a term, or continue with more namespaces, by enqueueing all keys once."""
        self._sink = sink
        for key in self._observed.every():
            sink.now(key)
        for profile in self._observed.profiles:
            sink.profile(profile)

    def lost(self, key: ResourceKey) -> None:
        """Enqueue a resource that left our selector before this process started, as if it had left now."""
        if self._sink is not None:
            self.unseen.add(key)
            self._sink.now(key)

    def hush(self) -> None:
        self._sink = None
        self.unseen.clear()

    def _now(self, keys: Iterable[ResourceKey]) -> None:
        if self._sink is not None:
            for key in keys:
                self._sink.now(key)

    def _profiles(self, keys: Iterable[ObjectKey]) -> None:
        if self._sink is not None:
            for key in keys:
                self._sink.profile(key)

    def _on_resource(self, kind: str) -> Callable[[ObjectChange[CachedResource]], None]:
        def on_change(change: ObjectChange[CachedResource]) -> None:
            if change.new is None and self._sink is not None and _has_pending_finalizer(change.old):
                self.unseen.add(ResourceKey(kind, change.key))
            if change.old is None or change.new is None or has_spec_change(change.old, change.new):
                self._now((ResourceKey(kind, change.key),))
            come_or_gone = change.old is None or change.new is None
            if come_or_gone and self._sink is not None and self._observed.has_nameless(change.key.namespace):
                # A pod that names no resource belongs to the only resource of its namespace.
                self._now(list(self._observed.every(change.key.namespace)))

        return on_change

    def _on_base(self, change: ObjectChange[CachedResource]) -> None:
        if self._sink is not None:
            self._now(list(self._observed.heirs(change.key)))

    def _on_profile(self, change: ObjectChange[CachedResource]) -> None:
        if self._sink is None:
            return
        before, after = change.old, change.new
        if before and after and before.header.metadata.generation == after.header.metadata.generation:
            return
        self._now(list(self._observed.every(change.key.namespace)))
        # Profiles that depend on it, or form a cycle with it, have to be reconciled too.
        self._profiles((change.key, *self._profiles_in(change.key.namespace)))

    def _on_pod(self, change: ObjectChange[CachedPod | None]) -> None:
        if self._sink is None or change.old == change.new:
            return
        for pod in (change.old, change.new):
            if pod is not None:
                self._now(list(self._meant_by(pod)))
                named = pod.annotated(PodAnnotationKey.SYNC_PROFILE)
                self._profiles((ObjectKey(pod.namespace, named),) if named else ())

    def _meant_by(self, pod: CachedPod) -> Iterator[ResourceKey]:
        if pod.resource == UNNAMED_RESOURCE:
            yield from self._observed.every(pod.namespace)
            return
        for kind in (pod.resource_kind,) if pod.resource_kind in SYNCED_KINDS else SYNCED_KINDS:
            yield ResourceKey(kind, ObjectKey(pod.namespace, pod.resource))

    def _on_map(self, change: ObjectChange[CachedConfigMap]) -> None:
        if self._sink is None:
            return
        for key in _owner_keys(change.key.namespace, change.new or change.old):
            told = change.key.name == metadata_map_name(key.door, key.object.name)
            if told and _commit(change.old) != _commit(change.new):
                self._profiles(self._depending(change.key.namespace))
            if self._observed.maps.is_echo(change):
                continue
            if told or change.new is None or _has_new_change_sets(change):
                self._sink.now(key)
            elif change.old is None or has_news(change.old.data or {}, change.new.data or {}):
                for each in (key, *self.waiting.in_namespace(change.key.namespace)):
                    self._sink.soon(each)
                self._profiles(self._depending(change.key.namespace))

    def _depending(self, namespace: str) -> list[ObjectKey]:
        profiles = self._observed.profiles_in(namespace)
        return [ObjectKey(namespace, name) for name, one in profiles.items() if one.spec.depends_on]

    def _profiles_in(self, namespace: str) -> list[ObjectKey]:
        return [key for key in self._observed.profiles if key.namespace == namespace]

    def _on_ours(
        self, cache: WriteThroughCache[CachedOwnedT]
    ) -> Callable[[ObjectChange[CachedOwnedT]], None]:
        """Return a handler that enqueues the owner, which reverts changes that others made to its object."""

        def on_change(change: ObjectChange[CachedOwnedT]) -> None:
            if self._sink is not None and not cache.is_echo(change):
                self._now(list(_owner_keys(change.key.namespace, change.new or change.old)))

        return on_change

    def _on_secret(self, change: ObjectChange[CachedSecretHeader]) -> None:
        if change.old is None or change.new is None or change.old.version != change.new.version:
            self._now(self.references.users(change.key))

    def _on_pause(self, change: ObjectChange[CachedGlobalPause]) -> None:
        if self._sink is not None:
            self._now(list(self._observed.every()))


def _has_pending_finalizer(old: CachedResource | None) -> bool:
    """Whether a resource that left our watches still had finalizers and was not being deleted."""
    meta = old.header.metadata if old is not None else None
    return meta is not None and meta.deletion_timestamp is None and bool(meta.finalizers)


def _has_new_change_sets(change: ObjectChange[CachedConfigMap]) -> bool:
    """Whether a gateway has sent a change set; a user waits for it, so it is enqueued without delay."""
    before = change.old.sizes if change.old is not None else {}
    return change.new is not None and not change.new.sizes.keys() <= before.keys()


def has_spec_change(old: CachedResource, new: CachedResource) -> bool:
    """Whether the desired state of a resource changed, and not only its status."""
    before, after = old.header.metadata, new.header.metadata
    return (
        before.generation != after.generation
        or _request_annotations(before.annotations) != _request_annotations(after.annotations)
        or before.deletion_timestamp != after.deletion_timestamp
        or bool(set(before.finalizers) - set(after.finalizers))
    )


def has_news(before: dict[str, str], after: dict[str, str]) -> bool:
    """Whether a status ConfigMap changed in more than heartbeats."""
    if before.keys() != after.keys():
        return True
    changed = (name for name, text in after.items() if before[name] != text)
    return any(_without_heartbeat(before[name]) != _without_heartbeat(after[name]) for name in changed)


def _without_heartbeat(text: str) -> object:
    report = parse_report(text)
    return text if report is None else report.without_heartbeat()


def _commit(seen: CachedConfigMap | None) -> str:
    return (seen.data or {}).get("commit", "") if seen is not None else ""


def _request_annotations(annotations: dict[str, str]) -> dict[str, str]:
    return {
        name: value
        for name, value in annotations.items()
        if name.startswith(_ANNOTATION_PREFIXES) or name in _UNPREFIXED_ANNOTATIONS
    }


def _owner_keys(namespace: str, seen: _CachedOwned | None) -> Iterator[ResourceKey]:
    labels = seen.metadata.labels if seen is not None else {}
    kind, name = labels.get(CR_KIND_LABEL, ""), labels.get(CR_NAME_LABEL, "")
    if name:
        for each in (kind,) if kind in SYNCED_KINDS else SYNCED_KINDS:
            yield ResourceKey(each, ObjectKey(namespace, name))
