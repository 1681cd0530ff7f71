"""Our objects for third-party programs fit their definitions: policies, and objects of the chart."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from stoker.api.manifests.yaml import load_documents
from stoker_testkit.chart.helm import Helm
from stoker_testkit.cluster.cluster_access import ClusterAccess
from stoker_testkit.docs_checks.markdown_page import ROOT, Page
from stoker_testkit.docs_checks.server_dry_run import ServerDryRun, install_constraints
from stoker_testkit.docs_checks.yaml_fences import content_of

pytestmark = pytest.mark.xdist_group("documents")

MONITORED = {"enabled": True, "labels": {"release": "prometheus"}, "interval": "30s"}
RENDERED: dict[str, Any] = {
    "certManager": {"enabled": True},
    "reverser": {"enabled": True},
    "monitoring": {
        "serviceMonitor": MONITORED,
        "podMonitor": MONITORED,
        "prometheusRule": {"enabled": True, "labels": {"release": "prometheus"}},
    },
}
GROUPS = ("cert-manager.io/v1", "monitoring.coreos.com/v1")


def test_what_the_chart_makes_for_others_is_taken(others: ServerDryRun, tmp_path: Path) -> None:
    made = [one for one in Helm(tmp_path).template(RENDERED) if one["apiVersion"] in GROUPS]
    kinds = {one["kind"] for one in made}
    assert kinds == {"Certificate", "Issuer", "PodMonitor", "PrometheusRule", "ServiceMonitor"}
    wrong = [f"{one['kind']}: {message}" for one in made if (message := others.trouble(one))]
    assert not wrong, "\n".join(wrong)


@pytest.fixture(scope="module")
def gatekeeper(foreign: ClusterAccess) -> tuple[dict[str, Any], dict[str, Any]]:
    """The template and the constraint, once the kind that the first makes is there."""
    file = ROOT / "examples" / "policies" / "ignitionsync-defaults-gatekeeper.yaml"
    documents: list[Any] = list(load_documents(file.read_bytes()))
    template, constraint = documents
    install_constraints(foreign, template)
    return template, constraint


def test_gatekeeper_takes_the_template_and_the_constraint(
    others: ServerDryRun, gatekeeper: tuple[dict[str, Any], dict[str, Any]]
) -> None:
    assert [others.trouble(one) for one in gatekeeper] == [None, None]


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"parameters": {"excludePattern": []}}, "excludePattern"),
        ({"match": {"kinds": [{"apiGroup": "sync.ignition.io"}]}}, "apiGroup"),
    ],
)
def test_a_constraint_with_a_field_that_there_is_not_is_refused(
    others: ServerDryRun,
    gatekeeper: tuple[dict[str, Any], dict[str, Any]],
    spec: dict[str, Any],
    message: str,
) -> None:
    assert message in (others.trouble({**gatekeeper[1], "spec": spec}) or "")


def test_expressions_of_the_policies_for_kyverno_are_compiled(
    pages: list[Page], others: ServerDryRun
) -> None:
    """Kyverno reads them as the API server does, whose own policies have the same fields."""
    (page,) = [page for page in pages if page.name == "docs/integrations/policies.md"]
    fences = [fence.text for fence in page.fences if "policies.kyverno.io/" in fence.text]
    policies = [one for text in fences for one in content_of(text).documents]
    assert sorted(one["kind"] for one in policies) == ["MutatingPolicy", "ValidatingPolicy"]
    assert [others.trouble(native(one)) for one in policies] == [None, None]


def native(policy: dict[str, Any]) -> dict[str, Any]:
    kind = policy["kind"].replace("Policy", "AdmissionPolicy")
    kept = ("failurePolicy", "matchConstraints", "matchConditions", "mutations", "validations", "variables")
    spec = {key: value for key, value in policy["spec"].items() if key in kept}
    # Here a constraint may say so itself; there the binding does.
    constraints = spec["matchConstraints"]
    spec["matchConstraints"] = {key: constraints[key] for key in constraints if key != "namespaceSelector"}
    mutating = {"reinvocationPolicy": "Never"} if "mutations" in spec else {}
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": kind,
        "metadata": policy["metadata"],
        "spec": {**mutating, **spec},
    }
