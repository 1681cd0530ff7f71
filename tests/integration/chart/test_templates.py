"""The chart's templates, rendered by the real helm over many sets of values."""

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
from stoker.api.registry import KINDS
from stoker.api.schema import fields_of
from stoker.cli.commands import VERBS, LazyCommandGroup, cli
from stoker.controller.sharding.division import lease_name
from stoker.reverser.authors.admission import PATH
from stoker.reverser.authors.webhook_registration import WEBHOOK
from stoker.reverser.selection.preset import EXCLUDED, PRESET, GroupResource
from stoker_testkit.chart.helm import CHART, Helm

ROOT = CHART.parents[1]
GOLDEN = ROOT / "tests/data/chart/roles.yaml"
DIGEST = "sha256:" + "a" * 64

VALUES: dict[str, dict[str, Any]] = {
    "defaults": {},
    "names of the specification": {"fullnameOverride": "ignition-sync"},
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
    "no receiver, no volumes": {
        "receiver": {"enabled": False},
        "controller": {"sharedVolumes": False, "removeFinalizers": {"enabled": False}},
    },
    "air gap": {
        "airgap": True,
        "image": {"repository": "registry.example.com:5000/plant/stoker", "digest": DIGEST},
        "agent": {"image": {"digest": "sha256:" + "b" * 64}, "metadataKey": "signing/key", "repoSize": "0"},
    },
    "reverser": {"reverser": {"enabled": True, "kinds": ["certificates.cert-manager.io", "secrets", "pods"]}},
    "reverser without Secrets": {
        "certManager": {"enabled": True},
        "webhook": {"enabled": False},
        "reverser": {
            "enabled": True,
            "replicas": 3,
            "credentialSecrets": {"line-1": ["git", "signing"], "line-2": ["git"]},
            "controller": {
                "enableWatchIngestion": False,
                "includeSecrets": False,
                "discovery": {"refresh": "90s", "watchAll": True, "exclusions": []},
                "workers": {"maxGlobal": 3, "maxPerRepo": 1},
                "git": {"batch": {"maxFiles": 10, "maxBytesMiB": 1, "maxWaitSec": 0}},
                "leases": {"renewSec": 2, "leaseSec": 6},
                "workDir": "/work/mirrors",
                "requireKnownHosts": True,
            },
            "extraEnv": [{"name": "HTTPS_PROXY", "value": "http://proxy.example:3128"}],
        },
    },
    "reverser in two namespaces": {
        "reverser": {"enabled": True, "watchNamespaces": ["line-1", "line-2"], "kinds": ["leases.demo.io"]}
    },
    "reverser without the preset": {
        "reverser": {"enabled": True, "preset": False, "controller": {"includeSecrets": False}},
    },
    "three shards": {"controller": {"shards": 3}, "reverser": {"enabled": True}},
    "networks": {
        "networkPolicy": {
            "enabled": True,
            "apiServer": {"cidrs": ["10.1.0.0/24", "fd00::/64"], "ports": [6443]},
            "git": {"cidrs": ["192.0.2.0/24"], "ports": [22, 443, 3000]},
            "metrics": {"namespaceSelector": {"matchLabels": {"name": "monitoring"}}},
            "receiver": {"cidrs": ["198.51.100.0/24"]},
            "extraEgress": [
                {
                    "to": [{"ipBlock": {"cidr": "203.0.113.7/32"}}],
                    "ports": [{"protocol": "TCP", "port": 3128}],
                }
            ],
        },
        "reverser": {"enabled": True},
    },
    "egress": {
        "egress": {
            "allow": ["gitea.git.svc", "*.tools.svc", "127.0.0.0/8"],
            "clusterRanges": ["10.96.0.0/12"],
        },
        "reverser": {"enabled": True},
    },
    "monitoring": {
        "monitoring": {
            "serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}, "interval": "30s"},
            "podMonitor": {"enabled": True, "labels": {"release": "prometheus"}, "interval": "1m"},
            "prometheusRule": {"enabled": True, "labels": {"release": "prometheus"}},
            "dashboards": {"enabled": True, "annotations": {"grafana_folder": "Plant"}},
        },
        "reverser": {"enabled": True},
    },
    "traces and audit": {
        "tracing": {"endpoint": "http://collector:4318", "env": {"OTEL_TRACES_SAMPLER": "always_on"}},
        "audit": {"events": True, "syslog": {"address": "tls://siem.plant.example:6514"}},
        "reverser": {"enabled": True},
    },
    "an ingress": {
        "receiver": {
            "ingress": {
                "enabled": True,
                "className": "nginx",
                "annotations": {"a.example/b": "c"},
                "host": "hooks.plant.example",
                "tlsSecretName": "hooks-tls",
            }
        }
    },
    "dashboard": {"dashboard": {"enabled": True}, "reverser": {"enabled": True}},
    "dashboards of both": {
        "dashboard": {
            "enabled": True,
            "reverser": {"enabled": True, "host": "mirror.plant.example"},
            "tls": {"secretName": "dashboard-tls"},
            "ingress": {"enabled": True, "host": "stoker.plant.example", "tlsSecretName": "plant-tls"},
        },
        "reverser": {"enabled": True},
        "networkPolicy": {"enabled": True},
    },
    "dashboard of the reverser in two namespaces": {
        "dashboard": {"reverser": {"enabled": True}},
        "reverser": {"enabled": True, "watchNamespaces": ["line-1", "line-2"]},
    },
    "dashboard of two namespaces": {
        "controller": {"watchNamespaces": ["line-1", "line-2"]},
        "reverser": {"enabled": True},
        "dashboard": {
            "enabled": True,
            "aggregateRoles": True,
            "service": {"type": "LoadBalancer", "port": 443, "annotations": {"a.example/b": "c"}},
            "tls": {"secretName": "dashboard-tls"},
            "trustedProxies": ["10.0.0.0/8"],
            "ingress": {
                "enabled": True,
                "className": "nginx",
                "annotations": {"nginx.ingress.kubernetes.io/affinity": "cookie"},
                "host": "stoker.plant.example",
                "tlsSecretName": "plant-tls",
            },
        },
    },
    "reverser without authors": {"reverser": {"enabled": True, "authors": {"enabled": False}}},
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


# The only roles with which unnamed Secrets can be listed.
READ_SECRETS = ("stoker-controller", "ignition-sync-controller", "stoker-reverser-preset", "stoker-reverser")
ROLES = (
    "defaults",
    "two namespaces",
    "three shards",
    "reverser",
    "reverser without Secrets",
    "reverser in two namespaces",
    "reverser without the preset",
    "dashboard",
    "dashboard of two namespaces",
    "dashboards of both",
    "dashboard of the reverser in two namespaces",
)


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
    for one in of_kind(helm.template(VALUES[name]), "Deployment", "Job"):
        verb, *args = one["spec"]["template"]["spec"]["containers"][0]["args"]
        group = LazyCommandGroup()
        command = group.get_command(cli.make_context("stoker", ["--help"], resilient_parsing=True), verb)
        assert verb in VERBS
        assert command is not None
        command.make_context(verb, list(args)).close()  # refuses what it does not know


def test_roles_are_as_they_were_agreed_on(helm: Helm) -> None:
    """Each change of a right shows as a change of a file; UPDATE_GOLDEN=1 writes it."""
    found = {name: list(roles(helm.template(VALUES[name]))) for name in ROLES}
    text = (
        "# Every right of every component. UPDATE_GOLDEN=1 pytest tests/integration/chart/test_templates.py\n"
    )
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
            for rule in one.get("rules", ())
            if len(rule["apiGroups"]) == 1
        ]
        assert len(rules) == len(one.get("rules", ()))
        for each in one.get("aggregationRule", {}).get("clusterRoleSelectors", ()):
            rules += [
                f"everything of roles with {name}={value}" for name, value in each["matchLabels"].items()
            ]
        where = one["metadata"].get("namespace", "all namespaces")
        yield {f"{one['kind']} {one['metadata']['name']} in {where}": rules}


