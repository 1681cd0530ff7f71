"""The chart's NetworkPolicies on a node that enforces them: only allowed clients get through."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest

from stoker_testkit.chart.process_release import HOME
from stoker_testkit.environments.operator_environment import GatewaySite
from stoker_testkit.node.node_release import SCRAPER
from stoker_testkit.node.operator_cluster import NodeOperatorCluster
from stoker_testkit.wait_until import eventually

pytestmark = pytest.mark.node

RECEIVER, METRICS, PROBES, ADMISSION, PEERS, GIT = 8443, 8080, 8081, 9443, 9444, 3000
_TRY = """
import json, socket, sys
def reached(host, port):
    try:
        socket.create_connection((host, port), timeout=3).close()
    except OSError:
        return False
    return True
print(json.dumps([reached(host, port) for host, port in json.loads(sys.argv[1])]))
"""


@dataclass
class Caller:
    """A pod from which connections are tried."""

    stage: NodeOperatorCluster
    namespace: str
    pod: str

    def reaches(self, *places: tuple[str, int]) -> list[bool]:
        return [bool(one) for one in json.loads(self.run("python3", "-c", _TRY, json.dumps(places)))]

    def run(self, *command: str) -> str:
        return self.stage.cluster.kubectl("-n", self.namespace, "exec", self.pod, "--", *command).stdout


def address(pod: dict[str, Any]) -> str:
    return str(pod["status"]["podIP"])


def first(stage: NodeOperatorCluster, component: str) -> dict[str, Any]:
    return stage.release.pods(component)[0]


def own(stage: NodeOperatorCluster, component: str) -> Caller:
    return Caller(stage, HOME, str(first(stage, component)["metadata"]["name"]))


@pytest.fixture
def stranger(stage: NodeOperatorCluster, site: GatewaySite) -> Caller:
    """A pod of a site, which is not the release's, and listens as a git server might."""
    stage.release.until_running()
    site.gateway_pod("north")
    eventually(
        lambda: site.get("Pod", "north").get("status", {}).get("phase") == "Running",
        site.patience,
        "the stranger runs",
        interval=0.1,
    )
    caller = Caller(stage, site.namespace, "north")
    caller.run("sh", "-c", f"python3 -m http.server {GIT} >/dev/null 2>&1 &")
    eventually(lambda: caller.reaches(("127.0.0.1", GIT)) == [True], site.patience, "the stranger listens")
    return caller


def test_a_foreign_pod_reaches_only_public_ports(stage: NodeOperatorCluster, stranger: Caller) -> None:
    controller, webhook, reverser = (
        address(first(stage, one)) for one in ("controller", "webhook", "reverser")
    )
    assert (
        stranger.reaches((controller, RECEIVER), *((one, PROBES) for one in (controller, webhook)))
        == [True] * 3
    ), "the receiver and what says whether a pod is well are for everybody"
    closed = [
        *((one, METRICS) for one in (controller, webhook, reverser)),
        *((one, ADMISSION) for one in (webhook, reverser)),
        (reverser, PEERS),
    ]
    assert stranger.reaches(*closed) == [False] * len(closed)


def test_metrics_are_for_namespaces_that_are_named(stage: NodeOperatorCluster, stranger: Caller) -> None:
    doors = [(address(first(stage, one)), METRICS) for one in ("controller", "webhook", "reverser")]
    assert stranger.reaches(*doors) == [False] * 3
    stage.cluster.kubectl("label", "namespace", stranger.namespace, f"{SCRAPER}=true")
    eventually(lambda: stranger.reaches(*doors) == [True] * 3, 60.0, "the named namespace reads metrics")


def test_pods_of_the_release_reach_what_they_must_and_no_more(
    stage: NodeOperatorCluster, stranger: Caller
) -> None:
    outside = (
        address(stage.cluster.request("GET", f"/api/v1/namespaces/{stranger.namespace}/pods/north").json()),  # type: ignore[arg-type]
        GIT,
    )
    reversers = [(address(one), PEERS) for one in stage.release.pods("reverser")]
    assert own(stage, "reverser").reaches(*reversers) == [True] * 2, "replicas tell each other who did what"
    assert own(stage, "controller").reaches(outside) == [True], "git servers may be pods anywhere"
    assert own(stage, "controller").reaches(*reversers) == [False] * 2
    assert own(stage, "webhook").reaches(outside, *reversers) == [False] * 3
