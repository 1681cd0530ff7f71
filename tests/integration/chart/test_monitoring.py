"""The chart's objects for a Prometheus operator and for Grafana: everything that they name exists."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from stoker.controller.owned.fetcher_deployments import METRICS_PORT as FETCHER_PORT
from stoker.domain.protocol import CR_NAME_LABEL
from stoker.webhooks.admission.agent_container import METRICS_PORT
from stoker_testkit.chart.helm import CHART, Helm

from .test_templates import VALUES, of_kind

KINDS = ("ServiceMonitor", "PodMonitor", "PrometheusRule")
MAP = "ignition-sync-grafana-dashboard"


@pytest.fixture(scope="module")
def helm(tmp_path_factory: pytest.TempPathFactory) -> Helm:
    return Helm(tmp_path_factory.mktemp("helm"))


@pytest.fixture(scope="module")
def objects(helm: Helm) -> list[dict[str, Any]]:
    return helm.template(VALUES["monitoring"])


def test_nothing_of_it_is_there_unless_it_is_wanted(helm: Helm) -> None:
    plain = helm.template()
    assert not of_kind(plain, *KINDS)
    assert not [one for one in plain if one["metadata"]["name"] == MAP]


def test_the_service_monitor_finds_every_service_with_metrics_and_no_other(
    objects: list[dict[str, Any]],
) -> None:
    (monitor,) = of_kind(objects, "ServiceMonitor")
    assert monitor["metadata"]["labels"]["release"] == "prometheus"
    (endpoint,) = monitor["spec"]["endpoints"]
    assert endpoint == {"port": "metrics", "path": "/metrics", "honorLabels": True, "interval": "30s"}
    wanted = monitor["spec"]["selector"]["matchLabels"].items()
    (among,) = monitor["spec"]["selector"]["matchExpressions"]
    found, with_metrics = set(), set()
    for one in of_kind(objects, "Service"):
        labels, ports = one["metadata"]["labels"], {each["name"] for each in one["spec"]["ports"]}
        if "metrics" in ports:
            with_metrics.add(one["metadata"]["name"])
        if wanted <= labels.items() and labels[among["key"]] in among["values"] and "metrics" in ports:
            found.add(one["metadata"]["name"])
    assert found == with_metrics == {"stoker-controller-metrics", "stoker-webhook", "stoker-reverser"}


def test_pod_monitors_name_the_ports_and_labels_of_agents_and_fetchers(
    objects: list[dict[str, Any]], helm: Helm
) -> None:
    found = {one["metadata"]["name"]: one["spec"] for one in of_kind(objects, "PodMonitor")}
    assert set(found) == {"stoker-agents", "stoker-fetchers"}
    assert METRICS_PORT == FETCHER_PORT == 8083
    agents, fetchers = found["stoker-agents"], found["stoker-fetchers"]
    assert agents["selector"]["matchExpressions"] == [{"key": CR_NAME_LABEL, "operator": "Exists"}]
    (endpoint,) = agents["podMetricsEndpoints"]
    # Labels of a pod are not trusted: a user who may create one could speak for another namespace.
    assert endpoint == {"port": "stoker-metrics", "path": "/metrics", "interval": "1m"}
    assert fetchers["selector"]["matchExpressions"] == [{"key": "stoker.io/fetcher", "operator": "Exists"}]
    assert fetchers["podMetricsEndpoints"][0]["port"] == "metrics"
    assert agents["namespaceSelector"] == {"any": True}
    some = {"controller": {"watchNamespaces": ["line-1"], "sharedVolumes": False}}
    (limited,) = of_kind(helm.template({**VALUES["monitoring"], **some}), "PodMonitor")
    assert limited["spec"]["namespaceSelector"] == {"matchNames": ["line-1"]}


def test_every_alert_of_the_folder_is_in_the_rule(objects: list[dict[str, Any]]) -> None:
    (rule,) = of_kind(objects, "PrometheusRule")
    files = sorted((CHART / "rules").glob("*.yaml"))
    assert files
    groups = [group for file in files for group in yaml.safe_load(file.read_text())["groups"]]
    assert rule["spec"]["groups"] == groups


def test_the_map_of_dashboards_holds_every_file_of_the_folder(objects: list[dict[str, Any]]) -> None:
    (made,) = (one for one in of_kind(objects, "ConfigMap") if one["metadata"]["name"] == MAP)
    assert made["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert made["metadata"]["annotations"] == {"grafana_folder": "Plant"}
    files = {file.name: json.loads(file.read_text()) for file in (CHART / "dashboards").glob("*.json")}
    assert {"dashboard.json", "fleet.json", "gateway.json", "reverser.json"} <= set(files)
    assert {name: json.loads(text) for name, text in made["data"].items()} == files
    # As the cluster keeps it: all of it must fit into one object.
    assert len(json.dumps(made)) < 1_000_000


def test_files_beside_the_templates_are_in_the_package(helm: Helm, tmp_path: Path) -> None:
    helm.run("package", CHART, f"--destination={tmp_path}")
    (package,) = tmp_path.glob("stoker-*.tgz")
    packed = Helm(tmp_path, chart=package)
    values = VALUES["monitoring"]
    assert packed.template(values) == helm.template(values)