@pytest.mark.parametrize("name", VALUES)
def test_no_right_is_wider_than_it_must_be_with(name: str, helm: Helm) -> None:
    objects = helm.template(VALUES[name])
    for one in of_kind(objects, "ClusterRole", "Role"):
        for rule in one.get("rules", ()):
            words = [*rule["apiGroups"], *rule["resources"], *rule["verbs"]]
            assert not [word for word in words if "*" in word]
            assert not {"escalate", "bind", "impersonate"} & set(rule["verbs"])
            if "secrets" in rule["resources"] and {"create", "update", "patch", "delete"} & set(
                rule["verbs"]
            ):
                assert one["kind"] == "Role"
                assert "resourceNames" in rule or one["metadata"]["name"].endswith("-github-app")
            if "secrets" in rule["resources"] and {"list", "watch"} & set(rule["verbs"]):
                # What it looks for can be any (C-142), or all of them are written (C-152).
                everything = one["metadata"]["name"] in READ_SECRETS
                assert "resourceNames" in rule or everything
    if name == "two namespaces":
        wide = {one["metadata"]["name"]: one for one in of_kind(objects, "ClusterRole")}
        assert wide.keys() == {"stoker-webhook", "stoker-remove-finalizers"}
        # Only while it is uninstalled, and only whether they are still there.
        assert wide["stoker-remove-finalizers"]["metadata"]["annotations"]["helm.sh/hook"] == "pre-delete"
        [look] = wide["stoker-remove-finalizers"]["rules"]
        assert look["verbs"] == ["get"]
        assert (look["resources"], look["resourceNames"]) == (["namespaces"], ["line-1", "line-2"])
        secrets = [
            one
            for one in of_kind(objects, "ClusterRole")
            for rule in one["rules"]
            if "secrets" in rule["resources"]
        ]
        assert secrets == []


