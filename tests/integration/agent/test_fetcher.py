"""A shared volume from end to end: the controller asks for it, a fetcher fills it, agents read it."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stoker.domain.intent.intent import SyncResourceKind
from stoker.domain.protocol import SyncState
from stoker_testkit.cluster.cluster_access import ClusterAccess
from stoker_testkit.environments.agent_pod import AgentPod, ResourceMaps
from stoker_testkit.processes import Process, free_port
from stoker_testkit.repositories.bare_repository import Repository
from stoker_testkit.repositories.git_http_server import GitHttpServer
from stoker_testkit.secret_leaks.tracked_credentials import planted
from stoker_testkit.wait_until import eventually

PATIENCE = 60.0
NAME = "ignition-sync-fetcher-plant"
CLAIM = "ignition-sync-repo-plant"
TOKEN = planted("git-token")


class Plant:
    """A namespace with one resource that asks for a volume."""

    def __init__(self, cluster: ClusterAccess, namespace: str, git: GitHttpServer, folder: Path) -> None:
        self.cluster, self.namespace, self.git, self.folder = cluster, namespace, git, folder
        self.repository = Repository.create(git.root / "plant.git")
        self.repository.commit({"services/filler/projects/a/project.json": '{"title": "1"}'})
        git.users["x-access-token"] = TOKEN
        self.maps = ResourceMaps(cluster, namespace, kind=SyncResourceKind.IGNITION_SYNC)
        self.running: list[Process] = []
        cluster.kubectl(
            "-n", namespace, "create", "secret", "generic", "git", f"--from-literal=token={TOKEN}"
        )

    def apply(self, **spec: object) -> None:
        git = {
            "repo": self.git.url("plant.git"),
            "ref": "main",
            "auth": {"token": {"secretRef": {"name": "git", "key": "token"}}},
        }
        manifest = {
            "apiVersion": "sync.ignition.io/v1alpha1",
            "kind": "IgnitionSync",
            "metadata": {"name": "plant", "namespace": self.namespace},
            "spec": {"git": git, "polling": {"interval": "1s"}, "gateway": {"filesOnly": True}, **spec},
        }
        self.cluster.kubectl("apply", "--server-side", "-f", "-", stdin=json.dumps(manifest))

    def start_controller(self) -> None:
        flags = [
            f"--kubeconfig={self.cluster.kubeconfig()}",
            f"--watch-namespaces={self.namespace}",
            f"--lease-namespace={self.namespace}",
            "--shared-volumes",
            "--fetcher-pull-secret=registry",
            "--agent-image=registry.test/stoker:1.0",
        ]
        flags += [f"--{name}-bind-address=0" for name in ("health-probe", "metrics", "receiver")]
        self._run("controller", *flags, "--log-format=json", env=dict(os.environ))

    def start_fetcher(self, deployment: dict[str, Any]) -> Process:
        """As its pod says: account, arguments, variables, Secrets, and the claim as a folder."""
        pod = deployment["spec"]["template"]["spec"]
        root = self.folder / "fetcher"
        for folder in ("repo", "tmp"):
            (root / folder).mkdir(parents=True)
        for volume in pod["volumes"]:
            if "secret" in volume:
                mount = next(
                    one for one in pod["containers"][0]["volumeMounts"] if one["name"] == volume["name"]
                )
                place = root / mount["mountPath"].lstrip("/")
                place.mkdir(parents=True)
                for item in volume["secret"]["items"]:
                    (place / item["path"]).write_text(TOKEN)
        variables = {one["name"]: one.get("value", "x") for one in pod["containers"][0]["env"]}
        variables |= {"POD_NAMESPACE": self.namespace, "TMPDIR": str(root / "tmp")}
        account = self.cluster.service_account_kubeconfig(self.namespace, pod["serviceAccountName"])
        verb, *args = pod["containers"][0]["args"]
        self.health = free_port()
        flags = [f"--root={root}", f"--kubeconfig={account}", f"--health-address=127.0.0.1:{self.health}"]
        return self._run(verb, *args, *flags, "--metrics-address=0", env={**os.environ, **variables})

    def agent(self, name: str) -> AgentPod:
        """A gateway whose pod mounts the claim and no credential."""
        pod = AgentPod.create(
            self.folder / name,
            self.namespace,
            name=name,
            gateway=name,
            kind=SyncResourceKind.IGNITION_SYNC,
            annotations={"service-path": "services/filler"},
        )
        (pod.root / "shared-repo").symlink_to(self.folder / "fetcher/repo")
        self.running.append(pod.start(self.cluster.kubeconfig("admin", namespace=self.namespace)))
        return pod

    def find(self, path: str, name: str) -> dict[str, Any] | None:
        answer = self.cluster.request("GET", f"{path}/namespaces/{self.namespace}/{name}")
        found: Any = answer.json()
        return found if answer.status == 200 else None

    def deployment(self) -> dict[str, Any] | None:
        return self.find("/apis/apps/v1", f"deployments/{NAME}")

    def fetcher_log(self) -> str:
        return "\n".join(one.tail(40) for one in self.running)

    def stop(self) -> None:
        while self.running:
            self.running.pop().stop()

    def _run(self, verb: str, *flags: str, env: dict[str, str]) -> Process:
        log = self.folder / f"{verb}-{len(self.running)}.log"
        command = [sys.executable, "-m", "stoker", verb, *flags]
        self.running.append(Process.start(f"stoker {verb}", command, log=log, env=env))
        return self.running[-1]


@pytest.fixture
def plant(kinds: ClusterAccess, namespace: str, git_http: GitHttpServer, tmp_path: Path) -> Iterator[Plant]:
    made = Plant(kinds, namespace, git_http, tmp_path)
    yield made
    made.stop()


def provided(plant: Plant) -> dict[str, Any]:
    """The fetcher's Deployment, once all that belongs to it is there."""
    eventually(
        lambda: plant.find("/apis/rbac.authorization.k8s.io/v1", f"rolebindings/{NAME}"),
        PATIENCE,
        lambda: f"the fetcher is provided:\n{plant.fetcher_log()}",
    )
    found = plant.deployment()
    assert found is not None
    return found


