"""`stoker agent` as a process: beside a real API server, real git and the test gateway."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from stoker.agent.sidecar.gateway import FILES_ONLY_NOTE
from stoker.agent.sidecar.startup import MARKER
from stoker.api.agent_spec import AgentSpec, encode
from stoker.api.kinds.stoker import Stoker
from stoker.api.manifests.codec import from_wire
from stoker.api.to_intent import merge_spec
from stoker.domain.clock import SystemClock, rfc3339
from stoker.domain.intent.source import GitAuthKind, SecretKey
from stoker.domain.protocol import (
    AgentMetadata,
    GatewayReport,
    GatewayTarget,
    HeldProjectReport,
    RollbackReport,
    RollbackRequest,
    StatusKeyMode,
    SyncMode,
    SyncState,
    sign_data,
)
from stoker.domain.reasons import Reason
from stoker.domain.refs import CommitId, GitRef, RepoUrl
from stoker.domain.secrets import Secret
from stoker.ignition.sync.stored_inventory import StoredInventory
from stoker_testkit.cluster.cluster_access import ClusterAccess
from stoker_testkit.environments.agent_pod import AgentPod, ResourceMaps
from stoker_testkit.gateway.sessions import Designer
from stoker_testkit.gateway.settings import GatewaySettings
from stoker_testkit.gateway.simulated_gateway import KEY, SimulatedGateway
from stoker_testkit.repositories.bare_repository import Repository
from stoker_testkit.repositories.git_http_server import GitHttpServer
from stoker_testkit.repositories.sample_ignition_repository import resource
from stoker_testkit.secret_leaks.tracked_credentials import planted
from stoker_testkit.wait_until import eventually

PROJECT = "projects/filler/project.json"


def project(title: str) -> str:
    return json.dumps({"title": title})


class Plant:
    """One repository, one resource, its pod and its maps."""

    def __init__(self, cluster: ClusterAccess, namespace: str, git: GitHttpServer, tmp_path: Path) -> None:
        self.cluster, self.namespace, self.tmp_path = cluster, namespace, tmp_path
        self.repository = Repository.create(git.root / "plant.git")
        self.first = self.repository.commit({f"services/filler/{PROJECT}": project("One")})
        self.maps = ResourceMaps(cluster, namespace)
        self.kubeconfig = cluster.kubeconfig("admin", namespace=namespace)
        self.metadata = AgentMetadata(
            commit=self.first, ref=GitRef("main"), trigger="spec", git_url=RepoUrl(git.url("plant.git"))
        )
        self.pods: list[AgentPod] = []

    def pod(self, name: str = "gateway-0", gateway: str = "filler", **annotations: str) -> AgentPod:
        noted = {
            "service-path": "services/filler",
            **{key.replace("_", "-"): value for key, value in annotations.items()},
        }
        pod = AgentPod.create(
            self.tmp_path / name, self.namespace, name=name, gateway=gateway, annotations=noted
        )
        self.pods.append(pod)
        return pod

    def commit(self, title: str, **options: Any) -> CommitId:
        return self.repository.commit({f"services/filler/{PROJECT}": project(title)}, **options)

    def publish(self, **changes: Any) -> None:
        self.metadata = replace(self.metadata, **changes)
        self.maps.publish(self.metadata)

    def spec(self, spec: Mapping[str, object]) -> str:
        """The resource as the controller hands it on."""
        git = {"repo": str(self.metadata.git_url), "ref": "main"}
        meta = {"name": "plant", "namespace": self.namespace, "generation": 3}
        return encode(
            AgentSpec(
                merge_spec(from_wire({"metadata": meta, "spec": {"git": git, **spec}}, Stoker)).resource
            )
        )

    def stop(self) -> None:
        for pod in self.pods:
            pod.stop()


@pytest.fixture
def plant(kinds: ClusterAccess, namespace: str, git_http: GitHttpServer, tmp_path: Path) -> Iterator[Plant]:
    made = Plant(kinds, namespace, git_http, tmp_path)
    yield made
    made.stop()


def synced_to(plant: Plant, commit: CommitId, pod: AgentPod, key: str = "filler") -> GatewayReport:
    return plant.maps.until_report(
        key, sync_status=SyncState.SYNCED, synced_commit=commit, reason="", pod=pod
    )


def version_of_status(plant: Plant) -> str:
    path = f"/api/v1/namespaces/{plant.namespace}/configmaps/stoker-status-plant"
    answer: Any = plant.cluster.request("GET", path).json()
    return str(answer["metadata"]["resourceVersion"])


@pytest.mark.smoke
def test_the_first_sync_is_waited_for_and_the_map_is_followed_from_then_on(plant: Plant) -> None:
    pod = plant.pod()
    pod.start(plant.kubeconfig)
    assert pod.ask("/startupz")[0] == 503
    eventually(lambda: "MetadataNotFound" in pod.ask("/readyz")[1], message=lambda: pod.ask("/readyz")[1])
    assert pod.ask("/healthz")[0] == 200
    assert plant.maps.status() is None, "no map is made for a resource that may not exist"

    plant.publish()
    pod.until_file(PROJECT, project("One"))
    report = synced_to(plant, plant.first, pod)
    assert pod.ask("/startupz") == (200, "ok\n")
    assert pod.ask("/readyz") == (200, "ok\n")
    assert (report.files_added, report.projects_synced, report.ref) == (1, ("filler",), "main")
    assert (report.pod_name, report.namespace, report.service_path) == (
        "gateway-0",
        plant.namespace,
        "services/filler",
    )
    assert report.agent_version
    assert report.heartbeat_at

    second = plant.commit("Two")
    plant.publish(commit=second, trigger="webhook")
    pod.until_file(PROJECT, project("Two"))
    report = synced_to(plant, second, pod)
    assert [entry.commit for entry in report.history] == [second, plant.first]
    assert report.diff is not None
    assert (report.diff.from_commit, report.diff.to_commit) == (plant.first, second)
    assert 'result="done"' in pod.ask("/metrics")[1]

    before = version_of_status(plant)
    pod.annotate({"example.test/other": "noticed, and nothing to do"})
    plant.publish(trigger="polling")
    third = plant.commit("Three")
    assert version_of_status(plant) == before, "what changes nothing is not reported"
    plant.publish(commit=third)
    synced_to(plant, third, pod)
    labels: Any = plant.cluster.request(
        "GET", f"/api/v1/namespaces/{plant.namespace}/configmaps/stoker-status-plant"
    ).json()
    assert labels["metadata"]["labels"] == {"stoker.io/cr-name": "plant", "stoker.io/cr-kind": "Stoker"}


def test_the_pods_own_ref_wins_while_it_is_set_and_needs_no_restart(plant: Plant) -> None:
    pod = plant.pod(sync_period="1")
    plant.publish()
    pod.start(plant.kubeconfig)
    synced_to(plant, plant.first, pod)
    hotfix = plant.commit("Hotfix", branch="hotfix", onto=plant.first)
    pod.annotate({"ref-override": "hotfix"})
    report = synced_to(plant, hotfix, pod)
    assert (report.synced_ref, pod.file(PROJECT)) == ("hotfix", project("Hotfix"))
    again = plant.commit("Hotfix 2", branch="hotfix")
    synced_to(plant, again, pod)
    pod.annotate({"ref-override": None})
    synced_to(plant, plant.first, pod)
    pod.annotate({"ref-override": "--upload-pack=evil"})
    report = plant.maps.until_report(sync_status=SyncState.ERROR, reason=Reason.INVALID_VALUE, pod=pod)
    assert "stoker.io/ref-override" in report.error_message
    assert (report.synced_commit, pod.file(PROJECT)) == (plant.first, project("One"))


def profile(plant: Plant, name: str, destination: str, *others: str) -> None:
    """Maps the project to a destination, and each other file to where it is in the repository."""
    places = {PROJECT: destination} | {other: other for other in others}
    mappings = [
        {"source": f"services/filler/{source}", "destination": place, "type": "file"}
        for source, place in places.items()
    ]
    manifest = {
        "apiVersion": "stoker.io/v1alpha1",
        "kind": "SyncProfile",
        "metadata": {"name": name, "namespace": plant.namespace},
        "spec": {"mappings": mappings},
    }
    plant.cluster.kubectl("apply", "-f", "-", stdin=json.dumps(manifest))


def held_destination(plant: Plant, pod: AgentPod) -> str:
    """The digest of the plan that waits because it would empty a destination."""
    report = plant.maps.until_report(
        sync_status=SyncState.ERROR,
        reason=Reason.DESTINATION_UNMAPPED,
        pending_plan=lambda plan: plan is not None,
        pod=pod,
    )
    assert report.pending_plan is not None
    assert report.pending_plan.digest in report.error_message, "the sentence names the plan that waits"
    return report.pending_plan.digest


def test_a_profile_is_followed_when_it_changes_and_when_the_pod_names_another(plant: Plant) -> None:
    pod = plant.pod(sync_profile="line-a")
    plant.publish()
    pod.start(plant.kubeconfig)
    report = plant.maps.until_report(sync_status=SyncState.ERROR, reason=Reason.PROFILE_NOT_FOUND, pod=pod)
    assert "line-a" in report.error_message
    profile(plant, "line-a", "projects/a/project.json")
    pod.until_file("projects/a/project.json", project("One"))
    assert plant.maps.until_report(sync_status=SyncState.SYNCED, pod=pod).sync_profile_name == "line-a"
    profile(plant, "line-a", "projects/changed/project.json")
    digest = held_destination(plant, pod)
    assert pod.file("projects/a/project.json") == project("One"), "nothing is deleted"
    assert pod.file("projects/changed/project.json") is None, "and nothing written"
    pod.annotate({"approved-plan": digest})
    pod.until_file("projects/changed/project.json", project("One"))
    pod.until_file("projects/a/project.json", None)
    plant.maps.until_report(sync_status=SyncState.SYNCED, pending_plan=None, pod=pod)
    profile(plant, "line-b", "projects/b/project.json")
    pod.annotate({"sync-profile": "line-b"})
    newer = held_destination(plant, pod)
    assert newer != digest
    pod.annotate({"approved-plan": "0" * 64})
    plant.maps.until_report(error_message=lambda it: f"names another plan, {'0' * 64}" in it, pod=pod)
    assert pod.file("projects/changed/project.json") == project("One")
    pod.annotate({"approved-plan": newer})
    pod.until_file("projects/b/project.json", project("One"))
    plant.maps.until_report(sync_profile_name="line-b", sync_status=SyncState.SYNCED, pod=pod)
    plant.cluster.kubectl("-n", plant.namespace, "delete", "syncprofile", "line-b")
    plant.maps.until_report(sync_status=SyncState.ERROR, reason=Reason.PROFILE_NOT_FOUND, pod=pod)
    assert pod.file("projects/b/project.json") == project("One")


def test_pause_deletion_and_a_configmap_that_comes_back(plant: Plant) -> None:
    pod = plant.pod()
    plant.publish()
    pod.start(plant.kubeconfig)
    synced_to(plant, plant.first, pod)

    second = plant.commit("Two")
    plant.publish(commit=second, paused=True)
    plant.maps.until_report(reason=Reason.PAUSED, sync_status=SyncState.PENDING, pod=pod)
    assert pod.file(PROJECT) == project("One")
    plant.publish(paused=False)
    synced_to(plant, second, pod)

    plant.maps.withdraw()
    plant.maps.until_report(reason=Reason.METADATA_NOT_FOUND, synced_commit=second, pod=pod)
    assert pod.file(PROJECT) == project("Two")
    third = plant.commit("Three")
    plant.publish(commit=third)
    synced_to(plant, third, pod)

    fourth = plant.commit("Four")
    plant.publish(commit=fourth, terminating=True)
    plant.maps.until_report(terminating_ack=True, reason=Reason.TERMINATING, pod=pod)
    assert pod.file(PROJECT) == project("Three")
    plant.publish(terminating=False)
    report = synced_to(plant, fourth, pod)
    assert not report.terminating_ack


def test_a_plan_is_shown_and_carried_out_when_the_target_says_so(plant: Plant) -> None:
    pod = plant.pod()
    second = plant.commit("Two")
    plant.publish(commit=second, targets={"filler": GatewayTarget(plant.first, SyncMode.PLAN)})
    pod.start(plant.kubeconfig)
    synced_to(plant, plant.first, pod)  # a gateway's first files wait for no gate

    plant.publish(
        targets={"filler": GatewayTarget(second, SyncMode.PLAN), "other": GatewayTarget(plant.first)}
    )
    report = plant.maps.until_report(reason=Reason.PLAN_PENDING, sync_status=SyncState.PENDING, pod=pod)
    assert report.pending_plan is not None
    assert (report.pending_plan.commit, report.pending_plan.files_modified) == (second, 1)
    assert (report.synced_commit, pod.file(PROJECT)) == (plant.first, project("One"))

    plant.publish(targets={"filler": GatewayTarget(second, SyncMode.APPLY, report.pending_plan.digest)})
    report = synced_to(plant, second, pod)
    assert report.pending_plan is None


@pytest.mark.smoke
def test_a_plan_that_is_not_the_one_that_was_approved_is_shown_and_not_carried_out(plant: Plant) -> None:
    pod = plant.pod()
    plant.publish()
    pod.start(plant.kubeconfig)
    synced_to(plant, plant.first, pod)
    second = plant.commit("Two")
    plant.publish(commit=second, targets={"filler": GatewayTarget(second, SyncMode.APPLY, "f" * 64)})
    report = plant.maps.until_report(reason=Reason.PLAN_PENDING, sync_status=SyncState.PENDING, pod=pod)
    assert report.pending_plan is not None
    assert (report.pending_plan.commit, report.synced_commit) == (second, plant.first)
    assert "is not the one that was approved" in report.error_message
    assert pod.file(PROJECT) == project("One")
    plant.publish(targets={"filler": GatewayTarget(second, SyncMode.APPLY, report.pending_plan.digest)})
    synced_to(plant, second, pod)


@pytest.mark.smoke
def test_a_rollback_to_a_commit_is_done_once_and_reported(plant: Plant) -> None:
    pod = plant.pod()
    second = plant.commit("Two")
    plant.publish(commit=second)
    pod.start(plant.kubeconfig)
    synced_to(plant, second, pod)
    plant.publish(rollback=RollbackRequest("r-1", to_commit=plant.first))
    report = synced_to(plant, plant.first, pod)
    assert report.rollback == RollbackReport("r-1", "Succeeded", f"the files are at {plant.first.short}")
    plant.publish(rollback=RollbackRequest("r-2", to_snapshot="filler-20260212-103005"))
    report = plant.maps.until_report(rollback=lambda it: it is not None and it.id == "r-2", pod=pod)
    assert report.rollback is not None
    assert report.rollback.result == "Failed"
    assert "filler-20260212-103005" in report.rollback.message
    assert report.synced_commit == plant.first, "it follows nothing while a rollback is requested"
    plant.publish(rollback=None)
    synced_to(plant, second, pod)


def test_what_cannot_be_understood_is_named_and_changes_nothing(plant: Plant) -> None:
    pod = plant.pod()
    plant.publish()
    pod.start(plant.kubeconfig)
    synced_to(plant, plant.first, pod)
    second = plant.commit("Two")
    good = replace(plant.metadata, commit=second).data()
    for key, value in (
        ("agentSpec", '{"version": 1, "resource": {"kind": "Stoker", "spec": []}}'),
        ("agentSpec", "no JSON"),
        ("targets", '{"filler": {"commit": 7}}'),
        ("commit", "main"),
        ("gitURL", "--upload-pack=evil"),
    ):
        plant.maps.publish({**good, key: value})
        report = plant.maps.until_report(
            reason=Reason.METADATA_INVALID, error_message=lambda it, key=key: f"key {key}" in it, pod=pod
        )
        assert (report.sync_status, report.synced_commit) == (SyncState.ERROR, plant.first)
    plant.maps.publish({**good, "protocolVersion": "2"})
    plant.maps.until_report(reason=Reason.PROTOCOL_TOO_NEW, pod=pod)
    pod.rewrite_podinfo({"annotations": "no annotation at all"})
    plant.maps.publish(good)
    plant.maps.until_report(reason=Reason.INVALID_VALUE, error_message=lambda it: "line 1" in it, pod=pod)
    assert pod.file(PROJECT) == project("One")
    pod.annotate({})
    synced_to(plant, second, pod)
    assert pod.ask("/healthz")[0] == 200


def test_an_agent_in_a_pod_that_is_not_its_own_touches_nothing(plant: Plant) -> None:
    pod = plant.pod()
    plant.maps.prepare_status()
    plant.publish()
    pod.annotate({"cr-name": "another"})
    pod.start(plant.kubeconfig)
    report = plant.maps.until_report(
        "gateway-0", reason=Reason.WRONG_POD, sync_status=SyncState.ERROR, pod=pod
    )
    assert "another" in report.error_message
    assert "filler" not in (plant.maps.status() or {}), "the key belongs to another pod"
    assert list(pod.data_dir.iterdir()) == []
    assert "WrongPod" in pod.ask("/startupz")[1]
    pod.annotate({"cr-name": "plant"})
    synced_to(plant, plant.first, pod)
    eventually(lambda: "gateway-0" not in (plant.maps.status() or {}), message="the other key is removed")


def test_a_missing_credential_is_named_and_used_as_soon_as_it_is_mounted(
    plant: Plant, git_http: GitHttpServer
) -> None:
    git_http.users = {"x-access-token": planted("git-token")}
    pod = plant.pod()
    plant.publish(auth_type=GitAuthKind.TOKEN, auth_secret=SecretKey("git", "token"))
    pod.start(plant.kubeconfig)
    report = plant.maps.until_report(reason=Reason.SECRET_NOT_FOUND, sync_status=SyncState.ERROR, pod=pod)
    assert "'git'" in report.error_message
    assert "'token'" in report.error_message
    pod.mount("git-credentials", {"token": "wrong\n"})
    plant.maps.until_report(reason=Reason.SOURCE_AUTH_FAILED, pod=pod)
    pod.mount("git-credentials", {"token": planted("git-token") + "\n"})
    synced_to(plant, plant.first, pod)
    assert planted("git-token") not in json.dumps(pod.lines())
    assert planted("git-token") not in json.dumps(plant.maps.status())


def test_agents_that_report_at_once_lose_no_key(plant: Plant) -> None:
    second = plant.commit("Two")
    pods = [plant.pod(f"gateway-{number}", f"filler-{number}") for number in range(3)]
    plant.publish(status_shards={"filler-2": 1})
    for pod in pods:
        pod.start(plant.kubeconfig)
    for number, pod in enumerate(pods):
        shard = 1 if number == 2 else 0
        plant.maps.until_report(f"filler-{number}", shard=shard, synced_commit=plant.first, pod=pod)
    plant.publish(commit=second, status_shards={})
    for number, pod in enumerate(pods):
        plant.maps.until_report(f"filler-{number}", synced_commit=second, pod=pod)
    assert set(plant.maps.status() or {}) == {"filler-0", "filler-1", "filler-2"}
    eventually(lambda: plant.maps.status(1) == {}, message="the key has moved to the main map")
    plant.publish(status_key_mode=StatusKeyMode.POD)
    eventually(
        lambda: set(plant.maps.status() or {}) == {"gateway-0", "gateway-1", "gateway-2"},
        message=lambda: str(plant.maps.status()),
    )


@pytest.mark.smoke
def test_asked_to_end_it_finishes_says_so_and_goes_with_zero(plant: Plant) -> None:
    pod = plant.pod()
    plant.publish()
    process = pod.start(plant.kubeconfig)
    before = synced_to(plant, plant.first, pod)
    eventually(lambda: rfc3339(SystemClock().now()) > before.heartbeat_at, message="a second has passed")
    process.stop(30.0)
    assert process.returncode == 0
    report = plant.maps.report()
    assert report is not None
    assert report.heartbeat_at > before.heartbeat_at
    assert not [line for line in pod.lines() if line.get("level") == "error"]


@pytest.mark.smoke
def test_a_map_that_is_not_signed_with_the_mounted_key_is_not_followed(plant: Plant) -> None:
    pod = plant.pod()
    pod.mount("metadata-key", {"key": planted("map-key")})
    plant.publish()
    plant.maps.prepare_status()
    pod.start(plant.kubeconfig)
    plant.maps.until_report(reason=Reason.METADATA_NOT_TRUSTED, pod=pod)
    assert pod.file(PROJECT) is None
    name = f"{plant.namespace}/stoker-metadata-plant"
    key = Secret(planted("map-key"))
    earlier = sign_data(plant.metadata.data(), key, of=name, uid="u-1", sequence=1)
    plant.maps.publish(earlier)
    synced_to(plant, plant.first, pod)
    second = plant.commit("Two")
    now = replace(plant.metadata, commit=second)
    plant.maps.publish(sign_data(now.data(), key, of=name, uid="u-1", sequence=2))
    synced_to(plant, second, pod)
    plant.maps.publish(earlier)
    plant.maps.until_report(reason=Reason.METADATA_NOT_TRUSTED, pod=pod)
    assert pod.file(PROJECT) == project("Two"), "an earlier order that is put back is not followed"


def test_with_get_permission_alone_the_configmap_is_polled(plant: Plant) -> None:
    """The narrowest role there is: no list and no watch, and still every change arrives."""
    rules = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "patch", "create"]}]
    meta = {"name": "agent", "namespace": plant.namespace}
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": meta, "rules": rules}
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": meta,
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "agent"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "dave"}],
    }
    for manifest in (role, binding):
        plant.cluster.kubectl("apply", "-f", "-", stdin=json.dumps(manifest))
    pod = plant.pod(sync_period="1")
    plant.publish()
    pod.start(plant.cluster.kubeconfig("dave", namespace=plant.namespace))
    synced_to(plant, plant.first, pod)
    second = plant.commit("Two")
    plant.publish(commit=second)
    synced_to(plant, second, pod)
    assert pod.file(PROJECT) == project("Two")


@pytest.mark.smoke
def test_a_plan_beyond_the_budget_waits_for_its_approval(plant: Plant) -> None:
    many = {f"services/filler/projects/filler/v{number}.txt": "x" for number in range(60)}
    first = plant.repository.commit(many)
    pod = plant.pod()
    plant.publish(commit=first)
    pod.start(plant.kubeconfig)
    synced_to(plant, first, pod)
    gone = plant.repository.commit(dict.fromkeys(many))
    plant.publish(commit=gone)
    report = plant.maps.until_report(
        reason=Reason.DELETION_BUDGET_EXCEEDED, pending_plan=lambda it: it is not None, pod=pod
    )
    assert report.pending_plan is not None
    assert report.pending_plan.files_deleted == 60
    assert pod.file("projects/filler/v59.txt") == "x"
    pod.annotate({"approved-plan": report.pending_plan.digest})
    report = synced_to(plant, gone, pod)
    assert report.files_deleted == 60
    plant.publish(commit=plant.repository.commit(many))
    pod.until_file("projects/filler/v59.txt", "x")
    plant.publish(commit=plant.repository.commit(dict.fromkeys(many)))
    again = plant.maps.until_report(
        reason=Reason.DELETION_BUDGET_EXCEEDED, pending_plan=lambda it: it is not None, pod=pod
    )
    assert "its approval was used" in again.error_message, "the annotation is still there, and counts once"
    assert pod.file("projects/filler/v59.txt") == "x"


def test_a_mapping_that_gives_nothing_any_more_waits_for_its_approval(plant: Plant) -> None:
    other = "services/filler/projects/other/project.json"
    both = plant.repository.commit({other: project("Other")})
    profile(plant, "line-a", PROJECT, other.removeprefix("services/filler/"))
    pod = plant.pod(sync_profile="line-a")
    plant.publish(commit=both)
    pod.start(plant.kubeconfig)
    synced_to(plant, both, pod)
    gone = plant.repository.commit({other: None})
    plant.publish(commit=gone)
    report = plant.maps.until_report(
        reason=Reason.SOURCE_EMPTY, pending_plan=lambda it: it is not None, pod=pod
    )
    assert report.pending_plan is not None
    assert (report.pending_plan.reason, report.pending_plan.files_deleted) == (Reason.SOURCE_EMPTY, 1)
    assert pod.file("projects/other/project.json") == project("Other")
    pod.annotate({"approved-plan": report.pending_plan.digest})
    synced_to(plant, gone, pod)
    assert pod.file("projects/other/project.json") is None


@pytest.mark.smoke
def test_files_of_others_are_kept_until_their_plan_is_approved(plant: Plant) -> None:
    pod = plant.pod()
    stranger = pod.data_dir / "projects/filler/stranger.txt"
    stranger.parent.mkdir(parents=True)
    stranger.write_text("not ours")
    plant.publish(agent_spec=plant.spec({"orphans": "mirror"}))
    pod.start(plant.kubeconfig)
    synced_to(plant, plant.first, pod)
    second = plant.commit("Two")
    plant.publish(commit=second)
    report = synced_to(plant, second, pod)
    assert (report.orphans_kept, report.orphans_kept_total) == (("projects/filler/stranger.txt",), 1)
    assert report.pending_plan is not None
    pod.annotate({"approved-plan": report.pending_plan.digest})
    report = plant.maps.until_report(orphans_kept_total=0, sync_status=SyncState.SYNCED, pod=pod)
    assert (report.pending_plan, report.files_deleted, stranger.exists()) == (None, 1, False)


def test_by_default_files_of_others_stay_and_count_as_drift_also_where_drift_is_restored(
    plant: Plant,
) -> None:
    pod = plant.pod()
    plant.publish(agent_spec=plant.spec({"drift": {"mode": "restore", "interval": "1s"}}))
    pod.start(plant.kubeconfig)
    synced_to(plant, plant.first, pod)
    stranger = pod.data_dir / "projects/filler/stranger.txt"
    stranger.write_text("not ours")
    (pod.data_dir / PROJECT).write_text("edited")
    pod.until_file(PROJECT, project("One"))

    report = plant.maps.until_report(
        sync_status=SyncState.SYNCED,
        drift=lambda drift: drift is not None and drift.paths == ("projects/filler/stranger.txt",),
        pod=pod,
    )
    assert stranger.read_text() == "not ours"
    assert report.pending_plan is None


def test_a_gateway_that_was_synced_before_starts_after_its_budget(plant: Plant) -> None:
    pod = plant.pod()
    spec = plant.spec({"agent": {"startupBudget": "3s"}, "gateway": {"filesOnly": True}})
    plant.publish(agent_spec=spec)
    pod.start(plant.kubeconfig)
    synced_to(plant, plant.first, pod)
    pod.stop()
    (pod.root / "tmp" / MARKER).unlink()  # a new pod over the same data volume
    plant.publish(paused=True)
    pod.start(plant.kubeconfig)
    eventually(lambda: "paused" in pod.ask("/startupz")[1], message="the probe says why")
    eventually(lambda: pod.ask("/startupz")[0] == 200, 15.0, lambda: pod.ask("/startupz")[1])
    fresh = plant.pod("gateway-1", "labeller")
    fresh.start(plant.kubeconfig)
    plant.maps.until_report("labeller", reason=Reason.PAUSED, pod=fresh)
    eventually(lambda: pod.ask("/readyz")[0] == 200, message="the one with files goes on")
    assert fresh.ask("/startupz")[0] == 503, "without any files it waits for as long as it takes"


def test_an_agent_that_asks_no_gateway_leaves_out_what_the_gateway_reported_before(plant: Plant) -> None:
    types = "config/resources/core/ignition/tag-type-definition"
    files = {f"{types}/{provider}/udts.json": "[]" for provider in ("default", "MQTT Engine")}
    first = plant.repository.commit({f"services/filler/{path}": text for path, text in files.items()})
    pod = plant.pod()
    state = pod.data_dir / ".sync-state"
    state.mkdir(mode=0o700, parents=True)
    (state / "told").write_bytes(StoredInventory(managed=frozenset({"MQTT Engine"})).content)
    plant.publish(commit=first, agent_spec=plant.spec({"gateway": {"filesOnly": True}}))
    pod.start(plant.kubeconfig)
    report = synced_to(plant, first, pod)
    assert pod.file(f"{types}/default/udts.json") == "[]"
    assert not (pod.data_dir / types / "MQTT Engine").exists()
    assert (state / "scan-owed").exists(), "the gateway is asked to scan when it is asked again"
    assert FILES_ONLY_NOTE in report.warnings


def test_an_init_container_ends_with_the_first_sync(plant: Plant) -> None:
    pod = plant.pod()
    plant.publish()
    process = pod.start(plant.kubeconfig, "--initial-sync")
    assert process.wait(30.0), pod.tail()
    assert process.returncode == 0
    assert pod.file(PROJECT) == project("One")
    assert plant.maps.until_report(sync_status=SyncState.SYNCED).synced_commit == plant.first
    assert (pod.root / "tmp" / MARKER).exists()


def views(number: int) -> dict[str, str]:
    """A project with a resource, as a gateway loads it."""
    files = {f"services/filler/{PROJECT}": project(f"Version {number}")}
    for name, text in resource({"view.json": json.dumps({"version": number})}).items():
        files[f"services/filler/projects/filler/views/main/{name}"] = text
    return files


@pytest.mark.smoke
def test_the_gateway_is_left_alone_at_first_and_then_locked_scanned_and_verified(plant: Plant) -> None:
    pod = plant.pod()
    first = plant.repository.commit(views(1))
    with SimulatedGateway.start(pod.data_dir, scan_seconds=0.0) as gateway:
        port = urlsplit(gateway.url).port
        spec = plant.spec(
            {"gateway": {"port": port, "tls": False, "apiKeySecretRef": {"name": "gw", "key": "key"}}}
        )
        plant.publish(commit=first, agent_spec=spec)
        pod.start(plant.kubeconfig)
        pod.until_file(PROJECT, project("Version 1"))
        eventually(lambda: pod.ask("/startupz")[0] == 200, message=lambda: pod.ask("/startupz")[1])

        second = plant.repository.commit(views(2))
        plant.publish(commit=second)
        report = plant.maps.until_report(
            sync_status=SyncState.ERROR, reason=Reason.SECRET_NOT_FOUND, commit=second, pod=pod
        )
        assert "'gw'" in report.error_message
        assert report.synced_commit == first, "without a key the gateway is not asked, and nothing is written"
        assert pod.file(PROJECT) == project("Version 1")

        pod.mount("api-key", {"key": KEY})
        report = plant.maps.until_report(
            sync_status=SyncState.SYNCED, synced_commit=second, verified=True, pod=pod
        )
        assert (report.applied, report.scan_result) == (True, "projects=200 config=200")
        third = plant.repository.commit(views(3))
        plant.publish(commit=third)
        plant.maps.until_report(sync_status=SyncState.SYNCED, synced_commit=third, verified=True, pod=pod)
        assert gateway.asked("POST", "/scan-lock/projects")
        assert not gateway.stale()
        assert KEY.partition(":")[2] not in json.dumps([pod.lines(), plant.maps.status()])

        pod.stop()
        scans = len(gateway.asked("POST", "/scan/projects"))
        fourth = plant.repository.commit(views(4))
        plant.publish(commit=fourth)
        pod.start(plant.kubeconfig)  # the container again, beside the same gateway
        assert pod.ask("/startupz")[0] == 200
        report = plant.maps.until_report(
            sync_status=SyncState.SYNCED, synced_commit=fourth, verified=True, pod=pod
        )
        assert len(gateway.asked("POST", "/scan/projects")) > scans
        assert len(report.history) >= 4, "what was reported before the restart is not forgotten"


def test_a_project_that_a_designer_edits_is_held_and_drift_is_reported(plant: Plant) -> None:
    pod = plant.pod(sync_period="1")
    first = plant.repository.commit(views(1))
    pod.mount("api-key", {"key": KEY})
    plant.publish(commit=first)
    pod.start(plant.kubeconfig)
    synced_to(plant, first, pod)
    with SimulatedGateway.start(pod.data_dir, scan_seconds=0.0) as gateway:
        access = {"port": urlsplit(gateway.url).port, "tls": False}
        key = {"apiKeySecretRef": {"name": "gw", "key": "key"}}
        spec = plant.spec({"gateway": {**access, **key}, "drift": {"mode": "report", "interval": "1s"}})
        gateway.open_designer(Designer("d1", "alice", "filler"))
        other = {"services/filler/projects/other/project.json": project("Other")}
        second = plant.repository.commit({**views(2), **other})
        plant.publish(commit=second, agent_spec=spec)
        report = plant.maps.until_report(reason=Reason.DESIGNER_SESSION_ACTIVE, pod=pod)
        assert (report.sync_status, report.synced_commit, report.commit) == (
            SyncState.SYNCING,
            first,
            second,
        )
        assert report.held_projects == (HeldProjectReport("filler", "alice"),)
        assert pod.file("projects/other/project.json") == project("Other"), (
            "a project without a Designer goes on"
        )
        assert pod.file(PROJECT) == project("Version 1")
        entries = len(report.history)
        gateway.close_designer("d1")
        report = plant.maps.until_report(sync_status=SyncState.SYNCED, synced_commit=second, pod=pod)
        assert (report.held_projects, pod.file(PROJECT)) == ((), project("Version 2"))
        assert len(report.history) == entries + 1, "waiting adds nothing"

        (pod.data_dir / PROJECT).write_text("edited by hand")
        report = plant.maps.until_report(drift=lambda it: it is not None, pod=pod)
        assert report.drift is not None
        assert (report.drift.files, report.drift.paths) == (1, (PROJECT,))
        assert pod.file(PROJECT) == "edited by hand"
        (pod.data_dir / PROJECT).write_text(project("Version 2"))
        plant.maps.until_report(drift=None, pod=pod)


def test_reported_drift_is_gone_when_it_has_been_restored(plant: Plant) -> None:
    pod = plant.pod(sync_period="1")
    plant.publish(agent_spec=plant.spec({"drift": {"mode": "report", "interval": "1s"}}))
    pod.start(plant.kubeconfig)
    synced_to(plant, plant.first, pod)
    before = pod.file(PROJECT)
    (pod.data_dir / PROJECT).write_text("edited by hand")
    plant.maps.until_report(drift=lambda it: it is not None, pod=pod)
    plant.publish(agent_spec=plant.spec({"drift": {"mode": "restore", "interval": "1s"}}))
    report = plant.maps.until_report(drift=None, drift_restored=lambda it: it is not None, pod=pod)
    assert report.drift_restored is not None
    assert (report.drift_restored.files, report.drift_restored.paths) == (1, (PROJECT,))
    assert pod.file(PROJECT) == before


def test_a_backup_waits_for_its_primary_and_goes_on_without_one_that_is_gone(plant: Plant) -> None:
    pod = plant.pod(sync_period="1", redundancy_role="backup", peer_gateway_name="primary")
    plant.publish()
    pod.start(plant.kubeconfig)
    synced_to(plant, plant.first, pod)  # its files are there before it is started, whatever the primary does

    def primary(commit: str) -> None:
        heartbeat = rfc3339(SystemClock().now())
        report = GatewayReport("primary", synced_commit=commit, applied=True, heartbeat_at=heartbeat)
        data = {"data": {"primary": report.json()}}
        patch = ["patch", "configmap", "stoker-status-plant", "--type=merge", "-p", json.dumps(data)]
        plant.cluster.kubectl("-n", plant.namespace, *patch)

    primary(plant.first)
    second = plant.commit("Two")
    plant.publish(commit=second)
    report = plant.maps.until_report(reason=Reason.WAITING_FOR_PRIMARY, pod=pod)
    assert (report.sync_status, pod.file(PROJECT)) == (SyncState.PENDING, project("One"))
    primary(second)
    synced_to(plant, second, pod)

    plant.cluster.kubectl(
        "-n", plant.namespace, "patch", "configmap", "stoker-status-plant", "--type=json",
        "-p", '[{"op": "remove", "path": "/data/primary"}]',
    )  # fmt: skip
    third = plant.commit("Three")
    plant.publish(commit=third)
    report = synced_to(plant, third, pod)
    assert any("syncs by itself" in warning for warning in report.warnings)
    # It also goes by itself before it first hears of a primary, if it looks that early.
    promoted = [line["level"] for line in pod.logged("redundancy.promoted")]
    assert promoted == ["warning"] * (1 + len(pod.logged("redundancy.demoted")))


def test_what_the_gateways_modules_fill_is_left_out_and_named_and_remembered(plant: Plant) -> None:
    pod = plant.pod(sync_period="1")
    pod.mount("api-key", {"key": KEY})
    (pod.root / "tmp" / MARKER).touch()  # beside a gateway that runs
    types = "config/resources/core/ignition/tag-type-definition"

    def commit(name: str) -> CommitId:
        udts = json.dumps([{"name": name, "tagType": "UdtType"}])
        return plant.repository.commit(
            {
                f"services/filler/{types}/{provider}/{file}": text
                for provider in ("default", "MQTT Engine")
                for file, text in resource({"udts.json": udts}).items()
            }
        )

    first = commit("Motor")
    settings = GatewaySettings(managed_providers=("MQTT Engine",))
    with SimulatedGateway.start(pod.data_dir, scan_seconds=0.0, settings=settings) as gateway:
        port = urlsplit(gateway.url).port
        access = {"port": port, "tls": False, "apiKeySecretRef": {"name": "gw", "key": "key"}}
        plant.publish(commit=first, agent_spec=plant.spec({"gateway": access}))
        pod.start(plant.kubeconfig)
        report = plant.maps.until_report(synced_commit=first, verified=True, pod=pod)
        assert "filled by modules and not synced: tag provider MQTT Engine" in report.warnings
        assert pod.file(f"{types}/default/udts.json")
        assert pod.file(f"{types}/MQTT Engine/udts.json") is None
        pod.stop()
    second = commit("Pump")
    plant.publish(commit=second)
    pod.start(plant.kubeconfig)  # the gateway is gone, and so is the process that knew its inventory
    plant.maps.until_report(reason=Reason.GATEWAY_UNREACHABLE, commit=second, pod=pod)
    assert pod.file(f"{types}/MQTT Engine/udts.json") is None
