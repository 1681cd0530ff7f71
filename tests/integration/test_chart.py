"""What the chart renders: by the real helm, over many sets of values."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from stoker.api.kinds.ignitionsync import IgnitionSyncBaseSpec
from stoker.api.schema import fields_of
from stoker.cli.verbs import VERBS, Verbs, cli
from stoker.testing.helm import CHART, Helm

ROOT = CHART.parents[1]
GOLDEN = ROOT / "tests/data/chart/roles.yaml"
DIGEST = "sha256:" + "a" * 64

VALUES: dict[str, dict[str, Any]] = {
    "defaults": {},
    "names of the papers": {"fullnameOverride": "ignition-sync"},
    "two namespaces": {
        "controller": {"watchNamespaces": ["line-1", "line-2"], "githubApp": {"namespaces": ["line-1"]}}
    },
    "cert-manager": {"certManager": {"enabled": True}},
    "an issuer that exists": {
        "certManager": {"enabled": True, "issuerRef": {"name": "plant-ca", "kind": "ClusterIssuer"}},
        "crds": {"conversion": False},
    },
    "no admission": {"webhook": {"enabled": False}},
    "receiver": {
        "receiver": {
            "service": {"type": "NodePort", "port": 443, "annotations": {"a.example/b": "c"}},
            "tls": {"secretName": "receiver-tls"},
            "operatorKey": {"secretName": "receiver-key", "key": "hmac"},
            "trustedProxies": ["10.0.0.0/8", "fd00::/8"],
        }
    },
    "no receiver, no volumes": {"receiver": {"enabled": False}, "controller": {"sharedVolumes": False}},
    "air gap": {
        "airgap": True,
        "image": {"repository": "registry.example.com:5000/plant/stoker", "digest": DIGEST},
        "agent": {"image": {"digest": "sha256:" + "b" * 64}, "metadataKey": "signing/key", "repoSize": "0"},
    },
    "everything else": {
        "imagePullSecrets": [{"name": "registry"}],
        "commonLabels": {"team": "a"},
        "crds": {"install": False},
        "controller": {
            "replicas": 1,
            "image": {"tag": "2.0.0", "pullPolicy": "Always"},
            "watchLabelSelector": "team=a,tier in (x)",
            "workers": 10,
            "requireKnownHosts": True,
            "logLevel": "debug",
            "clusterName": "plant-7",
            "gitTimeoutSeconds": 30,
            "serviceAccount": {"create": False, "name": "mine"},
            "podDisruptionBudget": {"enabled": False},
            "podAnnotations": {"a.example/b": "c"},
            "podLabels": {"d": "e"},
            "nodeSelector": {"kubernetes.io/os": "linux"},
            "tolerations": [{"key": "x", "operator": "Exists"}],
            "affinity": {"nodeAffinity": {}},
            "topologySpreadConstraints": [
                {
                    "maxSkew": 1,
                    "topologyKey": "zone",
                    "whenUnsatisfiable": "ScheduleAnyway",
                    "labelSelector": {"matchLabels": {"d": "e"}},
                }
            ],
            "priorityClassName": "system-cluster-critical",
            "extraArgs": ["--forget-reports-after=60"],
            "extraEnv": [{"name": "HTTPS_PROXY", "value": "http://proxy.example:3128"}],
        },
        "webhook": {
            "namespaceSelector": {"matchLabels": {"ignition": "yes"}},
            "injection": {"failurePolicy": "Fail", "refusedPods": "deny", "podSelector": "app=ignition"},
            "validation": {"failurePolicy": "Fail"},
        },
        "defaults": {"drift": {"mode": "restore"}, "excludePatterns": ["**/*.bak"]},
    },
}


@pytest.fixture(scope="module")
def helm(tmp_path_factory: pytest.TempPathFactory) -> Helm:
    return Helm(tmp_path_factory.mktemp("helm"))


def of_kind(objects: list[dict[str, Any]], *kinds: str) -> list[dict[str, Any]]:
    return [one for one in objects if one["kind"] in kinds]


def deployment(objects: list[dict[str, Any]], name: str) -> dict[str, Any]:
    return next(one for one in of_kind(objects, "Deployment") if one["metadata"]["name"] == name)


def container(objects: list[dict[str, Any]], name: str) -> dict[str, Any]:
    found: dict[str, Any] = deployment(objects, name)["spec"]["template"]["spec"]["containers"][0]
    return found


@pytest.mark.parametrize("name", VALUES)
def test_the_chart_is_sound_with(name: str, helm: Helm) -> None:
    assert "0 chart(s) failed" in helm.lint(VALUES[name])
    objects = helm.template(VALUES[name])
    names = [(one["kind"], one["metadata"].get("namespace"), one["metadata"]["name"]) for one in objects]
    assert len(set(names)) == len(names)
    crds = of_kind(objects, "CustomResourceDefinition")
    assert len(crds) == (0 if name == "everything else" else 8)
    for one in objects:
        assert one["metadata"]["labels"]["app.kubernetes.io/part-of"] == "stoker"


@pytest.mark.parametrize("name", VALUES)
def test_the_commands_know_every_argument_with(name: str, helm: Helm) -> None:
    for one in of_kind(helm.template(VALUES[name]), "Deployment"):
        verb, *args = one["spec"]["template"]["spec"]["containers"][0]["args"]
        group = Verbs()
        command = group.get_command(cli.make_context("stoker", ["--help"], resilient_parsing=True), verb)
        assert verb in VERBS
        assert command is not None
        command.make_context(verb, list(args)).close()  # refuses what it does not know


def test_roles_are_as_they_were_agreed_on(helm: Helm) -> None:
    """Each change of a right shows as a change of a file; UPDATE_GOLDEN=1 writes it."""
    found = {name: list(roles(helm.template(VALUES[name]))) for name in ("defaults", "two namespaces")}
    text = "# Every right of every component. UPDATE_GOLDEN=1 pytest tests/integration/test_chart.py\n"
    text += yaml.safe_dump(found, sort_keys=False, width=110)
    if os.environ.get("UPDATE_GOLDEN"):
        GOLDEN.write_text(text)
    assert text == GOLDEN.read_text()


def roles(objects: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for one in of_kind(objects, "ClusterRole", "Role"):
        rules = [
            f"{rule['apiGroups'][0] or 'core'}: {', '.join(rule['resources'])}"
            + (f" [{', '.join(rule['resourceNames'])}]" if "resourceNames" in rule else "")
            + f": {' '.join(rule['verbs'])}"
            for rule in one["rules"]
            if len(rule["apiGroups"]) == 1
        ]
        assert len(rules) == len(one["rules"])
        where = one["metadata"].get("namespace", "all namespaces")
        yield {f"{one['kind']} {one['metadata']['name']} in {where}": rules}


@pytest.mark.parametrize("name", VALUES)
def test_no_right_is_wider_than_it_must_be_with(name: str, helm: Helm) -> None:
    objects = helm.template(VALUES[name])
    for one in of_kind(objects, "ClusterRole", "Role"):
        for rule in one["rules"]:
            words = [*rule["apiGroups"], *rule["resources"], *rule["verbs"]]
            assert not [word for word in words if "*" in word]
            assert not {"escalate", "bind", "impersonate"} & set(rule["verbs"])
            if "secrets" in rule["resources"] and {"create", "update", "patch", "delete"} & set(
                rule["verbs"]
            ):
                assert one["kind"] == "Role"
                assert "resourceNames" in rule or one["metadata"]["name"].endswith("-github-app")
    if name == "two namespaces":
        assert [one["metadata"]["name"] for one in of_kind(objects, "ClusterRole")] == ["stoker-webhook"]
        secrets = [
            one
            for one in of_kind(objects, "ClusterRole")
            for rule in one["rules"]
            if "secrets" in rule["resources"]
        ]
        assert secrets == []


def test_the_names_of_the_papers_can_be_had(helm: Helm) -> None:
    objects = helm.template(VALUES["names of the papers"], namespace="ignition-sync-system")
    names = {(one["kind"], one["metadata"]["name"]) for one in objects}
    assert {
        ("Deployment", "ignition-sync-controller-manager"),
        ("Deployment", "ignition-sync-webhook"),
        ("ServiceAccount", "ignition-sync-controller"),
        ("ServiceAccount", "ignition-sync-webhook"),
        ("ClusterRole", "ignition-sync-controller"),
        ("Secret", "ignition-sync-webhook-tls"),
    } <= names


def test_the_controller_is_deployed_as_the_papers_say(helm: Helm) -> None:
    objects = helm.template()
    assert deployment(objects, "stoker-controller-manager")["spec"]["replicas"] == 2
    manager = container(objects, "stoker-controller-manager")
    assert manager["name"] == "manager"
    assert {one["name"]: one["containerPort"] for one in manager["ports"]} == {
        "metrics": 8080,
        "health": 8081,
        "webhook-recv": 8443,
    }
    assert manager["livenessProbe"]["httpGet"] == {"path": "/healthz", "port": "health"}
    assert manager["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": "health"}
    assert manager["resources"] == {
        "requests": {"cpu": "100m", "memory": "128Mi"},
        "limits": {"cpu": "500m", "memory": "512Mi"},
    }
    assert "--leader-elect=true" in manager["args"]
    webhook = container(objects, "stoker-webhook")
    assert webhook["name"] == "webhook"
    assert {"name": "webhook", "containerPort": 9443, "protocol": "TCP"} in webhook["ports"]
    budgets = of_kind(objects, "PodDisruptionBudget")
    assert [one["spec"]["minAvailable"] for one in budgets] == [1, 1]


def test_a_pod_without_the_annotation_is_never_asked_about(helm: Helm) -> None:
    (configuration,) = of_kind(helm.template(), "MutatingWebhookConfiguration")
    (webhook,) = configuration["webhooks"]
    (condition,) = webhook["matchConditions"]
    assert webhook["failurePolicy"] == "Ignore"
    assert webhook["rules"][0]["operations"] == ["CREATE"]
    assert "stoker.io/inject" in condition["expression"]
    assert "ignition-sync.io/inject" in condition["expression"]
    (unasked,) = webhook["namespaceSelector"]["matchExpressions"]
    assert unasked["operator"] == "NotIn"
    assert {"kube-system", "stoker-system"} <= set(unasked["values"])
    (limited,) = of_kind(helm.template(VALUES["two namespaces"]), "MutatingWebhookConfiguration")
    (asked,) = limited["webhooks"][0]["namespaceSelector"]["matchExpressions"]
    assert (asked["operator"], asked["values"]) == ("In", ["line-1", "line-2"])


def test_images_are_pinned_where_that_is_demanded(helm: Helm) -> None:
    objects = helm.template(VALUES["air gap"])
    image = f"registry.example.com:5000/plant/stoker@{DIGEST}"
    assert container(objects, "stoker-controller-manager")["image"] == image
    webhook = container(objects, "stoker-webhook")
    assert webhook["image"] == image
    assert "--require-digest" in webhook["args"]
    assert f"--agent-image=registry.example.com:5000/plant/stoker@sha256:{'b' * 64}" in webhook["args"]
    assert "airgap demands a digest, and image stoker:0.1.0 has none" in helm.refused({"airgap": True})
    tagged = {"image": {"digest": DIGEST}, "controller": {"image": {"tag": "2"}}}
    assert container(helm.template(tagged), "stoker-controller-manager")["image"] == "stoker:2"


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"controler": {}}, "additional properties 'controler' not allowed"),
        ({"controller": {"replica": 2}}, "at '/controller': additional properties 'replica' not allowed"),
        ({"controller": {"replicas": "2"}}, "at '/controller/replicas': got string, want integer"),
        ({"controller": {"workers": 65}}, "at '/controller/workers': maximum: got 65, want 64"),
        ({"controller": {"watchNamespaces": ["Line 1"]}}, "at '/controller/watchNamespaces/0'"),
        ({"image": {"digest": "sha256:12"}}, "at '/image/digest'"),
        ({"webhook": {"injection": {"failurePolicy": "Maybe"}}}, "at '/webhook/injection/failurePolicy'"),
        ({"receiver": {"service": {"port": 0}}}, "at '/receiver/service/port'"),
        ({"receiver": {"trustedProxies": ["any"]}}, "at '/receiver/trustedProxies/0'"),
        ({"agent": {"metadataKey": "no slash"}}, "at '/agent/metadataKey'"),
        ({"defaults": {"poling": {}}}, "at '/defaults': additional properties 'poling' not allowed"),
        (
            {"controller": {"serviceAccount": {"create": False}}},
            "controller.serviceAccount.name must be given",
        ),
        (
            {"webhook": {"replicas": 1, "podDisruptionBudget": {"minAvailable": 2}}},
            "no node could ever be drained",
        ),
    ],
)
def test_a_wrong_value_is_refused_by_its_name(values: Mapping[str, object], said: str, helm: Helm) -> None:
    assert said in helm.refused(values)


def test_the_schema_knows_every_value_and_no_other() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    values = yaml.safe_load((CHART / "values.yaml").read_text())

    def known(part: dict[str, Any], at: str) -> Iterator[str]:
        if "$ref" in part:
            part = schema["definitions"][part["$ref"].rpartition("/")[2]]
        for name, below in part.get("properties", {}).items():
            yield f"{at}{name}"
            yield from known(below, f"{at}{name}.")

    def given(part: dict[str, Any], at: str) -> Iterator[str]:
        for name, below in part.items():
            yield f"{at}{name}"
            if isinstance(below, dict):
                yield from given(below, f"{at}{name}.")

    free: tuple[str, ...] = ("defaults.", "webhook.namespaceSelector.")
    for component in ("controller", "webhook"):
        free += tuple(
            f"{component}.{name}" for name in ("podSecurityContext.", "securityContext.", "resources.")
        )
    forms = ("controller.image.", "webhook.image.", "agent.image.")
    offered = {
        path for path in known(schema, "") if not path.startswith((*free, *forms)) and path != "global"
    }
    written = {path for path in given(values, "") if not path.startswith(free)}
    assert offered == written
    fields = {one.encode_name for one in fields_of(IgnitionSyncBaseSpec)}
    assert set(schema["properties"]["defaults"]["properties"]) == fields


def test_the_readme_tells_of_every_value() -> None:
    script = ROOT / "scripts/chart-readme"
    done = subprocess.run([sys.executable, script, "--check"], capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert done.returncode == 0


def test_conversion_is_wired_to_the_webhook(helm: Helm) -> None:
    for one in of_kind(helm.template(), "CustomResourceDefinition"):
        assert one["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"
        service = one["spec"]["conversion"]["webhook"]["clientConfig"]["service"]
        assert service == {
            "namespace": "stoker-system",
            "name": "stoker-webhook",
            "port": 443,
            "path": "/convert",
        }
        plain = yaml.safe_load(
            next(ROOT.glob(f"config/crd/*_{one['spec']['names']['plural']}.yaml")).read_text()
        )
        assert {**one["spec"], "conversion": None} == {**plain["spec"], "conversion": None}
    for one in of_kind(helm.template(VALUES["no admission"]), "CustomResourceDefinition"):
        assert one["spec"]["conversion"] == {"strategy": "None"}


def test_the_version_of_the_chart_is_that_of_the_product() -> None:
    from stoker import __version__  # noqa: PLC0415 - the only test that needs it

    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert (chart["version"], chart["appVersion"]) == (__version__, __version__)
    assert Path(CHART / "README.md").read_text().startswith("# The chart `stoker`")