def test_a_release_in_its_namespaces_alone_makes_nothing_that_is_cluster_wide(helm: Helm) -> None:
    """Who installs it may have no right beyond them, and has to be able to uninstall it."""
    alone = {"webhook": {"enabled": False}, "crds": {"install": False, "conversion": False}}
    objects = helm.template({**alone, "controller": {"watchNamespaces": ["line-1", "line-2"]}})
    assert of_kind(objects, "ClusterRole", "ClusterRoleBinding") == []


def test_the_names_of_the_specification_can_be_used(helm: Helm) -> None:
    objects = helm.template(VALUES["names of the specification"], namespace="ignition-sync-system")
    names = {(one["kind"], one["metadata"]["name"]) for one in objects}
    assert {
        ("Deployment", "ignition-sync-controller-manager"),
        ("Deployment", "ignition-sync-webhook"),
        ("ServiceAccount", "ignition-sync-controller"),
        ("ServiceAccount", "ignition-sync-webhook"),
        ("ClusterRole", "ignition-sync-controller"),
        ("Secret", "ignition-sync-webhook-tls"),
    } <= names


def test_the_controller_is_deployed_as_specified(helm: Helm) -> None:
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


def test_each_shard_is_a_deployment_with_a_lease_and_a_budget_of_its_own(helm: Helm) -> None:
    objects = helm.template(VALUES["three shards"])
    managers = [one for one in of_kind(objects, "Deployment") if "controller" in one["metadata"]["name"]]
    assert [one["metadata"]["name"] for one in managers] == [
        "stoker-controller-manager",
        "stoker-controller-manager-1",
        "stoker-controller-manager-2",
    ]
    leases = [one["metadata"]["name"] for one in of_kind(objects, "Lease")]
    assert leases == [lease_name(number) for number in range(3)]
    budgets = [one["spec"]["selector"]["matchLabels"] for one in of_kind(objects, "PodDisruptionBudget")]
    for number, one in enumerate(managers):
        pod = one["spec"]["template"]
        assert f"--shard={number}/3" in pod["spec"]["containers"][0]["args"]
        selector = one["spec"]["selector"]["matchLabels"]
        assert selector["stoker.io/shard"] == str(number)
        assert selector.items() <= pod["metadata"]["labels"].items()
        assert budgets.count(selector) == 1
    # One Service for all: every replica of every shard answers webhooks.
    receiver = next(
        one for one in of_kind(objects, "Service") if one["metadata"]["name"] == "stoker-receiver"
    )
    assert all(
        receiver["spec"]["selector"].items() <= one["spec"]["template"]["metadata"]["labels"].items()
        for one in managers
    )
    (hook,) = of_kind(objects, "Job")
    assert "--shard=0/3" in hook["spec"]["template"]["spec"]["containers"][0]["args"]
    alone = container(helm.template(), "stoker-controller-manager")["args"]
    assert not [word for word in alone if word.startswith("--shard")]


