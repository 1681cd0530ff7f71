"""Resolve one resource name of a rule to the kinds that the server serves, or to a reason why there are none.

A name that selects nothing is no error. It is kept as `InertName` and resolved again after the next
discovery, because the kind may be installed later or its API server may come back.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import NamedTuple

from stoker.kube.client.served_kinds import KindCatalog, ServedResource
from stoker.reverser.selection.preset import GroupResource
from stoker.reverser.selection.rules import ANY, RuleRef, RuleResource, SelectionRule

_NEEDED_VERBS = frozenset({"list", "watch"})


class InertReason(StrEnum):
    """Why a name selects nothing, as one word."""

    UNKNOWN_KIND = "UnknownKind"
    PARTIAL_DISCOVERY = "PartialDiscovery"
    VERSION_NOT_SERVED = "VersionNotServed"
    NO_LIST_WATCH = "NoListWatch"
    SCOPE_MISMATCH = "ScopeMismatch"
    EXCLUDED = "Excluded"
    SUBRESOURCE = "SubresourceIgnored"
    WILDCARD = "WatchAllDisabled"
    TOO_MANY_KINDS = "TooManyKinds"


class InertName(NamedTuple):
    """A name in a rule that selects nothing at present."""

    rule: RuleRef
    name: str
    why: InertReason
    detail: str

    def __str__(self) -> str:
        return f"{self.rule}: {self.name} {self.detail}"


def resolve_kinds(
    rule: SelectionRule,
    named: RuleResource,
    catalog: KindCatalog,
    excluded: frozenset[GroupResource],
    *,
    watch_all: bool,
) -> tuple[ServedResource, ...] | InertName:
    """Return the kinds that a name selects, each in the versions that the rule wants."""

    def inert(why: InertReason, detail: str) -> InertName:
        return InertName(rule.source, str(named), why, detail)

    if named.subresource:
        return inert(InertReason.SUBRESOURCE, "is part of its object and not written by itself")
    if named.resource == ANY and not watch_all:
        return inert(InertReason.WILDCARD, "selects nothing: this installation does not watch all kinds")
    served = [
        each
        for each in catalog.served
        if named.names(each.resource.group, each.resource.plural)
        and (not rule.groups or each.resource.group in rule.groups)
    ]
    if not served:
        return inert(*_unknown_kind_reason(rule, named, catalog))
    # A plain name may match kinds of several groups. A reason is reported only if no kind is left.
    for why, detail, fits in _conditions(rule, excluded):
        served = [each for each in served if fits(each)]
        if not served:
            return inert(why, detail)
    return tuple(served)


def _conditions(
    rule: SelectionRule, excluded: frozenset[GroupResource]
) -> tuple[tuple[InertReason, str, Callable[[ServedResource], bool]], ...]:
    outside = "is in no namespace, and the rule is for objects within namespaces"
    inside = "lives in namespaces, and the rule has the scope Cluster"
    return (
        (
            InertReason.EXCLUDED,
            "is excluded from every rule",
            lambda each: GroupResource(each.resource.group, each.resource.plural) not in excluded,
        ),
        (
            InertReason.VERSION_NOT_SERVED,
            f"is not served in version {' or '.join(sorted(rule.versions))}",
            lambda each: each.resource.version in rule.versions if rule.versions else each.preferred,
        ),
        (
            InertReason.SCOPE_MISMATCH,
            outside if rule.namespaced else inside,
            lambda each: each.resource.namespaced is rule.namespaced,
        ),
        (
            InertReason.NO_LIST_WATCH,
            "cannot be listed and watched",
            lambda each: each.verbs >= _NEEDED_VERBS,
        ),
    )


def _unknown_kind_reason(
    rule: SelectionRule, named: RuleResource, catalog: KindCatalog
) -> tuple[InertReason, str]:
    if named.group is not None and rule.groups and named.group not in rule.groups:
        return InertReason.UNKNOWN_KIND, "names a group that apiGroups of the same rule leaves out"
    groups = {named.group} if named.group is not None else rule.groups
    hidden = [
        each.api_version
        for each in catalog.unavailable
        if not groups or each.api_version.rpartition("/")[0] in groups
    ]
    if hidden:
        return (
            InertReason.PARTIAL_DISCOVERY,
            f"is not known while the server cannot describe {', '.join(hidden)}",
        )
    for each in catalog.served:
        if named.resource in (each.singular, *each.short_names):
            return InertReason.UNKNOWN_KIND, f"is not served; the plural name is {each.resource}"
    return InertReason.UNKNOWN_KIND, "is not served; it is watched as soon as it is"
