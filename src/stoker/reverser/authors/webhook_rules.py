"""What the API server is to ask the reverser about, as the fields of one webhook: pure.

The rules are the kinds of the active selection, each in the version that is watched, and
never `*`. Where a kind is watched in some namespaces alone, a match condition says which:
a write that no rule of anybody selects is not asked about, and not slowed by a reverser
that is away. Of several watched versions of a kind one is asked about; the API server
converts what is written in another to it.

What is asked about is never refused and never waited for longer than a second.
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

# The API server reads expressions up to 100,000 characters, and all of an object must fit into etcd.
MAX_EXPRESSION = 50_000

CONDITIONS = (
    "not-a-dry-run",
    "not-a-lease",
    "not-an-event",
    "not-a-status",
    "not-by-the-reverser",
    "where-a-rule-selects",
)
"""The match conditions that are ours, by their names and in their order."""

_FIXED_FIELDS = {
    "admissionReviewVersions": ["v1"],
    "failurePolicy": "Ignore",
    "matchPolicy": "Equivalent",
    "sideEffects": "None",
    "timeoutSeconds": 1,
}
_KIND = "request.resource.resource + '.' + request.resource.group"


class ReviewedKind(NamedTuple):
    """One kind, or its `scale`, and which of its changes."""

    group: str
    version: str
    resource: str
    scope: str
    operations: tuple[str, ...]


def webhook_fields(asked: Iterable[ReviewedKind], selection: Selection, own_user: str) -> dict[str, Any]:
    """The fields of the webhook, but its name and where it is."""
    return {**_FIXED_FIELDS, "rules": _rules(asked), "matchConditions": _conditions(selection, own_user)}


def reviewed_operations(selection: Selection, catalog: KindCatalog) -> tuple[ReviewedKind, ...]:
    """Everything that has to be asked about for a selection."""
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
    """What the rules of a webhook ask about; of rules that others wrote as much as can be read."""
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
    """Two versions of a kind would be asked about as they are written, and each watch would miss half."""
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
    """As few rules as say the same."""
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
    """What is not worth a question, whatever the rules say."""
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
    """For kinds that are watched in some namespaces alone: that the request is for one of them."""
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
    # Too many namespaces to be listed: then all of them are asked about.
    return expression if len(expression) <= MAX_EXPRESSION else ""


def _cel_text(value: str) -> str:
    return json.dumps(value)


def _cel_list(values: Iterable[str]) -> str:
    return f"[{', '.join(map(_cel_text, values))}]"