def test_git_servers_outside_call_through_an_ingress(helm: Helm) -> None:
    objects = helm.template(VALUES["an ingress"])
    (ingress,) = of_kind(objects, "Ingress")
    assert ingress["spec"]["ingressClassName"] == "nginx"
    assert ingress["spec"]["tls"] == [{"hosts": ["hooks.plant.example"], "secretName": "hooks-tls"}]
    (rule,) = ingress["spec"]["rules"]
    (path,) = rule["http"]["paths"]
    assert (rule["host"], path["path"], path["pathType"]) == ("hooks.plant.example", "/webhook/", "Prefix")
    to = path["backend"]["service"]
    service = next(one for one in of_kind(objects, "Service") if one["metadata"]["name"] == to["name"])
    assert to["port"]["name"] in {one["name"] for one in service["spec"]["ports"]}
    assert not of_kind(helm.template(), "Ingress")


def test_the_two_components_are_distinguished_by_their_labels(helm: Helm) -> None:
    selectors = {
        one["metadata"]["name"]: one["spec"]["selector"]["matchLabels"]
        for one in of_kind(helm.template({"nameOverride": "plant"}), "Deployment")
    }
    manager, webhook = selectors["stoker-plant-controller-manager"], selectors["stoker-plant-webhook"]
    assert manager["app.kubernetes.io/name"] == webhook["app.kubernetes.io/name"] == "plant"
    assert manager["app.kubernetes.io/component"] == "controller"
    assert webhook["app.kubernetes.io/component"] == "webhook"


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


def test_the_reverser_is_off_until_it_is_wanted(helm: Helm) -> None:
    assert not [one for one in helm.template() if "reverser" in one["metadata"]["name"]]


def test_the_reverser_has_the_values_of_the_paper(helm: Helm) -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text())["reverser"]["controller"]
    assert values["enableWatchIngestion"] is True  # once the reverser itself is wanted
    assert {GroupResource.of(one) for one in values["discovery"]["exclusions"]} == EXCLUDED
    args = container(helm.template(VALUES["reverser"]), "stoker-reverser")["args"]
    for wanted in (
        "--enable-watch-ingestion=true",
        "--discovery-refresh=5m",
        "--max-workers=24",
        "--max-workers-per-repo=5",
        "--batch-max-files=200",
        "--batch-max-bytes=10Mi",
        "--batch-max-wait=20s",
        "--lease-renew=8s",
        "--lease-duration=24s",
        "--work-dir=/var/cache/gitops-reverser",
    ):
        assert wanted in args
    other = container(helm.template(VALUES["reverser without Secrets"]), "stoker-reverser")
    assert {"--enable-watch-ingestion=false", "--batch-max-wait=0s", "--watch-all"} <= set(other["args"])
    assert {"name": "work", "mountPath": "/work/mirrors"} in other["volumeMounts"]


def rights(objects: list[dict[str, Any]], *role: str) -> dict[tuple[str, str], set[str]]:
    """Verbs by group and plural, of the roles of these names."""
    found: dict[tuple[str, str], set[str]] = {}
    for one in of_kind(objects, "ClusterRole", "Role"):
        for rule in one.get("rules", ()) if one["metadata"]["name"] in role else ():
            for resource in rule["resources"]:
                found.setdefault((rule["apiGroups"][0], resource), set()).update(rule["verbs"])
    return found


def test_the_reverser_may_read_the_preset_and_what_is_named(helm: Helm) -> None:
    objects = helm.template(VALUES["reverser"])
    may = rights(objects, "stoker-reverser", "stoker-reverser-preset")
    reads = {"get", "list", "watch"}
    assert all(may[each] == reads for each in PRESET)
    assert may["cert-manager.io", "certificates"] == reads
    writes = {each: verbs - reads for each, verbs in may.items() if verbs - reads}
    assert writes == {
        ("", "events"): {"create", "patch"},
        ("admissionregistration.k8s.io", "validatingwebhookconfigurations"): {"patch"},
        **{
            ("configbutler.ai", f"{one.plural}/status"): {"patch"}
            for one in KINDS
            if one.group == "configbutler.ai"
        },
    }


