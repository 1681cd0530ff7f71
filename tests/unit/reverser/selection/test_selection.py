"""Rules on a server: what is watched, what is inert and why, and which rule takes an object."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from stoker.api.kinds.watchrules import ClusterWatchRule, WatchRule
from stoker.kube.client.resources import ApiResource
from stoker.kube.client.served_kinds import KindCatalog, ServedResource, UnavailableGroupVersion, prefer_first
from stoker.reverser.manifest.path import ManifestKey
from stoker.reverser.selection.kinds import InertReason
from stoker.reverser.selection.preset import excluded_kinds
from stoker.reverser.selection.rules import (
    ChangeOperation,
    DestinationRef,
    RuleResource,
    SelectionRule,
    preset_rules,
    resource_rules,
)
from stoker.reverser.selection.selection import Selection, WatchedKind, select_objects

PRODUCTION = DestinationRef("system", "production")
ALL_VERBS = frozenset({"get", "list", "watch", "create", "update"})


def served(group: str, version: str, plural: str, *, namespaced: bool = True, **more: Any) -> ServedResource:
    resource = ApiResource(group, version, plural, plural.title(), namespaced=namespaced)
    return ServedResource(resource, **{"verbs": ALL_VERBS, **more})


KINDS = [
    served("", "v1", "configmaps", singular="configmap", short_names=("cm",)),
    served("", "v1", "services"),
    served("", "v1", "pods"),
    served("", "v1", "bindings", verbs=frozenset({"create"})),
    served("", "v1", "namespaces", namespaced=False),
    served("apps", "v1", "deployments"),
    served("apps", "v1beta2", "deployments"),
    served("serving.knative.dev", "v1", "services"),
    served("rbac.authorization.k8s.io", "v1", "clusterroles", namespaced=False),
    served("rbac.authorization.k8s.io", "v1", "roles"),
]
CATALOG = KindCatalog(tuple(prefer_first(KINDS)))


def watch_rule(*rules: dict[str, Any], namespace: str = "shop") -> tuple[SelectionRule, ...]:
    spec = {"destinationRef": {"name": "production", "namespace": "system"}, "rules": list(rules)}
    head = {"apiVersion": "configbutler.ai/v1alpha1", "kind": "WatchRule"}
    return resource_rules(
        msgspec.convert({**head, "metadata": {"name": "r", "namespace": namespace}, "spec": spec}, WatchRule)
    )


def cluster_rule(*rules: dict[str, Any]) -> tuple[SelectionRule, ...]:
    spec = {"destinationRef": {"name": "production", "namespace": "system"}, "rules": list(rules)}
    head = {"apiVersion": "configbutler.ai/v1alpha1", "kind": "ClusterWatchRule"}
    return resource_rules(
        msgspec.convert({**head, "metadata": {"name": "c"}, "spec": spec}, ClusterWatchRule)
    )


def names(selection: Selection) -> list[str]:
    return [f"{each.resource} {each.resource.version} {each.namespace}".strip() for each in selection.watched]


def key(text: str) -> ManifestKey:
    group, version, resource, namespace, name = text.split("/")
    return ManifestKey(group, version, resource, namespace, name)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("deployments", RuleResource("deployments")),
        ("deployments.apps", RuleResource("deployments", "apps")),
        ("clusterroles.rbac.authorization.k8s.io", RuleResource("clusterroles", "rbac.authorization.k8s.io")),
        ("deployments/scale", RuleResource("deployments", None, "scale")),
        ("deployments.apps/scale", RuleResource("deployments", "apps", "scale")),
        ("*", RuleResource("*")),
    ],
)
def test_every_form_of_a_name_is_understood(text: str, named: RuleResource) -> None:
    assert RuleResource.of(text) == named
    assert str(named) == text


def test_a_watch_rule_watches_its_own_namespace_in_the_preferred_version() -> None:
    selection = select_objects(watch_rule({"resources": ["deployments", "configmaps"]}), CATALOG)
    assert names(selection) == ["configmaps v1 shop", "deployments.apps v1 shop"]
    assert not selection.inert


def test_a_plain_name_selects_all_groups_and_a_full_one_its_own() -> None:
    both = ["services v1 shop", "services.serving.knative.dev v1 shop"]
    assert names(select_objects(watch_rule({"resources": ["services"]}), CATALOG)) == both
    one = select_objects(watch_rule({"resources": ["services.serving.knative.dev"]}), CATALOG)
    assert names(one) == both[1:]
    core = select_objects(watch_rule({"resources": ["services"], "apiGroups": [""]}), CATALOG)
    assert names(core) == both[:1]
    every = select_objects(
        watch_rule({"resources": ["services"], "apiGroups": ["*"], "apiVersions": ["*"]}), CATALOG
    )
    assert names(every) == both


def test_listed_versions_are_watched_each() -> None:
    rules = watch_rule({"resources": ["deployments"], "apiVersions": ["v1beta2", "v1"]})
    assert names(select_objects(rules, CATALOG)) == [
        "deployments.apps v1 shop",
        "deployments.apps v1beta2 shop",
    ]


@pytest.mark.parametrize(
    ("rule", "why", "detail"),
    [
        (
            {"resources": ["widgets"]},
            InertReason.UNKNOWN_KIND,
            "is not served; it is watched as soon as it is",
        ),
        (
            {"resources": ["configmap"]},
            InertReason.UNKNOWN_KIND,
            "is not served; the plural name is configmaps",
        ),
        ({"resources": ["cm"]}, InertReason.UNKNOWN_KIND, "is not served; the plural name is configmaps"),
        (
            {"resources": ["deployments.apps"], "apiGroups": ["batch"]},
            InertReason.UNKNOWN_KIND,
            "names a group that apiGroups of the same rule leaves out",
        ),
        (
            {"resources": ["deployments"], "apiVersions": ["v2", "v3"]},
            InertReason.VERSION_NOT_SERVED,
            "is not served in version v2 or v3",
        ),
        (
            {"resources": ["clusterroles"]},
            InertReason.SCOPE_MISMATCH,
            "is in no namespace, and the rule is for objects within namespaces",
        ),
        ({"resources": ["bindings"]}, InertReason.NO_LIST_WATCH, "cannot be listed and watched"),
        ({"resources": ["pods"]}, InertReason.EXCLUDED, "is excluded from every rule"),
        (
            {"resources": ["pods/log"]},
            InertReason.SUBRESOURCE,
            "is part of its object and not written by itself",
        ),
        (
            {"resources": ["*"]},
            InertReason.WILDCARD,
            "selects nothing: this installation does not watch all kinds",
        ),
    ],
)
def test_a_name_that_selects_nothing_is_inert_with_a_reason(
    rule: dict[str, Any], why: InertReason, detail: str
) -> None:
    selection = select_objects(watch_rule(rule, {"resources": ["configmaps"]}), CATALOG)
    (inert,) = selection.inert
    assert (inert.why, inert.detail, inert.name) == (why, detail, rule["resources"][0])
    assert str(inert) == f"WatchRule shop/r rules[0]: {inert.name} {detail}"
    assert names(selection) == ["configmaps v1 shop"]


def test_a_kind_may_hide_in_a_group_that_cannot_be_described() -> None:
    catalog = KindCatalog(CATALOG.served, (UnavailableGroupVersion("example.com/v1", "down"),))
    for name, why in (
        ("widgets", InertReason.PARTIAL_DISCOVERY),
        ("widgets.example.com", InertReason.PARTIAL_DISCOVERY),
        ("widgets.other.com", InertReason.UNKNOWN_KIND),
    ):
        assert [each.why for each in select_objects(watch_rule({"resources": [name]}), catalog).inert] == [
            why
        ]


def test_a_cluster_rule_takes_the_scope_that_it_names() -> None:
    inside = cluster_rule({"scope": "Namespaced", "resources": ["roles", "clusterroles"]})
    outside = cluster_rule({"scope": "Cluster", "resources": ["roles", "clusterroles"]})
    rbac = "rbac.authorization.k8s.io"
    assert names(select_objects(inside, CATALOG)) == [f"roles.{rbac} v1"]
    assert names(select_objects(outside, CATALOG)) == [f"clusterroles.{rbac} v1"]
    assert [each.why for each in select_objects(outside, CATALOG).inert] == [InertReason.SCOPE_MISMATCH]


def test_the_wildcard_takes_everything_but_the_excluded_where_all_is_watched() -> None:
    rules = cluster_rule({"scope": "Namespaced", "resources": ["*"]})
    selection = select_objects(
        rules, CATALOG, watch_all=True, excluded=excluded_kinds(["roles.rbac.authorization.k8s.io"])
    )
    assert [str(each) for each in selection.kinds] == [
        "configmaps",
        "services",
        "deployments.apps",
        "services.serving.knative.dev",
    ]
    assert not selection.inert


def test_the_floor_holds_whatever_exclusions_are_given() -> None:
    selection = select_objects(watch_rule({"resources": ["pods"]}), CATALOG, excluded=frozenset())
    assert [each.why for each in selection.inert] == [InertReason.EXCLUDED]


def test_rules_share_a_watch_and_one_for_all_namespaces_serves_the_others() -> None:
    shop, ops = (watch_rule({"resources": ["configmaps"]}, namespace=each) for each in ("shop", "ops"))
    assert names(select_objects([*shop, *ops, *shop], CATALOG)) == ["configmaps v1 ops", "configmaps v1 shop"]
    everywhere = cluster_rule({"scope": "Namespaced", "resources": ["configmaps"]})
    assert names(select_objects([*shop, *ops, *everywhere], CATALOG)) == ["configmaps v1"]


def test_beyond_the_cap_kinds_are_skipped_in_a_fixed_order() -> None:
    many = [served(f"g{n:03}.example.com", "v1", "things") for n in range(305)]
    rules = watch_rule({"resources": ["things", "configmaps"]})
    for catalog in (
        KindCatalog(tuple(prefer_first([*many, *KINDS]))),
        KindCatalog(tuple(prefer_first([*KINDS, *many[::-1]]))),
    ):
        selection = select_objects(rules, catalog)
        assert len(selection.kinds) == 300
        assert str(selection.kinds[0]) == "configmaps"
        assert [each.group for each in selection.skipped] == [f"g{n:03}.example.com" for n in range(299, 305)]
        assert {each.why for each in selection.inert} == {InertReason.TOO_MANY_KINDS}
        assert selection.taken_by(key("g299.example.com/v1/things/shop/x")) == {}


def test_an_object_is_taken_only_in_the_rules_own_namespace() -> None:
    rules = watch_rule({"resources": ["configmaps"]})
    everywhere = cluster_rule({"scope": "Namespaced", "resources": ["services"]})
    selection = select_objects([*rules, *everywhere], CATALOG)
    assert selection.taken_by(key("/v1/configmaps/shop/a")) == {PRODUCTION: rules}
    assert selection.taken_by(key("/v1/configmaps/ops/a")) == {}
    assert selection.taken_by(key("apps/v1/deployments/shop/a")) == {}
    assert selection.taken_by(key("/v1/services/ops/a")) == {PRODUCTION: everywhere}
    assert selection.rules_for(key("/v1/configmaps/ops/a")) == ()


def test_labels_of_the_object_and_of_its_namespace_decide() -> None:
    selector = {
        "matchLabels": {"app": "web"},
        "matchExpressions": [
            {"key": "tier", "operator": "In", "values": ["a", "b"]},
            {"key": "zone", "operator": "NotIn", "values": ["z"]},
            {"key": "keep", "operator": "Exists"},
            {"key": "skip", "operator": "DoesNotExist"},
        ],
    }
    rules = cluster_rule(
        {
            "scope": "Namespaced",
            "resources": ["configmaps"],
            "labelSelector": selector,
            "namespaceSelector": {"matchLabels": {"team": "x"}},
        }
    )
    selection = select_objects(rules, CATALOG)
    good = {"app": "web", "tier": "a", "keep": ""}
    taken = {PRODUCTION: rules}
    at = key("/v1/configmaps/shop/a")
    assert selection.taken_by(at, good, {"team": "x"}) == taken
    assert selection.taken_by(at, {**good, "zone": "y"}, {"team": "x"}) == taken
    for bad in ({"app": "db"}, {"tier": "c"}, {"zone": "z"}, {"skip": ""}):
        assert selection.taken_by(at, {**good, **bad}, {"team": "x"}) == {}
    for missing in ("app", "tier", "keep"):
        assert selection.taken_by(at, {k: v for k, v in good.items() if k != missing}, {"team": "x"}) == {}
    assert selection.taken_by(at, good, {"team": "y"}) == {}
    assert selection.taken_by(at, good, None) == {}


@pytest.mark.parametrize(
    ("operations", "writes", "deletes"),
    [
        (None, True, True),
        ([], True, True),
        (["*"], True, True),
        (["CREATE"], True, False),
        (["UPDATE"], True, False),
        (["DELETE"], False, True),
        (["UPDATE", "DELETE"], True, True),
        (["DELETE", "*"], True, True),
    ],
)
def test_operations_allow_writing_and_deleting(
    operations: list[str] | None, writes: bool, deletes: bool
) -> None:
    rules = watch_rule({"resources": ["configmaps"], "operations": operations})
    selection = select_objects(rules, CATALOG)
    at = key("/v1/configmaps/shop/a")
    assert bool(selection.taken_by(at)) is writes
    assert selection.deletes(at, PRODUCTION) is deletes
    assert selection.deletes(at, PRODUCTION, labels={}) is deletes


def test_a_destination_gets_what_any_of_its_rules_takes() -> None:
    other = DestinationRef("system", "other")
    first, second = (
        *watch_rule({"resources": ["configmaps"]}),
        *watch_rule({"resources": ["configmaps", "services"]}),
    )
    third = SelectionRule(first.source, other, first.resources, namespaced=True, namespace="shop")
    taken = select_objects([first, second, third], CATALOG).taken_by(key("/v1/configmaps/shop/a"))
    assert taken == {PRODUCTION: (first, second), other: (third,)}


def test_an_orphan_is_judged_by_the_list_that_would_show_it() -> None:
    shop = watch_rule({"resources": ["configmaps", "deployments"]})
    selection = select_objects(shop, CATALOG)
    watched = {str(each.resource): each for each in selection.watched}
    assert selection.listed_in(key("/v1/configmaps/shop/a"), PRODUCTION) == watched["configmaps"]
    # The server prefers v1 now: a file of the old version is an orphan of that list.
    assert (
        selection.listed_in(key("apps/v1beta2/deployments/shop/a"), PRODUCTION) == watched["deployments.apps"]
    )
    assert selection.deletes(key("apps/v1beta2/deployments/shop/a"), PRODUCTION)
    for unselected in ("/v1/configmaps/ops/a", "/v1/services/shop/a", "/v1/configmaps//a"):
        assert selection.listed_in(key(unselected), PRODUCTION) is None
        assert not selection.deletes(key(unselected), PRODUCTION)
    assert selection.listed_in(key("/v1/configmaps/shop/a"), DestinationRef("system", "other")) is None


def test_a_file_that_a_rule_without_delete_may_have_written_stays() -> None:
    keeping = {
        "resources": ["configmaps"],
        "operations": ["CREATE"],
        "labelSelector": {"matchLabels": {"a": "b"}},
    }
    deleting = {"resources": ["configmaps"], "labelSelector": {"matchLabels": {"c": "d"}}}
    at = key("/v1/configmaps/shop/a")
    both = select_objects(watch_rule(keeping, deleting), CATALOG)
    assert not both.deletes(at, PRODUCTION)
    assert both.deletes(at, PRODUCTION, labels={"c": "d"})
    assert not both.deletes(at, PRODUCTION, labels={"a": "b"})
    assert select_objects(watch_rule(deleting), CATALOG).deletes(at, PRODUCTION)
    assert select_objects(watch_rule(keeping, deleting, {"resources": ["configmaps"]}), CATALOG).deletes(
        at, PRODUCTION
    )


def test_a_kind_is_gone_only_when_discovery_is_complete_and_a_rule_asks_for_it() -> None:
    rules = watch_rule({"resources": ["widgets.example.com", "*"]})
    at = key("example.com/v1/widgets/shop/a")
    assert select_objects(rules, CATALOG).is_gone(at, PRODUCTION)
    partial = KindCatalog(CATALOG.served, (UnavailableGroupVersion("metrics.k8s.io/v1", "down"),))
    assert not select_objects(rules, partial).is_gone(at, PRODUCTION)
    there = KindCatalog((*CATALOG.served, served("example.com", "v1", "widgets")))
    assert not select_objects(rules, there).is_gone(at, PRODUCTION)
    assert not select_objects(rules, CATALOG).is_gone(key("example.com/v1/widgets/ops/a"), PRODUCTION)
    # An inert wildcard asks for nothing.
    assert not select_objects(rules, CATALOG).is_gone(key("example.com/v1/gadgets/shop/a"), PRODUCTION)
    assert not select_objects(watch_rule({"resources": ["configmaps"]}), CATALOG).is_gone(at, PRODUCTION)


def test_a_dropped_version_is_gone_and_the_other_stays() -> None:
    rules = watch_rule({"resources": ["deployments"]})
    catalog = KindCatalog(tuple(prefer_first([each for each in KINDS if each.resource.version != "v1beta2"])))
    selection = select_objects(rules, catalog)
    assert selection.is_gone(key("apps/v1beta2/deployments/shop/a"), PRODUCTION)
    assert not selection.is_gone(key("apps/v1/deployments/shop/a"), PRODUCTION)


def test_a_new_kind_is_picked_up_with_the_next_discovery() -> None:
    rules = watch_rule({"resources": ["widgets"]})
    assert select_objects(rules, CATALOG).watched == ()
    widgets = served("example.com", "v1", "widgets")
    after = select_objects(rules, KindCatalog(tuple(prefer_first([*KINDS, widgets]))))
    assert after.watched == (WatchedKind(widgets.resource, "shop"),)


def test_the_preset_needs_no_rules() -> None:
    inside, outside = preset_rules(PRODUCTION)
    assert (inside.namespaced, outside.namespaced) == (True, False)
    selection = select_objects((inside, outside), CATALOG)
    assert names(selection) == [
        "configmaps v1",
        "services v1",
        "deployments.apps v1",
        "clusterroles.rbac.authorization.k8s.io v1",
        "roles.rbac.authorization.k8s.io v1",
    ]
    assert {each.why for each in selection.inert} == {InertReason.UNKNOWN_KIND}
    assert [each.namespace for each in preset_rules(PRODUCTION, ["b", "a", "b"])] == ["a", "b"]


def test_a_destination_without_a_namespace_is_in_the_rules_own() -> None:
    head = {"apiVersion": "configbutler.ai/v1alpha1", "kind": "WatchRule"}
    spec = {
        "destinationRef": {"name": "here"},
        "rules": [{"resources": ["configmaps"], "operations": ["DELETE"]}],
    }
    (rule,) = resource_rules(
        msgspec.convert({**head, "metadata": {"name": "r", "namespace": "shop"}, "spec": spec}, WatchRule)
    )
    assert rule.destination == DestinationRef("shop", "here")
    assert rule.operations == {ChangeOperation.DELETE}
