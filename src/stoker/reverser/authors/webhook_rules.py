"""Compute the rules and match conditions of the author webhook from the selection. Pure.

The rules are the kinds of the active selection, each in its watched version, and never `*`. For a kind that
is watched in some namespaces only, a match condition lists them: a write that no rule selects causes no
review, and an unavailable reverser does not slow it down. Of several watched versions of a kind only one is
registered; the API server converts objects of other versions to it.

The webhook never refuses a request, and the API server never waits for it longer than a second.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from stoker.kube.client.resources import ApiResource
from stoker.kube.client.served_kinds import KindCatalog
from stoker.reverser.authors.facts import SCALE
from stoker.reverser.selection.preset import GroupResource
from stoker.reverser.selection.rules import ChangeOperation
from stoker.reverser.selection.selection import Selection

# The API server accepts expressions up to 100,000 characters, and the whole object must fit into etcd.
MAX_EXPRESSION = 50_000

CONDITIONS = (
    "not-a-dry-run",
    "not-a-lease",
    "not-an-event",
    "not-a-status",
    "not-by-the-reverser",
    "where-a-rule-selects",
)
"""The names of the match conditions that this module owns, in order."""

_FIXED_FIELDS = {
    "admissionReviewVersions": ["v1"],
    "failurePolicy": "Ignore",
    "matchPolicy": "Equivalent",
    "sideEffects": "None",
    "timeoutSeconds": 1,
}
_KIND = "request.resource.resource + '.' + request.resource.group"


class ReviewedKind(NamedTuple):
    """A kind, or its `scale` subresource, and the reviewed operations."""

    group: str
    version: str
    resource: str
    scope: str
    operations: tuple[str, ...]


def webhook_fields(asked: Iterable[ReviewedKind], selection: Selection, own_user: str) -> dict[str, Any]:
    """Return the fields of the webhook, except its name and its client configuration."""
    return {**_FIXED_FIELDS, "rules": _rules(asked), "matchConditions": _conditions(selection, own_user)}


def reviewed_operations(selection: Selection, catalog: KindCatalog) -> tuple[ReviewedKind, ...]:
    """Return everything that must be reviewed for a selection."""
    served = {each.resource: each for each in catalog.served}
    found: list[ReviewedKind] = []
    for resource in _one_version_each(selection.kinds, catalog):
        scope = "Namespaced" if resource.namespaced else "Cluster"
        operations = _operations(selection, resource)
        found.append(ReviewedKind(resource.group, resource.version, resource.plural, scope, operations))
        below = served[resource].subresources if resource in served else frozenset()
        if SCALE in below and ChangeOperation.UPDATE in operations:
            scale = f"{resource.plural}/{SCALE}"
            found.append(
                ReviewedKind(resource.group, resource.version, scale, scope, (ChangeOperation.UPDATE,))
            )
    return tuple(sorted(found))


def operations_in_rules(rules: Iterable[Any]) -> set[ReviewedKind]:
    """Return what the rules of a webhook cover; rules that other people wrote are read as far as possible."""
    return {
        ReviewedKind(
            group, version, resource, str(rule.get("scope", "*")), tuple(rule.get("operations") or ())
        )
        for rule in rules
        for group in rule.get("apiGroups") or ()
        for version in rule.get("apiVersions") or ()
        for resource in rule.get("resources") or ()
    }


def _one_version_each(kinds: Sequence[ApiResource], catalog: KindCatalog) -> list[ApiResource]:
    """Keep one version per kind.

    With two registered versions, each request would be reviewed in the version in which it was written, and
    the watch of each version would miss half of the facts.
    """
    chosen: dict[tuple[str, str], ApiResource] = {}
    for resource in kinds:
        preferred = catalog.preferred(resource.group, resource.plural)
        name = (resource.group, resource.plural)
        if name not in chosen or (preferred is not None and preferred.resource == resource):
            chosen[name] = resource
    return list(chosen.values())


def _operations(selection: Selection, resource: ApiResource) -> tuple[str, ...]:
    rules = [rule for rule in selection.rules if rule.names(resource.group, resource.plural)]
    writes = (ChangeOperation.CREATE, ChangeOperation.UPDATE) if any(rule.writes for rule in rules) else ()
    return (*writes, *((ChangeOperation.DELETE,) if any(rule.deletes for rule in rules) else ()))


def _rules(asked: Iterable[ReviewedKind]) -> list[dict[str, Any]]:
    """Group the kinds into as few rules as possible."""
    grouped: dict[tuple[str, str, str, tuple[str, ...]], list[str]] = {}
    for each in sorted(asked):
        grouped.setdefault((each.group, each.version, each.scope, each.operations), []).append(each.resource)
    return [
        {
            "operations": [str(operation) for operation in operations],
            "apiGroups": [group],
            "apiVersions": [version],
            "resources": resources,
            "scope": scope,
        }
        for (group, version, scope, operations), resources in grouped.items()
    ]


def _conditions(selection: Selection, own_user: str) -> list[dict[str, str]]:
    """Return conditions that exclude requests which never need a review, whatever the rules."""
    expressions = (
        "!has(request.dryRun) || !request.dryRun",
        f"{_KIND} != 'leases.coordination.k8s.io'",
        f"!({_KIND} in ['events.', 'events.events.k8s.io'])",
        "!has(request.subResource) || request.subResource in ['', 'scale']",
        f"request.userInfo.username != {_cel_text(own_user)}" if own_user else "",
        _namespace_condition(selection),
    )
    named = zip(CONDITIONS, expressions, strict=True)
    return [{"name": name, "expression": text} for name, text in named if text]


def _namespace_condition(selection: Selection) -> str:
    """Return a condition on the namespace, for kinds that are watched in some namespaces only."""
    namespaces: dict[GroupResource, set[str]] = {}
    for watched in selection.watched:
        kind = GroupResource(watched.resource.group, watched.resource.plural)
        namespaces.setdefault(kind, set()).add(watched.namespace)
    alike: dict[tuple[str, ...], list[str]] = {}
    for kind, where in namespaces.items():
        if "" not in where:
            alike.setdefault(tuple(sorted(where)), []).append(f"{kind.resource}.{kind.group}")
    clauses = [
        f"(!({_KIND} in {_cel_list(sorted(kinds))}) || request.namespace in {_cel_list(where)})"
        for where, kinds in sorted(alike.items())
    ]
    expression = " && ".join(clauses)
    # The list of namespaces is too long: all namespaces are reviewed then.
    return expression if len(expression) <= MAX_EXPRESSION else ""


def _cel_text(value: str) -> str:
    return json.dumps(value)


def _cel_list(values: Iterable[str]) -> str:
    return f"[{', '.join(map(_cel_text, values))}]"