def test_as_it_comes_the_reverser_may_list_no_secrets(helm: Helm) -> None:
    objects = helm.template({"reverser": {"enabled": True}})
    wide = [
        one["metadata"]["name"]
        for one in of_kind(objects, "ClusterRole", "Role")
        for rule in one.get("rules", ())
        if "secrets" in rule["resources"]
        and "reverser" in one["metadata"]["name"]
        and "resourceNames" not in rule
    ]
    assert wide == []


def test_without_secrets_the_reverser_reads_only_the_credentials_that_are_named(helm: Helm) -> None:
    objects = helm.template(VALUES["reverser without Secrets"])
    found = [
        (one["metadata"].get("namespace"), rule["resourceNames"], rule["verbs"])
        for one in of_kind(objects, "ClusterRole", "Role")
        for rule in one.get("rules", ())
        if "secrets" in rule["resources"] and "reverser" in one["metadata"]["name"]
    ]
    assert sorted(found) == [
        ("line-1", ["git", "signing"], ["get"]),
        ("line-2", ["git"], ["get"]),
        ("stoker-system", ["gitops-reverser-digests"], ["get", "patch"]),
    ]


def test_authors_are_asked_for_by_a_webhook_without_rules(helm: Helm) -> None:
    objects = helm.template(VALUES["reverser"])
    configuration = next(
        one
        for one in of_kind(objects, "ValidatingWebhookConfiguration")
        if one["metadata"]["name"] == "stoker-reverser"
    )
    (webhook,) = configuration["webhooks"]
    assert webhook["name"] == WEBHOOK
    assert webhook["clientConfig"]["service"]["path"] == PATH
    assert (webhook["failurePolicy"], webhook["timeoutSeconds"]) == ("Ignore", 1)
    # These are the reverser's; where the chart named them an upgrade would take them back.
    assert not {"rules", "matchConditions", "caBundle"} & {*webhook, *webhook["clientConfig"]}
    peers = next(
        one for one in of_kind(objects, "Service") if one["metadata"]["name"] == "stoker-reverser-peers"
    )
    assert peers["spec"]["clusterIP"] == "None"
    assert peers["spec"]["publishNotReadyAddresses"] is True
    without = helm.template(VALUES["reverser without authors"])
    assert "--enable-author-webhook=true" not in container(without, "stoker-reverser")["args"]
    assert not [
        one for one in without if one["metadata"]["name"] in ("stoker-reverser-peers", "stoker-reverser-tls")
    ]


def test_the_plain_manifests_say_what_the_chart_says(helm: Helm) -> None:
    """For who installs with kubectl alone."""
    folder = ROOT / "config/webhook"
    (plain,) = yaml.safe_load((folder / "validating-webhook.yaml").read_text())["webhooks"]
    configurations = of_kind(helm.template(VALUES["reverser"]), "ValidatingWebhookConfiguration")
    rendered = next(one for one in configurations if one["metadata"]["name"] == "stoker-reverser")[
        "webhooks"
    ][0]
    for each in (plain, rendered):
        assert each["clientConfig"]["service"].pop("name")
        assert each["clientConfig"]["service"].pop("namespace")
    assert plain == rendered
    listed = yaml.safe_load((folder / "kustomization.yaml").read_text())["resources"]
    assert {*listed, "kustomization.yaml"} == {one.name for one in folder.iterdir()}


