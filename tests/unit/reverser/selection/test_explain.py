"""Why an object is, or is not, in git: one sentence for each case."""

from __future__ import annotations

from typing import Any

import pytest

from stoker.kube.client.resources import ApiResource
from stoker.kube.client.served_kinds import KindCatalog, ServedResource, prefer_first
from stoker.reverser.manifest.named_secrets import SecretRef
from stoker.reverser.manifest.path import ManifestKey
from stoker.reverser.manifest.secret_policy import SecretPolicy
from stoker.reverser.selection.explain import ExplainContext, ExplainTarget, Explanation, explain
from stoker.reverser.selection.labels import LabelMatcher, SelectorRequirement
from stoker.reverser.selection.rules import (
    ChangeOperation,
    DestinationRef,
    RuleRef,
    RuleResource,
    SelectionRule,
)
from stoker.reverser.selection.selection import select_objects

TO = DestinationRef("system", "prod")
CLOSED = DestinationRef("system", "closed")
VERBS = frozenset({"list", "watch"})
CATALOG = KindCatalog(
    tuple(
        prefer_first(
            [
                ServedResource(ApiResource("", "v1", plural, plural, namespaced=True), VERBS)
                for plural in ("configmaps", "secrets", "services", "serviceaccounts", "pods")
            ]
        )
    )
)
WEB = LabelMatcher((SelectorRequirement("app", "In", frozenset({"web"})),))


def rule(name: str, *resources: str, **more: Any) -> SelectionRule:
    source = RuleRef("WatchRule", "shop", name)
    return SelectionRule(
        source, **{"destination": TO, "namespaced": True, "namespace": "shop", **more},
        resources=tuple(map(RuleResource.of, resources)),
    )  # fmt: skip


RULES = [
    rule("maps", "configmaps", "pods", "widgets"),
    rule("secrets", "secrets"),
    rule("closed", "secrets", destination=CLOSED),
    rule("labelled", "services", labels=WEB),
    rule("spaces", "services", namespace="", namespace_labels=WEB),
    rule("last-rites", "services", operations=frozenset({ChangeOperation.DELETE})),
    rule("lost", "serviceaccounts", destination=DestinationRef("system", "gone")),
]
SELECTION = select_objects(RULES, CATALOG)
AROUND = ExplainContext(
    targets={
        TO: ExplainTarget("clusters/prod", SecretPolicy.REDACT),
        CLOSED: ExplainTarget("x", SecretPolicy.EXCLUDE),
    },
    own=frozenset({SecretRef("shop", "login")}),
    namespace_labels={"app": "db"},
)


def explained(resource: str, name: str = "a", namespace: str = "shop", **obj: Any) -> Explanation:
    return explain(obj, ManifestKey("", "v1", resource, namespace, name), SELECTION, AROUND)


def test_a_written_object_names_its_file_and_its_rule() -> None:
    assert explained("configmaps") == Explanation(
        True,
        (
            (
                "core/v1/configmaps/shop/a is in system/prod at "
                "clusters/prod/core/v1/configmaps/shop/a.yaml; "
                "selected by WatchRule shop/maps rules[0]"
            ),
        ),
    )


def test_a_secret_says_how_it_is_written_in_each_destination() -> None:
    explanation = explained("secrets")
    assert explanation.written
    assert explanation.lines == (
        (
            "core/v1/secrets/shop/a is in system/prod at clusters/prod/core/v1/secrets/shop/a.yaml, Redact; "
            "selected by WatchRule shop/secrets rules[0]"
        ),
        "core/v1/secrets/shop/a is left out of system/closed: its secretPolicy is Exclude",
    )


@pytest.mark.parametrize(
    ("explanation", "lines"),
    [
        (explained("pods"), ["core/v1/pods/shop/a is left out: its kind is excluded from every rule"]),
        (explained("endpoints2"), ["core/v1/endpoints2/shop/a is left out: no rule names its kind"]),
        (
            explained("configmaps", namespace="ops"),
            [
                (
                    "core/v1/configmaps/ops/a is left out: WatchRule shop/maps rules[0] "
                    "looks into namespace shop only"
                )
            ],
        ),
        (
            explained("configmaps", "kube-root-ca.crt"),
            [
                (
                    "core/v1/configmaps/shop/kube-root-ca.crt is left out: "
                    "the control plane puts it into every namespace"
                )
            ],
        ),
        (
            explained("secrets", "login"),
            ["core/v1/secrets/shop/login is left out: a resource of this product names it"],
        ),
        (
            explained("services"),
            [
                (
                    "core/v1/services/shop/a is left out: WatchRule shop/labelled rules[0] "
                    "asks for objects with the label app In (web)"
                ),
                (
                    "core/v1/services/shop/a is left out: WatchRule shop/spaces rules[0] "
                    "asks for namespaces with the label app In (web)"
                ),
                (
                    "core/v1/services/shop/a is left out: WatchRule shop/last-rites rules[0] "
                    "has operations in which neither CREATE nor UPDATE is"
                ),
            ],
        ),
        (
            explained("serviceaccounts"),
            [
                (
                    "core/v1/serviceaccounts/shop/a is selected by WatchRule shop/lost rules[0], "
                    "whose destination system/gone is not there"
                )
            ],
        ),
        (
            explained("widgets"),
            [
                (
                    "core/v1/widgets/shop/a is left out: WatchRule shop/maps rules[0] "
                    "does not select its kind in version v1"
                ),
                "WatchRule shop/maps rules[0]: widgets is not served; it is watched as soon as it is",
            ],
        ),
    ],
)
def test_an_object_without_a_file_has_a_reason(explanation: Explanation, lines: list[str]) -> None:
    assert not explanation.written
    assert list(explanation.lines) == lines


def test_labels_of_a_namespace_may_be_unknown() -> None:
    key = ManifestKey("", "v1", "services", "ops", "a")
    lines = explain({}, key, SELECTION, ExplainContext(targets=AROUND.targets)).lines
    assert (
        "core/v1/services/ops/a is left out: WatchRule shop/spaces rules[0] "
        "asks for labels of its namespace, which are not known"
    ) in lines
