"""The chart's NetworkPolicies, read as a network would that enforces them: what must go through does."""

from __future__ import annotations

from typing import Any

import pytest

from stoker_testkit.chart.helm import Helm
from stoker_testkit.cluster.network_policy_evaluator import NetworkPolicies, PolicyPeer, PolicyPod

from .test_templates import VALUES

HOME = "stoker-system"
API_SERVER = PolicyPeer("10.1.0.7")
NODE = PolicyPeer("10.9.0.1")
STRANGER = PolicyPeer("10.2.3.4", {"app": "x"}, "default", {"name": "default"})
PROMETHEUS = PolicyPeer("10.2.3.5", {"app": "prometheus"}, "monitoring", {"name": "monitoring"})
GITEA = PolicyPeer("10.2.3.6", {"app": "gitea"}, "gitea", {"name": "gitea"})
GIT = PolicyPeer("192.0.2.10")
FORGE = PolicyPeer("198.51.100.20")
PROXY = PolicyPeer("203.0.113.7")
ANYONE = PolicyPeer("8.8.8.8")


class Installed:
    """The policies of a release, and its pods."""

    def __init__(self, objects: list[dict[str, Any]]) -> None:
        self.policies = NetworkPolicies(objects)
        self.names = {one["metadata"]["name"] for one in objects if one["kind"] == "NetworkPolicy"}
        self.pods = {
            pod["labels"]["app.kubernetes.io/component"]: PolicyPod(pod["labels"], HOME)
            for pod in (
                one["spec"]["template"]["metadata"] for one in objects if one["kind"] in ("Deployment", "Job")
            )
        }

    def lets_in(self, component: str, port: int, peer: PolicyPeer) -> bool:
        return self.policies.lets_in(self.pods[component], port, peer)

    def lets_out(self, component: str, port: int, peer: PolicyPeer, protocol: str = "TCP") -> bool:
        return self.policies.lets_out(self.pods[component], port, peer, protocol)

    def as_peer(self, component: str) -> PolicyPeer:
        return PolicyPeer("10.2.9.9", self.pods[component].labels, HOME, {"name": HOME})


@pytest.fixture(scope="module")
def helm(tmp_path_factory: pytest.TempPathFactory) -> Helm:
    return Helm(tmp_path_factory.mktemp("helm"))


@pytest.fixture(scope="module")
def narrow(helm: Helm) -> Installed:
    """With networks that are named."""
    return Installed(helm.template(VALUES["networks"]))


@pytest.fixture(scope="module")
def plain(helm: Helm) -> Installed:
    """With nothing set but that there are policies."""
    return Installed(helm.template({"networkPolicy": {"enabled": True}, "reverser": {"enabled": True}}))


def test_browsers_reach_the_dashboard_where_there_is_one(helm: Helm, plain: Installed) -> None:
    assert not plain.lets_in("controller", 8090, ANYONE)
    policy = {"enabled": True, "dashboard": {"cidrs": ["198.51.100.0/24"]}}
    narrow = Installed(helm.template({"networkPolicy": policy, "dashboard": {"enabled": True}}))
    assert narrow.lets_in("controller", 8090, FORGE)
    assert not narrow.lets_in("controller", 8090, ANYONE)
    assert not narrow.lets_in("webhook", 8090, FORGE)
    open_ = Installed(helm.template({"networkPolicy": {"enabled": True}, "dashboard": {"enabled": True}}))
    assert open_.lets_in("controller", 8090, ANYONE)
    both = Installed(helm.template(VALUES["dashboards of both"]))
    assert both.lets_in("reverser", 8090, ANYONE)
    assert both.lets_in("controller", 8090, ANYONE)
    own = {"dashboard": {"reverser": {"enabled": True}}, "reverser": {"enabled": True}}
    alone = Installed(helm.template({**own, "networkPolicy": policy}))
    assert alone.lets_in("reverser", 8090, FORGE)
    assert not alone.lets_in("reverser", 8090, ANYONE)
    assert not alone.lets_in("controller", 8090, FORGE)


def test_there_are_none_unless_they_are_wanted_and_then_they_have_the_specified_names(
    helm: Helm, plain: Installed
) -> None:
    assert not Installed(helm.template()).names
    assert {"ignition-sync-default-deny", "webhook-allow-apiserver", "controller-allow-egress"} <= plain.names


@pytest.mark.parametrize(
    ("component", "port", "peer"),
    [
        ("webhook", 9443, API_SERVER),
        ("reverser", 9443, API_SERVER),
        ("controller", 8443, FORGE),
        *((each, 8080, PROMETHEUS) for each in ("controller", "webhook", "reverser")),
        *((each, 8081, NODE) for each in ("controller", "webhook", "reverser")),
    ],
)
def test_every_required_client_reaches_a_pod(
    component: str, port: int, peer: PolicyPeer, narrow: Installed, plain: Installed
) -> None:
    assert narrow.lets_in(component, port, peer)
    assert plain.lets_in(component, port, peer)