def test_cert_manager_makes_a_certificate_for_both_ends(helm: Helm) -> None:
    objects = helm.template(VALUES["reverser without Secrets"])
    (certificate,) = of_kind(objects, "Certificate")
    assert {"server auth", "client auth"} <= set(certificate["spec"]["usages"])
    assert certificate["spec"]["secretTemplate"]["labels"]["app.kubernetes.io/part-of"] == "stoker"
    assert len(of_kind(objects, "Issuer")) == 1
    (configuration,) = of_kind(objects, "ValidatingWebhookConfiguration")
    injected = configuration["metadata"]["annotations"]["cert-manager.io/inject-ca-from"]
    assert injected == "stoker-system/stoker-reverser"
    both = helm.template({"certManager": {"enabled": True}, "reverser": {"enabled": True}})
    assert len(of_kind(both, "Issuer")) == 1


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
    ("values", "message"),
    [
        ({"controler": {}}, "controler"),
        ({"controller": {"replica": 2}}, "replica"),
        ({"controller": {"replicas": "2"}}, "controller.replicas"),
        ({"controller": {"workers": 65}}, "controller.workers"),
        ({"controller": {"watchNamespaces": ["Line 1"]}}, "controller.watchNamespaces.0"),
        ({"image": {"digest": "sha256:12"}}, "image.digest"),
        ({"webhook": {"injection": {"failurePolicy": "Maybe"}}}, "webhook.injection.failurePolicy"),
        ({"receiver": {"service": {"port": 0}}}, "receiver.service.port"),
        (
            {"controller": {"removeFinalizers": {"timeoutSeconds": 5}}},
            "controller.removeFinalizers.timeoutSeconds",
        ),
        ({"receiver": {"trustedProxies": ["any"]}}, "receiver.trustedProxies.0"),
        ({"agent": {"metadataKey": "no slash"}}, "agent.metadataKey"),
        ({"defaults": {"poling": {}}}, "poling"),
        (
            {"controller": {"serviceAccount": {"create": False}}},
            "controller.serviceAccount.name must be given",
        ),
        ({"controller": {"shards": 0}}, "controller.shards"),
        ({"networkPolicy": {"git": {"cidrs": ["git.example"]}}}, "networkPolicy.git.cidrs.0"),
        ({"networkPolicy": {"apiServer": {"ports": []}}}, "networkPolicy.apiServer.ports"),
        ({"monitoring": {"podMonitor": {"interval": "often"}}}, "monitoring.podMonitor.interval"),
        ({"receiver": {"ingress": {"enabled": True}}}, "receiver.ingress.host must be given"),
        ({"receiver": {"ingress": {"host": "http://a"}}}, "receiver.ingress.host"),
        (
            {"receiver": {"enabled": False, "ingress": {"enabled": True, "host": "a"}}},
            "receiver.ingress.enabled has no effect",
        ),
        ({"networkPolicy": {"collector": {"ports": [0]}}}, "networkPolicy.collector.ports.0"),
        ({"dashboard": {"reverser": {"enabled": True}}}, "dashboard.reverser.enabled has no effect"),
        ({"reverser": {"kinds": ["*"]}}, "reverser.kinds.0"),
        ({"reverser": {"controller": {"git": {"batch": {"maxWait": 1}}}}}, "maxWait"),
        ({"reverser": {"controller": {"leases": {"renewSec": 24}}}}, "leaseSec must be larger than renewSec"),
        (
            {
                "reverser": {
                    "enabled": True,
                    "controller": {"includeSecrets": True},
                    "credentialSecrets": {"a": ["b"]},
                }
            },
            "reverser.credentialSecrets has no effect",
        ),
        (
            {"webhook": {"replicas": 1, "podDisruptionBudget": {"minAvailable": 2}}},
            "no node could ever be drained",
        ),
        (
            {"controller": {"podDisruptionBudget": {"minAvailable": 2}}},
            "controller.podDisruptionBudget.minAvailable is not smaller than controller.replicas",
        ),
        (
            {"commonLabels": {"app.kubernetes.io/part-of": "plant"}},
            "commonLabels: the label app.kubernetes.io/part-of is the chart's own",
        ),
        (
            {"webhook": {"podLabels": {"app.kubernetes.io/component": "x"}}},
            "webhook.podLabels: the label app.kubernetes.io/component is the chart's own",
        ),
    ],
)
def test_a_wrong_value_is_refused_by_its_name(values: Mapping[str, object], message: str, helm: Helm) -> None:
    """helm 3.18 and newer name a value as /controller/replicas, older ones as controller.replicas."""
    refusal = helm.refused(values)
    assert message in refusal or message in refusal.replace("/", ".")


def test_one_replica_alone_keeps_no_node_from_being_drained(helm: Helm) -> None:
    budgets = of_kind(helm.template({"controller": {"replicas": 1, "shards": 2}}), "PodDisruptionBudget")
    assert [one["metadata"]["name"] for one in budgets] == ["stoker-webhook"]


