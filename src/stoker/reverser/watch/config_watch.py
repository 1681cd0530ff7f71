"""Watch the objects of the reverser's four kinds: the configuration that users wrote.

Besides them it watches the labels of namespaces, for rules that select by them, and the metadata of the
objects that change the served kinds (CRDs, APIServices). An object that does not fit its schema takes no part
in the destination plan; its own status reports why. A namespace in which the API server refuses every request
counts as empty: its files stay in git, as the files of a removed rule do, until access is granted.

`supervisor` reads the result (`stated`) and passes it to `destinations`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import msgspec

from stoker.api.kinds.destinations import GitDestination, GitRepoConfig
from stoker.api.kinds.resource import ConditionedStatus
from stoker.api.kinds.resource import CustomResource as Model
from stoker.api.kinds.watchrules import ClusterWatchRule, WatchRule
from stoker.api.registry import KINDS, CustomResourceKind
from stoker.domain.clock import Clock
from stoker.kube.client.client import KubeClient
from stoker.kube.client.kinds import rest_resource
from stoker.kube.client.objects import ObjectHeader, ObjectHeaderMeta
from stoker.kube.client.resources import CRDS, NAMESPACES, ApiResource
from stoker.kube.watch.informer import Informer
from stoker.kube.watch.namespace_access import NamespaceAccess
from stoker.kube.watch.reflector import Reflector
from stoker.kube.watch.store import ObjectChange
from stoker.kube.watch.store import ObjectKey as Name
from stoker.reverser.destinations import APPROVAL, AnyRule, DeclaredConfig, rule_destination
from stoker.reverser.manifest.named_secrets import SecretRef
from stoker.reverser.selection.labels import ObjectLabels
from stoker.reverser.watch.named_secrets import NamedSecretsWatch

M = TypeVar("M", bound=Model)

API_SERVICES = ApiResource("apiregistration.k8s.io", "v1", "apiservices", "APIService", namespaced=False)
_OURS: dict[type[Model], CustomResourceKind] = {
    kind.model: kind
    for kind in KINDS
    if kind.model in (GitRepoConfig, GitDestination, WatchRule, ClusterWatchRule)
}

_header = msgspec.json.Decoder(ObjectHeader)


class _StatusOnly(msgspec.Struct):
    """Reads the status alone, from an object whose other fields may have any shape."""

    status: ConditionedStatus | None = None


@dataclass(frozen=True, slots=True)
class UnreadableConfig:
    """An object that does not fit its schema, because it was written under another version of the schema."""

    metadata: ObjectHeaderMeta
    why: str
    status: ConditionedStatus | None = None
    destination: str = ""
    """The namespace of the destination that the object names; empty if it names none."""
    secrets: tuple[str, ...] = ()
    """Secrets that a GitRepoConfig names. They never go to git, whatever else is wrong with the object."""


_told = msgspec.json.Decoder(_StatusOnly)


class ConfigWatch:
    """Runs the informers of the configuration and reports changes to the supervisor."""

    def __init__(
        self,
        client: KubeClient,
        clock: Clock,
        *,
        home: str,
        namespaces: Collection[str] = (),
        with_secrets: bool = False,
        stirred: Callable[[], None],
        relabelled: Callable[[], None],
    ) -> None:
        self._namespaces = frozenset(namespaces)
        self._client = client
        self._clock = clock
        self._stirred = stirred
        self._relabelled = relabelled
        self._reach = NamespaceAccess(home)
        self._reach.lit = stirred
        self._configs: dict[type[Model], Informer[Model | UnreadableConfig]] = {
            model: Informer(
                client,
                rest_resource(kind),
                partial(_decode_config, msgspec.json.Decoder(model)),
                clock,
                namespaces=(sorted(self._namespaces) if kind.namespaced else ()) or (None,),
                on_error=self._reach.failed,
            )
            for model, kind in _OURS.items()
        }
        self._reach.watch(self._configs.values())
        self._labels = Informer(client, NAMESPACES, _labels, clock, metadata_only=True)
        self._served = tuple(
            Informer(client, each, _version, clock, metadata_only=True) for each in (CRDS, API_SERVICES)
        )
        self.named = NamedSecretsWatch(client, clock, self._namespaces, stirred) if with_secrets else None
        """The Secrets that must not be written; None where the reverser writes no Secrets."""
        self.listed = asyncio.Event()
        """Set once every kind was listed, or refused, in every watched namespace."""
        self.kinds_changed = asyncio.Event()
        """Set when a CRD or an APIService changed."""
        self._labels_wanted = asyncio.Event()

    @property
    def reflectors(self) -> tuple[Reflector[Any], ...]:
        informers: list[Informer[Any]] = [*self._configs.values(), self._labels, *self._served]
        return tuple(each for informer in informers for each in informer.reflectors)

    async def run(self) -> None:
        """Run all informers until cancelled."""
        async with asyncio.TaskGroup() as group:
            every: list[Informer[Any]] = [*self._configs.values(), *self._served]
            for informer in every:
                group.create_task(informer.run(), name=str(informer.resource))
            group.create_task(self._watch_labels(), name="labels of namespaces")
            if self.named is not None:
                group.create_task(self.named.run(), name="Secrets that are named")
            await self._reach.until_judged(group)
            self.listed.set()
            self._stirred()
            for config in self._configs.values():
                config.listen(self._on_change)
            for served in self._served:
                served.listen(self._on_kinds)

    def stated(self) -> DeclaredConfig:
        """Return all objects that fit their schema, and the names of those that do not."""
        rules: list[AnyRule] = [*self._read(WatchRule)]
        rules += (
            each for each in self._read(ClusterWatchRule) if self._is_mine(rule_destination(each).namespace)
        )
        lost = [
            (_OURS[model].name, kept)
            for model, informer in self._configs.items()
            for kept in informer.values()
            if isinstance(kept, UnreadableConfig)
        ]
        return DeclaredConfig(
            self._read(GitRepoConfig),
            self._read(GitDestination),
            rules,
            frozenset((kind, kept.metadata.namespace, kept.metadata.name) for kind, kept in lost),
            frozenset(SecretRef(kept.metadata.namespace, name) for _, kept in lost for name in kept.secrets)
            | (self.named.named if self.named is not None else frozenset()),
        )

    def every(self) -> Iterator[tuple[CustomResourceKind, Model | UnreadableConfig]]:
        for model, informer in self._configs.items():
            kind = _OURS[model]
            for kept in informer.values():
                to = None
                if isinstance(kept, ClusterWatchRule):
                    to = rule_destination(kept).namespace
                elif isinstance(kept, UnreadableConfig) and not kind.namespaced:
                    to = kept.destination
                if to is None or self._is_mine(to):
                    yield kind, kept

    @property
    def why_no_secrets(self) -> str:
        """Return why no Secret is watched; empty if Secrets are watched."""
        if self.named is None:
            return "the reverser was started without --include-secrets"
        return self.named.why_unknown

    def want_labels(self) -> None:
        """Start watching the labels of namespaces, because a rule selects by them."""
        self._labels_wanted.set()

    def labels_of(self, namespace: str) -> ObjectLabels | None:
        """Return the labels of a namespace; None while they are unknown."""
        return self._labels.get(Name("", namespace)) if namespace else None

    def _read(self, model: type[M]) -> list[M]:
        return [kept for kept in self._configs[model].values() if isinstance(kept, model)]

    def _is_mine(self, namespace: str) -> bool:
        return not self._namespaces or namespace in self._namespaces

    async def _watch_labels(self) -> None:
        await self._labels_wanted.wait()
        self._labels.listen(self._on_labels)
        await self._labels.run()

    def _on_change(self, change: ObjectChange[Any]) -> None:
        old, new = change.old, change.new
        # The reverser writes the statuses itself: only spec, approval, and what a takeover needs count.
        if isinstance(old, Model) and isinstance(new, Model) and settings_of(old) == settings_of(new):
            return
        self._stirred()

    def _on_labels(self, change: ObjectChange[dict[str, str]]) -> None:
        if change.old != change.new:
            self._relabelled()

    def _on_kinds(self, change: ObjectChange[str]) -> None:
        self.kinds_changed.set()


def _decode_config(decoder: msgspec.json.Decoder[M], raw: bytes) -> M | UnreadableConfig:
    try:
        return decoder.decode(raw)
    except msgspec.ValidationError as error:
        return unreadable_object(raw, str(error))


def unreadable_object(raw: bytes, why: str) -> UnreadableConfig:
    """Return the fields that can be read from an object of any shape."""
    try:
        status = _told.decode(raw).status
    except msgspec.ValidationError:
        status = None
    obj = msgspec.json.decode(raw)
    secrets = (_text_at(obj, "spec", *way, "name") for way in (("secretRef",), ("signing", "secretRef")))
    return UnreadableConfig(
        _header.decode(raw).metadata,
        why,
        status,
        _text_at(obj, "spec", "destinationRef", "namespace"),
        tuple(name for name in secrets if name),
    )


def _text_at(value: Any, *way: str) -> str:
    """Return the value at a path if it is a string, else an empty string."""
    for name in way:
        value = value.get(name) if isinstance(value, dict) else None
    return value if isinstance(value, str) else ""


def settings_of(one: Any) -> object:
    """The values that destinations are arranged by; another value means to arrange them again."""
    approval = (one.metadata.annotations or {}).get(APPROVAL)
    status = one.status if isinstance(one, GitDestination) else None
    brake = (status.held_deletions is not None, status.approvals_used) if status is not None else None
    return one.metadata.uid, one.spec, approval, brake


def _labels(raw: bytes) -> dict[str, str]:
    return _header.decode(raw).metadata.labels


def _version(raw: bytes) -> str:
    return _header.decode(raw).metadata.resource_version
