"""The life of a gateway under its agent: real processes, a real API server, real git, the test gateway."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from stoker.domain.protocol import SyncState
from stoker.domain.reasons import Reason
from stoker.domain.refs import RepoUrl
from stoker_testkit.cluster.cluster_access import ClusterAccess
from stoker_testkit.environments.agent_environment import SERVICE, AgentEnvironment, project
from stoker_testkit.environments.agent_pod import AgentPod
from stoker_testkit.repositories.bare_repository import Repository
from stoker_testkit.repositories.git_http_server import GitHttpServer
from stoker_testkit.repositories.git_ssh_server import GitSshServer
from stoker_testkit.repositories.ssh_keys import KeyKind
from stoker_testkit.wait_until import eventually


@pytest.fixture
def plant(
    kinds: ClusterAccess, namespace: str, git_http: GitHttpServer, tmp_path: Path
) -> Iterator[AgentEnvironment]:
    repository = Repository.create(git_http.root / "plant.git")
    with AgentEnvironment.create(kinds, namespace, tmp_path, repository, git_http.url("plant.git")) as made:
        yield made


def test_files_come_before_the_gateway_and_its_first_boot_is_met_once_more(plant: AgentEnvironment) -> None:
    pod = plant.pod()
    first = plant.commit(project("filler", 1) | {"config/resources/core/note.txt": "ours"})
    plant.publish(first, agent_spec=plant.spec())
    pod.start(plant.kubeconfig)
    assert pod.ask("/startupz")[0] == 503, "the gateway is not started before its files are there"
    eventually(lambda: pod.ask("/startupz")[0] == 200, 30.0, lambda: pod.ask("/startupz")[1])
    assert pod.file("config/resources/core/note.txt") == "ours"
    report = plant.maps.until_report(synced_commit=first, reason=Reason.GATEWAY_STARTING, pod=pod)
    assert (report.applied, report.verified) == (False, False), (
        "files are there, and the gateway has not read them"
    )
    assert report.sync_status is SyncState.SYNCING, "a gateway that takes its time to come up is no error"

    gateway = plant.start_gateway(pod, commissions=True)
    assert pod.file("config/resources/core/config-mode.json"), "its first boot makes files in our folder"
    report = plant.until_synced(pod, first)
    report = plant.maps.until_report(orphans_kept_total=1, pod=pod)
    assert report.orphans_kept == ("config/resources/core/config-mode.json",), "the second sync has met it"
    assert pod.file("config/resources/core/config-mode.json"), "what a boot made is not deleted unasked"
    assert not gateway.asked("POST", "/scan/projects"), "a boot has read everything: nothing is to be scanned"

    second = plant.commit(
        project("filler", 2)
        | project("packer", 2)
        | {"config/resources/core/config-mode.json": '{"title": "x"}'}
    )
    plant.publish(second)
    report = plant.until_converged(pod, second)
    assert (report.scan_result, report.orphans_kept_total) == ("projects=200 config=200", 0)
    assert gateway.asked("POST", "/scan-lock/projects")
    assert set(gateway.projects) == {"filler", "packer"}


def known_hosts(server: GitSshServer) -> Iterator[str]:
    """The lines of the keys that it has now."""
    for kind in KeyKind:
        key = ["ssh-keygen", "-y", "-f", str(server.folder / f"host_{kind}")]
        line = subprocess.run(key, capture_output=True, text=True, check=True).stdout
        yield f"{server.address} {line}"


def test_over_ssh_and_another_host_key_is_refused(plant: AgentEnvironment, git_ssh: GitSshServer) -> None:
    key = git_ssh.authorized_key()
    pod = plant.pod()
    pod.mount("git-credentials", {"ssh-privatekey": key.read_text()})
    pod.mount("secrets/hosts", {"known_hosts": git_ssh.known_hosts.read_text()})
    login = {
        "secretRef": {"name": "git", "key": "ssh-privatekey"},
        "knownHostsSecretRef": {"name": "hosts", "key": "known_hosts"},
    }
    first = plant.commit(project("filler", 1))
    plant.publish(git_url=RepoUrl(git_ssh.url("plant.git")))
    plant.publish(first, agent_spec=plant.spec({"auth": {"sshKey": login}}))
    pod.start(plant.kubeconfig)
    plant.maps.until_report(synced_commit=first, pod=pod)
    plant.start_gateway(pod)
    plant.until_converged(pod, first)

    git_ssh.replace_host_keys()
    second = plant.commit(project("filler", 2))
    plant.publish(second)
    report = plant.maps.until_report(sync_status=SyncState.ERROR, reason=Reason.HOST_KEY_NOT_TRUSTED, pod=pod)
    assert report.synced_commit == first
    pod.mount("secrets/hosts", {"known_hosts": "".join(known_hosts(git_ssh))})
    plant.until_converged(pod, second)
    assert key.read_text().splitlines()[1] not in json.dumps([pod.lines(), plant.maps.status()])


def profile(plant: AgentEnvironment, destination: str) -> None:
    manifest = {
        "apiVersion": "stoker.io/v1alpha1",
        "kind": "SyncProfile",
        "metadata": {"name": "line", "namespace": plant.namespace},
        "spec": {"mappings": [{"source": f"{SERVICE}/projects/filler", "destination": destination}]},
    }
    plant.cluster.kubectl("apply", "-f", "-", stdin=json.dumps(manifest))


def approve_deletions(plant: AgentEnvironment, pod: AgentPod) -> None:
    """Approve the plan that empties a destination which no mapping has any more.

    The gateway can show an applied plan before the report does, so the plan approved last is not a new one.
    """
    approved = pod.annotations.get("stoker.io/approved-plan")
    report = plant.maps.until_report(
        reason=Reason.DESTINATION_UNMAPPED,
        pending_plan=lambda plan: plan is not None and plan.digest != approved,
        pod=pod,
        patience=45.0,
    )
    assert report.pending_plan is not None
    pod.annotate({"approved-plan": report.pending_plan.digest})


def test_update_own_ref_pause_and_profile_one_after_another(plant: AgentEnvironment) -> None:
    pod = plant.pod(sync_period="1")
    first = plant.commit(project("filler", 1))
    plant.publish(first, agent_spec=plant.spec())
    pod.start(plant.kubeconfig)
    plant.maps.until_report(synced_commit=first, pod=pod)
    gateway = plant.start_gateway(pod)
    plant.until_converged(pod, first)

    hotfix = plant.commit(project("filler", 7), branch="hotfix", onto=first)
    pod.annotate({"ref-override": "hotfix"})
    assert plant.until_converged(pod, hotfix).synced_ref == "hotfix"
    second = plant.commit(project("filler", 2))
    plant.publish(second)
    hotfix = plant.commit(project("filler", 8), branch="hotfix")
    plant.until_converged(pod, hotfix)
    pod.annotate({"ref-override": None})
    assert plant.until_converged(pod, second).synced_ref == "main"

    third = plant.commit(project("filler", 3) | project("packer", 3))
    plant.publish(third, paused=True)
    plant.maps.until_report(reason=Reason.PAUSED, sync_status=SyncState.PENDING, pod=pod)
    assert pod.file("projects/packer/project.json") is None
    plant.publish(paused=False)
    plant.until_converged(pod, third)

    profile(plant, "projects/Line 1")
    pod.annotate({"sync-profile": "line"})
    approve_deletions(plant, pod)
    report = plant.maps.until_report(
        sync_profile_name="line", sync_status=SyncState.SYNCED, verified=True, pod=pod, patience=45.0
    )
    assert report.synced_commit == third
    assert set(gateway.projects) == {"Line 1"}, "what the old way gave is gone, from the gateway too"
    profile(plant, "projects/Line 2")
    approve_deletions(plant, pod)
    eventually(lambda: set(gateway.projects) == {"Line 2"}, 30.0, pod.tail)
    pod.annotate({"sync-profile": None})
    approve_deletions(plant, pod)
    plant.maps.until_report(
        sync_profile_name="", verified=True, projects_synced=lambda it: "packer" in it, pod=pod
    )
    plant.until_converged(pod, third)