@pytest.mark.parametrize(
    ("component", "port", "peer"),
    [
        ("webhook", 9443, STRANGER),
        ("reverser", 9443, STRANGER),
        ("controller", 8443, ANYONE),
        ("controller", 9443, API_SERVER),
        *((each, 8080, STRANGER) for each in ("controller", "webhook", "reverser")),
        *((each, 22, ANYONE) for each in ("controller", "webhook", "reverser", "remove-finalizers")),
    ],
)
def test_no_other_client_reaches_a_pod(
    component: str, port: int, peer: PolicyPeer, narrow: Installed
) -> None:
    assert not narrow.lets_in(component, port, peer)


@pytest.mark.parametrize(
    ("component", "port", "peer", "protocol"),
    [
        *((each, 53, NODE, "UDP") for each in ("controller", "webhook", "reverser", "remove-finalizers")),
        *((each, 53, NODE, "TCP") for each in ("controller", "webhook", "reverser", "remove-finalizers")),
        *(
            (each, 6443, API_SERVER, "TCP")
            for each in ("controller", "webhook", "reverser", "remove-finalizers")
        ),
        *((each, 22, GIT, "TCP") for each in ("controller", "reverser")),
        *((each, 443, GIT, "TCP") for each in ("controller", "reverser")),
        *((each, 3000, GITEA, "TCP") for each in ("controller", "reverser")),
    ],
)
def test_a_pod_reaches_what_it_must(
    component: str, port: int, peer: PolicyPeer, protocol: str, narrow: Installed, plain: Installed
) -> None:
    assert narrow.lets_out(component, port, peer, protocol)
    assert plain.lets_out(component, port, peer, protocol)


def test_ports_and_networks_of_ones_own_are_reached(narrow: Installed, plain: Installed) -> None:
    for component in ("controller", "reverser"):
        assert narrow.lets_out(component, 3000, GIT)
        assert narrow.lets_out(component, 3128, PROXY)
        assert not plain.lets_out(component, 3000, GIT)
        assert not plain.lets_out(component, 3128, PROXY)


@pytest.mark.parametrize(
    ("endpoint", "port"),
    [("http://collector.traces:4318", 4318), ("https://traces.example", 443), ("http://collector", 80)],
)
def test_a_collector_of_traces_is_reached_where_there_is_one(
    endpoint: str, port: int, helm: Helm, narrow: Installed
) -> None:
    traced = Installed(helm.template({**VALUES["networks"], "tracing": {"endpoint": endpoint}}))
    for component in ("controller", "webhook", "reverser"):
        assert traced.lets_out(component, port, ANYONE)
        assert not narrow.lets_out(component, port, ANYONE)
    assert not traced.lets_out("remove-finalizers", port, ANYONE)


def test_a_collector_whose_pods_listen_elsewhere_than_its_service_is_reached(helm: Helm) -> None:
    """A network that enforces policies sees the pod's port; the endpoint names the Service's."""
    collector = PolicyPeer("10.2.3.7", {"app": "collector"}, "traces", {"name": "traces"})
    tracing = {"endpoint": "http://collector.traces"}
    named = Installed(helm.template({**VALUES["networks"], "tracing": tracing}))
    assert not named.lets_out("webhook", 4318, collector)
    policy = {**VALUES["networks"]["networkPolicy"], "collector": {"ports": [4318]}}
    result = Installed(helm.template({**VALUES["networks"], "tracing": tracing, "networkPolicy": policy}))
    for component in ("controller", "webhook", "reverser"):
        assert result.lets_out(component, 4318, collector)
        assert result.lets_out(component, 80, collector)
        assert not result.lets_out(component, 4317, ANYONE)
    silent = Installed(helm.template({**VALUES["networks"], "networkPolicy": policy}))
    assert not silent.lets_out("webhook", 4318, collector), "there are no traces"


@pytest.mark.parametrize(
    ("component", "port", "peer"),
    [
        *((each, 443, ANYONE) for each in ("controller", "webhook", "reverser", "remove-finalizers")),
        *((each, 22, GIT) for each in ("webhook", "remove-finalizers")),
        *((each, 3000, GITEA) for each in ("webhook", "remove-finalizers")),
        ("controller", 25, GIT),
    ],
)
def test_a_pod_reaches_nothing_else(component: str, port: int, peer: PolicyPeer, narrow: Installed) -> None:
    assert not narrow.lets_out(component, port, peer)


def test_replicas_of_the_reverser_reach_each_other_and_no_other_client_does(plain: Installed) -> None:
    peer = plain.as_peer("reverser")
    assert plain.lets_out("reverser", 9444, peer)
    assert plain.lets_in("reverser", 9444, peer)
    for other in (plain.as_peer("controller"), STRANGER, API_SERVER):
        assert not plain.lets_in("reverser", 9444, other)


def test_pods_of_others_in_the_namespace_are_left_alone(plain: Installed) -> None:
    """The specified policy is for every pod of its namespace, which the release does not own."""
    other = PolicyPod({"app": "gitea"}, HOME)
    assert plain.policies.lets_in(other, 3000, STRANGER)
    assert plain.policies.lets_out(other, 3000, ANYONE)
