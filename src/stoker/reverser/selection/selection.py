"""Compute which kinds are watched for a set of rules, and which rules select an object.

`select_objects` takes the rules and the served kinds and returns a `Selection`; the supervisor builds a new
one whenever either changes. Of a kind that is served in several versions only the preferred version is
selected, unless the rule lists versions. Beyond `max_kinds` kinds the rest is skipped, in the order of group,
version and resource.

A selection must never contain objects outside a rule's namespace, nor a kind of the excluded floor of
`stoker.reverser.selection.preset`. It never decides that a file is an orphan: it only returns which list
would show the object (`listed_in`), whether the kind is gone (`is_gone`), and whether a rule wants deletions
(`deletes`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from stoker.kube.client.resources import ApiResource
from stoker.kube.client.served_kinds import KindCatalog
from stoker.reverser.manifest.path import ManifestKey
from stoker.reverser.selection.kinds import InertName, InertReason, resolve_kinds
from stoker.reverser.selection.labels import ObjectLabels
from stoker.reverser.selection.preset import EXCLUDED, MAX_KINDS, GroupResource
from stoker.reverser.selection.rules import ANY, DestinationRef, SelectionRule

NO_LABELS: ObjectLabels = {}

KindId = tuple[str, str, str]
"""Group, version and plural: the order in which kinds are watched and skipped."""


class WatchedKind(NamedTuple):
    """One list and watch: a kind in one namespace, or in all namespaces."""

    resource: ApiResource
    namespace: str = ""


@dataclass(frozen=True, slots=True)
class Selection:
    """The effect of a set of rules on a server with a given catalog of kinds."""

    kinds: tuple[ApiResource, ...]
    """All watched kinds, in order; the admission webhook registers for them too."""
    watched: tuple[WatchedKind, ...]
    inert: tuple[InertName, ...]
    skipped: tuple[ApiResource, ...]
    rules: tuple[SelectionRule, ...]
    """The given rules, without wildcards if this installation does not watch all kinds."""
    complete: bool
    """Whether discovery described every group; if not, a missing kind does not count as gone."""
    _served: frozenset[KindId]
    _rules: Mapping[KindId, tuple[SelectionRule, ...]]
    _watched: Mapping[tuple[str, str], tuple[WatchedKind, ...]]

    def rules_for(self, key: ManifestKey) -> tuple[SelectionRule, ...]:
        """Return the rules that select the kind in this version and the namespace, whatever the labels."""
        return tuple(rule for rule in self._rules.get(key[:3], ()) if rule.reaches(key.namespace))

    def taken_by(
        self, key: ManifestKey, labels: ObjectLabels = NO_LABELS, namespace_labels: ObjectLabels | None = None
    ) -> dict[DestinationRef, tuple[SelectionRule, ...]]:
        """Return the destinations of an object, with the rules that select it."""
        taken: dict[DestinationRef, tuple[SelectionRule, ...]] = {}
        for rule in self._rules.get(key[:3], ()):
            if rule.writes and rule.takes(key, labels, namespace_labels):
                taken[rule.destination] = (*taken.get(rule.destination, ()), rule)
        return taken

    def fed_by(self, watched: WatchedKind) -> frozenset[DestinationRef]:
        """Return the destinations of all rules that need this list and watch."""
        return frozenset(
            rule.destination
            for rule in self._rules.get(_kind(watched.resource), ())
            if watched.namespace in ("", rule.namespace)
        )

    def deletes(
        self,
        key: ManifestKey,
        destination: DestinationRef,
        labels: ObjectLabels | None = None,
        namespace_labels: ObjectLabels | None = None,
    ) -> bool:
        """Return whether a file may be deleted, because its object is gone or no longer selected.

        The labels of an orphan are unknown, and the labels of an object that left the selection no longer
        match. In these cases (`labels` is None) a rule without label conditions must want deletions, or all
        rules that could have written the file must want them.
        """
        rules = list(self._naming(key, destination))
        if labels is not None:
            return any(rule.deletes and rule.takes(key, labels, namespace_labels) for rule in rules)
        return any(rule.deletes and rule.unconditional for rule in rules) or (
            bool(rules) and all(rule.deletes for rule in rules)
        )

    def listed_in(self, key: ManifestKey, destination: DestinationRef) -> WatchedKind | None:
        """Return the list that would show the object if it existed.

        A file whose object this list does not show is an orphan. If the server prefers another version by
        now, the list of that version decides.
        """
        for rule in self._naming(key, destination):
            for each in self._watched.get((key.group, key.resource), ()):
                version = each.resource.version == key.version or not rule.versions
                if version and each.namespace in ("", key.namespace):
                    return each
        return None

    def is_gone(self, key: ManifestKey, destination: DestinationRef) -> bool:
        """Return whether a rule names the kind and a complete discovery does not show it in this version."""
        if not self.complete or key[:3] in self._served:
            return False
        return any(True for _ in self._naming(key, destination))

    def _naming(self, key: ManifestKey, destination: DestinationRef) -> Iterator[SelectionRule]:
        """Yield the rules of a destination that name the object's kind, whether or not it is served."""
        for rule in self.rules:
            if (
                rule.destination == destination
                and (not rule.versions or key.version in rule.versions)
                and rule.reaches(key.namespace)
                and rule.names(key.group, key.resource)
            ):
                yield rule


