"""One selection rule: the kinds that it names, its namespaces, its labels and its operations.

This module turns `WatchRule` and `ClusterWatchRule` objects and the preset into `SelectionRule`s; no module
behind it knows the origin of a rule. A rule of a `WatchRule` is bound to its own namespace when it is built,
so no later step can forget the restriction.

A name in `resources` has one of these forms: `deployments`, `deployments.apps`, `deployments/scale`
(accepted, without effect) or `*` alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from stoker.api.kinds.watchrules import ClusterResourceRule, ClusterWatchRule, ResourceRule, WatchRule
from stoker.reverser.manifest.path import ManifestKey
from stoker.reverser.selection.labels import MATCH_ALL, LabelMatcher, ObjectLabels
from stoker.reverser.selection.preset import CLUSTER_WIDE, NAMESPACED

ANY = "*"


class ChangeOperation(StrEnum):
    """The operation that changed an object."""

    CREATE = "CREATE"
    UPDATE = "UPDATE"
    DELETE = "DELETE"


class RuleResource(NamedTuple):
    """One entry of `resources`."""

    resource: str
    group: str | None = None
    """None where the entry names no group."""
    subresource: str = ""

    @classmethod
    def of(cls, text: str) -> RuleResource:
        name, _, subresource = text.partition("/")
        resource, dot, group = name.partition(".")
        return cls(resource, group if dot else None, subresource)

    def names(self, group: str, resource: str) -> bool:
        return self.resource in (ANY, resource) and self.group in (None, group) and not self.subresource

    def __str__(self) -> str:
        group = f".{self.group}" if self.group is not None else ""
        below = f"/{self.subresource}" if self.subresource else ""
        return f"{self.resource}{group}{below}"


class DestinationRef(NamedTuple):
    """A `GitDestination`."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


class RuleRef(NamedTuple):
    """The position of a rule: its object, and the index of the entry in `rules`, counted from 0."""

    kind: str
    namespace: str
    name: str
    position: int = 0

    def __str__(self) -> str:
        where = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"{self.kind} {where} rules[{self.position}]".strip()


@dataclass(frozen=True, slots=True)
class SelectionRule:
    """Selects objects for one destination. An empty set of groups, versions or operations means all."""

    source: RuleRef
    destination: DestinationRef
    resources: tuple[RuleResource, ...]
    namespaced: bool
    """True for namespaced objects, False for cluster-scoped objects."""
    namespace: str = ""
    """The only namespace that the rule selects from; empty for all."""
    operations: frozenset[ChangeOperation] = frozenset()
    groups: frozenset[str] = frozenset()
    versions: frozenset[str] = frozenset()
    labels: LabelMatcher = MATCH_ALL
    namespace_labels: LabelMatcher = MATCH_ALL

    @property
    def writes(self) -> bool:
        """Whether the rule writes files: CREATE or UPDATE among its operations is enough."""
        return not self.operations or not self.operations.isdisjoint(
            (ChangeOperation.CREATE, ChangeOperation.UPDATE)
        )

    @property
    def deletes(self) -> bool:
        """Whether the rule deletes files, including the files of orphans."""
        return not self.operations or ChangeOperation.DELETE in self.operations

    @property
    def unconditional(self) -> bool:
        """Whether the rule selects every object of its kinds and namespaces, whatever the labels."""
        return not self.labels.requirements and not self.namespace_labels.requirements

    def names(self, group: str, resource: str) -> bool:
        """Return whether the rule names a kind, in any version."""
        return (not self.groups or group in self.groups) and any(
            each.names(group, resource) for each in self.resources
        )

    def reaches(self, namespace: str) -> bool:
        """Return whether the rule selects from a namespace; an empty name means cluster-scoped objects."""
        if bool(namespace) is not self.namespaced:
            return False
        return not self.namespace or self.namespace == namespace

    def takes(self, key: ManifestKey, labels: ObjectLabels, namespace_labels: ObjectLabels | None) -> bool:
        """Return whether the rule selects an object of a named kind; namespace labels may be unknown."""
        if not self.reaches(key.namespace) or not self.labels.fits(labels):
            return False
        if not self.namespace_labels.requirements:
            return True
        return namespace_labels is not None and self.namespace_labels.fits(namespace_labels)


def resource_rules(resource: WatchRule | ClusterWatchRule) -> tuple[SelectionRule, ...]:
    """Return the rules of one WatchRule or ClusterWatchRule."""
    name, to = resource.metadata.name, resource.spec.destination_ref
    if isinstance(resource, WatchRule):
        home = resource.metadata.namespace
        destination = DestinationRef(to.namespace or home, to.name)
        return tuple(
            _rule(each, RuleRef("WatchRule", home, name, index), destination, namespaced=True, namespace=home)
            for index, each in enumerate(resource.spec.rules)
        )
    destination = DestinationRef(to.namespace or "", to.name)
    return tuple(
        _rule(
            each,
            RuleRef("ClusterWatchRule", "", name, index),
            destination,
            namespaced=each.scope == "Namespaced",
        )
        for index, each in enumerate(resource.spec.rules)
    )


def preset_rules(destination: DestinationRef, namespaces: Iterable[str] = ()) -> tuple[SelectionRule, ...]:
    """Return the desired-state preset: cluster-wide, or for namespaced kinds in the given namespaces."""
    source = RuleRef("preset", "", "")
    inside = tuple(RuleResource(each.resource, each.group) for each in NAMESPACED)
    outside = tuple(RuleResource(each.resource, each.group) for each in CLUSTER_WIDE)
    if chosen := sorted(set(namespaces)):
        return tuple(
            SelectionRule(source, destination, inside, namespaced=True, namespace=each) for each in chosen
        )
    return (
        SelectionRule(source, destination, inside, namespaced=True),
        SelectionRule(source._replace(position=1), destination, outside, namespaced=False),
    )


def _rule(
    said: ResourceRule, source: RuleRef, destination: DestinationRef, *, namespaced: bool, namespace: str = ""
) -> SelectionRule:
    around = said.namespace_selector if isinstance(said, ClusterResourceRule) else None
    return SelectionRule(
        source,
        destination,
        tuple(map(RuleResource.of, said.resources)),
        namespaced=namespaced,
        namespace=namespace,
        operations=frozenset(map(ChangeOperation, _set_or_all(said.operations))),
        groups=_set_or_all(said.api_groups),
        versions=_set_or_all(said.api_versions),
        labels=LabelMatcher.of(said.label_selector),
        namespace_labels=LabelMatcher.of(around),
    )


def _set_or_all(words: Iterable[str] | None) -> frozenset[str]:
    """Return the listed values; an empty set, which means all, if the list is missing or holds `*`."""
    listed = frozenset(words or ())
    return frozenset() if ANY in listed else listed