def test_values_that_people_write_freely_stay_one_argument(helm: Helm) -> None:
    selector, pods, name = "team in (a, b),!old", "app in (x, y)", "Plant 7: north #1"
    values = {
        "controller": {"watchLabelSelector": selector, "clusterName": name},
        "webhook": {"injection": {"podSelector": pods}},
    }
    objects = helm.template(values)
    manager = container(objects, "stoker-controller-manager")["args"]
    assert {f"--watch-label-selector={selector}", f"--cluster-name={name}"} <= set(manager)
    assert f"--pod-selector={pods}" in container(objects, "stoker-webhook")["args"]
    (hook,) = of_kind(objects, "Job")
    args = hook["spec"]["template"]["spec"]["containers"][0]["args"]
    assert f"--watch-label-selector={selector}" in args, "finalizers of another release stay"


def test_long_names_and_namespaces_that_are_numbers_make_objects_that_a_server_takes(helm: Helm) -> None:
    namespace = "a-namespace-whose-name-takes-all-the-room-that-there-is-for-one"
    values = {"reverser": {"enabled": True}, "controller": {"watchNamespaces": ["4711"]}}
    objects = helm.template(values, name="a-release-whose-name-is-rather-long", namespace=namespace)
    for one in objects:
        assert len(one["metadata"]["name"]) <= 253
        for label, value in one["metadata"]["labels"].items():
            assert isinstance(value, str), label
            assert len(value) <= 63, label
        assert isinstance(one["metadata"].get("namespace", ""), str)
    roles = {one["metadata"]["name"].rpartition("-")[2]: one for one in of_kind(objects, "ClusterRole")}
    preset, reading = roles["preset"], roles["read"]
    key = "stoker.io/aggregate-to-reverser"
    chosen = [one["matchLabels"][key] for one in reading["aggregationRule"]["clusterRoleSelectors"]]
    assert preset["metadata"]["labels"][key] in chosen


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

    free: tuple[str, ...] = ("defaults.", "webhook.namespaceSelector.", "reverser.credentialSecrets.")
    free += ("networkPolicy.metrics.namespaceSelector.", "monitoring.dashboards.labels.")
    free += ("dashboard.ingress.annotations.",)
    for component in ("controller", "webhook", "reverser"):
        free += tuple(
            f"{component}.{name}" for name in ("podSecurityContext.", "securityContext.", "resources.")
        )
    forms = ("controller.image.", "webhook.image.", "reverser.image.", "agent.image.")
    offered = {
        path for path in known(schema, "") if not path.startswith((*free, *forms)) and path != "global"
    }
    written = {path for path in given(values, "") if not path.startswith(free)}
    assert offered == written
    fields = {one.encode_name for one in fields_of(IgnitionSyncBaseSpec)}
    assert set(schema["properties"]["defaults"]["properties"]) == fields


def test_the_readme_documents_every_value() -> None:
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
        assert one["spec"]["conversion"] == {"strategy": "None", "webhook": None}


def test_the_version_of_the_chart_is_that_of_the_product() -> None:
    from stoker import __version__  # noqa: PLC0415 - the only test that needs it

    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert (chart["version"], chart["appVersion"]) == (__version__, __version__)
    assert Path(CHART / "README.md").read_text().startswith("# The chart `stoker`")


def test_the_address_check_is_the_same_for_every_component(helm: Helm) -> None:
    objects = helm.template(VALUES["egress"])
    own = ["--egress-allow=gitea.git.svc", "--egress-allow=*.tools.svc", "--egress-allow=127.0.0.0/8"]
    own.append("--egress-cluster-range=10.96.0.0/12")
    agents = [
        "--agent-env=STOKER_EGRESS_ALLOW=gitea.git.svc,*.tools.svc,127.0.0.0/8",
        "--agent-env=STOKER_EGRESS_CLUSTER_RANGES=10.96.0.0/12",
    ]
    names = {
        name: [word for word in container(objects, name)["args"] if "egress" in word.lower()]
        for name in ("stoker-controller-manager", "stoker-reverser", "stoker-webhook")
    }
    assert names["stoker-controller-manager"] == agents + own
    assert names["stoker-reverser"] == own
    assert names["stoker-webhook"] == agents