def select_objects(
    rules: Iterable[SelectionRule],
    catalog: KindCatalog,
    *,
    excluded: frozenset[GroupResource] = EXCLUDED,
    watch_all: bool = False,
    max_kinds: int = MAX_KINDS,
) -> Selection:
    """Apply the rules to the kinds of the catalog."""
    given = tuple(rules)
    meant = given if watch_all else tuple(map(_without_wildcards, given))
    found: dict[KindId, tuple[ApiResource, list[SelectionRule]]] = {}
    inert: list[InertName] = []
    for rule, lasting in zip(given, meant, strict=True):
        for named in rule.resources:
            served = resolve_kinds(rule, named, catalog, excluded | EXCLUDED, watch_all=watch_all)
            if isinstance(served, InertName):
                inert.append(served)
                continue
            for each in served:
                taking = found.setdefault(_kind(each.resource), (each.resource, []))[1]
                if lasting not in taking:
                    taking.append(lasting)
    order = sorted(found)
    kept = [found[kind] for kind in order[:max_kinds]]
    beyond = [found[kind] for kind in order[max_kinds:]]
    inert += (_inert_over_limit(resource, rule, max_kinds) for resource, taking in beyond for rule in taking)
    watched = tuple(each for resource, taking in kept for each in _watch_scopes(resource, taking))
    by_name: dict[tuple[str, str], tuple[WatchedKind, ...]] = {}
    for one in watched:
        name = (one.resource.group, one.resource.plural)
        by_name[name] = (*by_name.get(name, ()), one)
    return Selection(
        kinds=tuple(resource for resource, _ in kept),
        watched=watched,
        inert=tuple(inert),
        skipped=tuple(resource for resource, _ in beyond),
        rules=meant,
        complete=not catalog.unavailable,
        _served=frozenset(_kind(each.resource) for each in catalog.served),
        _rules={_kind(resource): tuple(taking) for resource, taking in kept},
        _watched=by_name,
    )


def _watch_scopes(resource: ApiResource, rules: list[SelectionRule]) -> list[WatchedKind]:
    """Return one watch for all namespaces if any rule needs it, otherwise one watch per named namespace."""
    namespaces = {rule.namespace for rule in rules}
    return [WatchedKind(resource, each) for each in ([""] if "" in namespaces else sorted(namespaces))]


def _kind(resource: ApiResource) -> KindId:
    return (resource.group, resource.version, resource.plural)


def _without_wildcards(rule: SelectionRule) -> SelectionRule:
    named = tuple(each for each in rule.resources if each.resource != ANY)
    return rule if len(named) == len(rule.resources) else replace(rule, resources=named)


def _inert_over_limit(resource: ApiResource, rule: SelectionRule, max_kinds: int) -> InertName:
    detail = f"is skipped: only the first {max_kinds} kinds, by group, version and name, are watched"
    return InertName(rule.source, str(resource), InertReason.TOO_MANY_KINDS, detail)