def test_one_fetcher_fills_the_volume_of_all_gateways(plant: Plant) -> None:
    plant.apply(storage={"size": "3Gi"})
    plant.start_controller()
    deployment = provided(plant)
    claim = plant.find("/api/v1", f"persistentvolumeclaims/{CLAIM}")
    assert claim is not None
    assert claim["spec"]["accessModes"] == ["ReadWriteMany"]
    assert "storageClassName" not in claim["spec"]
    assert claim["metadata"]["labels"]["sync.ignition.io/cr-name"] == "plant"
    assert claim["metadata"]["ownerReferences"][0]["name"] == "plant"
    fetcher = plant.start_fetcher(deployment)
    pods = [plant.agent("line-1"), plant.agent("line-2")]
    for pod in pods:
        pod.until_file("projects/a/project.json", '{"title": "1"}', PATIENCE)
    second = plant.repository.commit({"services/filler/projects/a/project.json": '{"title": "2"}'})
    for pod in pods:
        pod.until_file("projects/a/project.json", '{"title": "2"}', PATIENCE)
        plant.maps.until_report(
            pod.gateway, sync_status=SyncState.SYNCED, synced_commit=second, patience=PATIENCE, pod=pod
        )
    for place in (*(plant.folder / "fetcher/repo").rglob("*"), fetcher.log):
        assert not place.is_file() or TOKEN.encode() not in place.read_bytes()


def test_an_agent_reports_that_it_waits_while_the_volume_is_not_filled(plant: Plant) -> None:
    plant.apply(storage={})
    plant.start_controller()
    deployment = provided(plant)
    (plant.folder / "fetcher/repo").mkdir(parents=True)
    pod = plant.agent("line-1")
    plant.maps.until_report("line-1", reason="SharedMirrorBehind", patience=PATIENCE, pod=pod)
    assert pod.file("projects/a/project.json") is None
    (plant.folder / "fetcher/repo").rmdir()
    plant.start_fetcher(deployment)
    pod.until_file("projects/a/project.json", '{"title": "1"}', PATIENCE)


def test_a_fetcher_passes_pod_security_and_goes_with_its_volume(plant: Plant) -> None:
    plant.apply(storage={"size": "1Gi"})
    plant.start_controller()
    template = provided(plant)["spec"]["template"]
    label = "pod-security.kubernetes.io/enforce=restricted"
    plant.cluster.kubectl("label", "namespace", plant.namespace, label)
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {**template["metadata"], "name": "x"}}
    answer = plant.cluster.request(
        "POST",
        f"/api/v1/namespaces/{plant.namespace}/pods?dryRun=All",
        {**body, "spec": template["spec"]},
    )
    assert answer.status == 201, answer.body
    assert "stoker.io/cr-name" not in template["metadata"]["labels"]
    assert template["spec"]["imagePullSecrets"] == [{"name": "registry"}]

    plant.cluster.request("DELETE", f"/apis/apps/v1/namespaces/{plant.namespace}/deployments/{NAME}")
    plant.apply(storage={"size": "2Gi"}, paused=True)
    plant.apply()
    for path, name in (
        ("/apis/rbac.authorization.k8s.io/v1", f"roles/{NAME}"),
        ("/apis/rbac.authorization.k8s.io/v1", f"rolebindings/{NAME}"),
        ("/apis/apps/v1", f"deployments/{NAME}"),
        ("/api/v1", f"serviceaccounts/{NAME}"),
    ):
        eventually(
            lambda path=path, name=name: plant.find(path, name) is None,  # type: ignore[misc]
            PATIENCE,
            lambda name=name: f"{name} goes:\n{plant.fetcher_log()}",  # type: ignore[misc]
        )


def test_a_fetcher_may_read_its_map_and_nothing_else(plant: Plant) -> None:
    plant.apply(storage={})
    plant.start_controller()
    provided(plant)
    who = f"system:serviceaccount:{plant.namespace}:{NAME}"

    def may(verb: str, what: str) -> bool:
        output = plant.cluster.kubectl(
            "-n", plant.namespace, "auth", "can-i", verb, what, f"--as={who}", check=False
        )
        return output.stdout.strip() == "yes"

    assert may("watch", "configmaps/ignition-sync-metadata-plant")
    assert not may("patch", "configmaps/ignition-sync-status-plant")
    assert not may("get", "configmaps/another")
    assert not may("get", "secrets/git")
