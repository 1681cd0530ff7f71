"""The rules of the author webhook for a selection: every kind of it, and nothing else."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from stoker.api.kinds.watchrules import ClusterWatchRule, WatchRule
from stoker.kube.client.resources import ApiResource
from stoker.kube.client.served_kinds import KindCatalog, ServedResource, prefer_first
from stoker.reverser.authors.webhook_rules import (
    CONDITIONS,
    MAX_EXPRESSION,
    ReviewedKind,
    operations_in_rules,
    reviewed_operations,
    webhook_fields,
)
from stoker.reverser.selection.rules import DestinationRef, SelectionRule, preset_rules, resource_rules
from stoker.reverser.selection.selection import Selection, select_objects

VERBS = frozenset({"get", "list", "watch"})
CHANGES = ("CREATE", "UPDATE", "DELETE")


def served(group: str, version: str, plural: str, *below: str, namespaced: bool = True) -> ServedResource:
    resource = ApiResource(group, version, plural, plural.title(), namespaced=namespaced)
    return ServedResource(resource, VERBS, frozenset(below))


CATALOG = KindCatalog(
    tuple(
        prefer_first(
            [
                served("", "v1", "configmaps"),
                served("", "v1", "secrets"),
                served("apps", "v1", "deployments", "status", "scale"),
                served("apps", "v1beta2", "deployments", "status", "scale"),
                served("rbac.authorization.k8s.io", "v1", "clusterroles", namespaced=False),
                served("example.net", "v2", "pumps", "status", "scale"),
                served("example.net", "v1", "pumps"),
            ]
        )
    )
)


def watch_rule(namespace: str, *resources: str, **more: Any) -> tuple[SelectionRule, ...]:
    spec = {"destinationRef": {"name": "d"}, "rules": [{"resources": list(resources), **more}]}
    head = {"apiVersion": "configbutler.ai/v1alpha1", "kind": "WatchRule"}
    return resource_rules(
        msgspec.convert({**head, "metadata": {"name": "r", "namespace": namespace}, "spec": spec}, WatchRule)
    )


def cluster_rule(scope: str, *resources: str, **more: Any) -> tuple[SelectionRule, ...]:
    rule = {"resources": list(resources), "scope": scope, **more}
    spec = {"destinationRef": {"name": "d", "namespace": "n"}, "rules": [rule]}
    head = {"apiVersion": "configbutler.ai/v1alpha1", "kind": "ClusterWatchRule"}
    return resource_rules(
        msgspec.convert({**head, "metadata": {"name": "c"}, "spec": spec}, ClusterWatchRule)
    )


def selected(*rules: SelectionRule, **more: Any) -> Selection:
    return select_objects(rules, CATALOG, **more)


def asked(*rules: SelectionRule) -> set[ReviewedKind]:
    return set(reviewed_operations(selected(*rules), CATALOG))


def conditions(*rules: SelectionRule, own_user: str = "me") -> dict[str, str]:
    selection = selected(*rules)
    found = webhook_fields(reviewed_operations(selection, CATALOG), selection, own_user)["matchConditions"]
    return {each["name"]: each["expression"] for each in found}


@pytest.mark.parametrize(
    ("rules", "wanted"),
    [
        ((), set()),
        (watch_rule("a", "configmaps"), {ReviewedKind("", "v1", "configmaps", "Namespaced", CHANGES)}),
        (
            watch_rule("a", "deployments.apps"),
            {
                ReviewedKind("apps", "v1", "deployments", "Namespaced", CHANGES),
                ReviewedKind("apps", "v1", "deployments/scale", "Namespaced", ("UPDATE",)),
            },
        ),
        (
            cluster_rule("Cluster", "clusterroles"),
            {ReviewedKind("rbac.authorization.k8s.io", "v1", "clusterroles", "Cluster", CHANGES)},
        ),
        (
            watch_rule("a", "configmaps", operations=["CREATE"]),
            {ReviewedKind("", "v1", "configmaps", "Namespaced", ("CREATE", "UPDATE"))},
        ),
        (
            watch_rule("a", "deployments", operations=["DELETE"]),
            {ReviewedKind("apps", "v1", "deployments", "Namespaced", ("DELETE",))},
        ),
        (
            watch_rule("a", "configmaps", operations=["DELETE"])
            + watch_rule("b", "configmaps", operations=["UPDATE"]),
            {ReviewedKind("", "v1", "configmaps", "Namespaced", CHANGES)},
        ),
        (watch_rule("a", "*"), set()),
        (watch_rule("a", "pods", "leases.coordination.k8s.io", "events", "jobs.batch"), set()),
    ],
)
def test_every_selected_kind_is_asked_about_and_no_other(
    rules: tuple[SelectionRule, ...], wanted: set[ReviewedKind]
) -> None:
    assert asked(*rules) == wanted


def test_even_a_selection_of_everything_names_each_kind() -> None:
    selection = selected(*cluster_rule("Namespaced", "*"), watch_all=True)
    found = webhook_fields(reviewed_operations(selection, CATALOG), selection, "")
    assert "*" not in str(found["rules"])
    assert {each.resource for each in operations_in_rules(found["rules"])} == {
        "configmaps",
        "secrets",
        "deployments",
        "deployments/scale",
        "pumps",
        "pumps/scale",
    }


def test_of_two_versions_the_preferred_one_is_asked_about() -> None:
    """What is written in the other is converted by the API server, and sent in this one."""
    both = watch_rule("a", "deployments", apiVersions=["v1", "v1beta2"])
    assert {each.version for each in asked(*both)} == {"v1"}
    old = watch_rule("a", "pumps", apiVersions=["v1"])
    assert {(each.version, each.resource) for each in asked(*old)} == {("v1", "pumps")}


def test_nothing_is_ever_refused_or_waited_for() -> None:
    selection = selected(*preset_rules(DestinationRef("n", "d")))
    found = webhook_fields(reviewed_operations(selection, CATALOG), selection, "me")
    assert (found["failurePolicy"], found["timeoutSeconds"]) == ("Ignore", 1)
    assert (found["sideEffects"], found["matchPolicy"]) == ("None", "Equivalent")
    assert operations_in_rules(found["rules"]) == set(reviewed_operations(selection, CATALOG))


def test_the_conditions_are_ours_by_name() -> None:
    assert tuple(conditions(*watch_rule("a", "configmaps"))) == CONDITIONS
    everywhere = conditions(*cluster_rule("Namespaced", "configmaps"), own_user="")
    assert "not-by-the-reverser" not in everywhere
    assert "where-a-rule-selects" not in everywhere


def test_a_user_cannot_break_out_of_the_expression() -> None:
    condition = conditions(own_user='x" || true || "')["not-by-the-reverser"]
    assert condition == r'request.userInfo.username != "x\" || true || \""'


def test_kinds_with_the_same_namespaces_share_a_clause() -> None:
    where = conditions(
        *watch_rule("a", "configmaps", "secrets"),
        *watch_rule("b", "configmaps"),
        *cluster_rule("Namespaced", "deployments"),
        *watch_rule("a", "deployments"),
    )["where-a-rule-selects"]
    kind = "request.resource.resource + '.' + request.resource.group"
    assert where == (
        f'(!({kind} in ["secrets."]) || request.namespace in ["a"]) && '
        f'(!({kind} in ["configmaps."]) || request.namespace in ["a", "b"])'
    )


def test_more_namespaces_than_can_be_listed_are_not_listed() -> None:
    many = [rule for number in range(4000) for rule in watch_rule(f"team-{number:060}", "configmaps")]
    assert "where-a-rule-selects" not in conditions(*many)
    few = [rule for number in range(500) for rule in watch_rule(f"team-{number}", "configmaps")]
    assert 0 < len(conditions(*few)["where-a-rule-selects"]) <= MAX_EXPRESSION
