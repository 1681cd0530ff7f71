"""Agents while something else is away: the API server, git, their map; and many of them at once."""

from __future__ import annotations

import time
from contextlib import nullcontext

import pytest

from stoker.agent.sidecar.informers import ASK_SECONDS
from stoker.agent.status.status_report import WRITE_SECONDS
from stoker.domain.protocol import SyncState
from stoker.domain.reasons import Reason
from stoker.domain.refs import RepoUrl
from stoker_testkit.environments.agent_environment import AgentEnvironment, check, files_of, project
from stoker_testkit.faults.stream_faults import Fault, FaultKind
from stoker_testkit.faults.tcp_fault_proxy import FaultProxy
from stoker_testkit.repositories.git_http_server import GitHttpServer
from stoker_testkit.wait_until import eventually

AWAY = max(ASK_SECONDS, WRITE_SECONDS) + 2.0
FILLER = "projects/filler/project.json"


def stay_away(began: float) -> None:
    """Longer than anybody waits for an answer."""
    eventually(lambda: time.monotonic() - began > AWAY, AWAY + 10.0, "it was away for long enough")


@pytest.mark.parametrize(
    "silent", [False, pytest.param(True, marks=pytest.mark.long)], ids=["refusing", "silent"]
)
def test_the_api_server_is_away_and_syncs_go_on(
    plant: AgentEnvironment, fault_proxy: FaultProxy, silent: bool
) -> None:
    plant.kubeconfig = plant.cluster.kubeconfig(
        "admin", namespace=plant.namespace, server=f"https://{fault_proxy.address}"
    )
    own = plant.pod("gateway-0", ref_override="main", sync_period="1")
    other_pod = plant.pod("gateway-1", "packer")
    first = plant.commit(project("filler", 1))
    plant.publish(first, agent_spec=plant.spec())
    for pod in (own, other_pod):
        plant.join_gateway(pod)
    plant.until_converged(own, first)
    plant.until_converged(other_pod, first, "packer")

    silence = Fault(FaultKind.STALL)
    with nullcontext() if silent else fault_proxy.refusing():
        fault_proxy.inject(silence if silent else Fault(FaultKind.RESET))
        if silent:
            fault_proxy.arm(silence, None)
        second = plant.commit(project("filler", 2))
        own.until_file(FILLER, project("filler", 2)[FILLER])
        stay_away(time.monotonic())
        fault_proxy.lift()
    plant.until_converged(own, second)
    assert own.logged("status.unwritten"), "it is in the log while no status can be written"
    assert other_pod.file(FILLER) == project("filler", 1)[FILLER], (
        "an agent without new metadata stays where it is"
    )
    assert other_pod.ask("/healthz")[0] == 200
    third = plant.commit(project("filler", 3))
    plant.publish(third)
    for pod, key in ((own, "filler"), (other_pod, "packer")):
        plant.until_converged(pod, third, key)


def test_git_is_away_and_what_was_missed_follows(plant: AgentEnvironment, git_http: GitHttpServer) -> None:
    with FaultProxy.start(git_http.url("")) as network:
        plant.publish(git_url=RepoUrl(f"http://{network.address}/plant.git"))
        pod = plant.pod()
        first = plant.commit(project("filler", 1))
        plant.publish(first, agent_spec=plant.spec())
        gateway = plant.join_gateway(pod)
        plant.until_converged(pod, first)

        began = time.monotonic()
        with network.refusing():
            second = plant.commit(project("filler", 2))
            plant.publish(second)
            report = plant.maps.until_report(
                sync_status=SyncState.ERROR, reason=Reason.SOURCE_UNREACHABLE, pod=pod
            )
            assert (report.commit, report.synced_commit) == (second, first)
            assert pod.file(FILLER) == project("filler", 1)[FILLER]
            check(pod, files_of(plant.repository, first), gateway)
            plant.publish(first)
            plant.until_converged(pod, first)  # what it has, it can go to
            plant.publish(second)
            stay_away(began)
            assert pod.ask("/readyz")[0] == 200
        report = plant.until_converged(pod, second)
        assert Reason.SOURCE_UNREACHABLE in {entry.result for entry in report.history}


def test_a_map_that_is_deleted_and_made_again_is_followed_again(plant: AgentEnvironment) -> None:
    pod = plant.pod()
    first = plant.commit(project("filler", 1))
    plant.publish(first, agent_spec=plant.spec())
    plant.join_gateway(pod)
    plant.until_converged(pod, first)

    plant.maps.withdraw()
    report = plant.maps.until_report(reason=Reason.METADATA_NOT_FOUND, synced_commit=first, pod=pod)
    assert report.sync_status is SyncState.PENDING
    assert pod.file(FILLER) == project("filler", 1)[FILLER]
    plant.maps.withdraw_status()
    second = plant.commit(project("filler", 2))
    plant.publish(second)
    report = plant.until_converged(pod, second)
    assert [entry.commit for entry in report.history][-1] == first, (
        "the agent remembers what the map has lost"
    )


def test_ten_agents_that_report_at_once_lose_no_key(plant: AgentEnvironment) -> None:
    """Without gateways: ten of those would leave no core for what is to be seen here."""
    first = plant.commit(project("filler", 1))
    plant.publish(first)
    pods = {
        f"filler-{number}": plant.pod(f"gateway-{number}", f"filler-{number}", talks=False)
        for number in range(10)
    }
    for pod in pods.values():
        pod.start(plant.kubeconfig)
    for key, pod in pods.items():
        plant.until_converged(pod, first, key)
    second = plant.commit(project("filler", 2))
    plant.publish(second)
    for key, pod in pods.items():
        report = plant.until_converged(pod, second, key)
        assert (report.pod_name, report.files_modified) == (pod.name, 7)
    assert set(plant.maps.status() or {}) == set(pods)
    owners = plant.maps.status_owners()
    assert {name: owners[name] for name in pods} == {
        name: {f"stoker-agent-{pod.name}"} for name, pod in pods.items()
    }
