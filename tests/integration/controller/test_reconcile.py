"""Resources, pods and agents as users meet them, with a real controller on a real API server.

The controller runs as an account with exactly the rules that it needs. Pods are objects
without a node; what their agents say is applied as the real agent applies it.
"""

from __future__ import annotations

import json
import os
import signal
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stoker.domain.intent.intent import SyncResourceKind
from stoker.domain.protocol import StatusKeyMode, SyncState
from stoker.domain.refs import CommitId
from stoker_testkit.chart.controller_rbac import CONTROLLER, controller_rules
from stoker_testkit.cluster.cluster_access import ClusterAccess
from stoker_testkit.environments.controller_environment import PATIENCE, Site
from stoker_testkit.processes import free_ports
from stoker_testkit.repositories.bare_repository import Repository
from stoker_testkit.repositories.git_http_server import GitHttpServer
from stoker_testkit.secret_leaks.tracked_credentials import planted
from stoker_testkit.wait_until import eventually

STOKER, IGNITION_SYNC = SyncResourceKind.STOKER, SyncResourceKind.IGNITION_SYNC


@pytest.fixture
def site(kinds: ClusterAccess, namespace: str, tmp_path: Path) -> Iterator[Site]:
    made = Site.prepare(kinds, namespace, tmp_path)
    yield made
    made.stop()


@pytest.fixture
def plant(repositories: Path, git_http: GitHttpServer) -> Repository:
    repository = Repository.create(repositories / "plant.git")
    repository.commit({"services/site/projects/site/project.json": "{}"})
    return repository


@pytest.fixture
def url(git_http: GitHttpServer) -> str:
    return git_http.url("plant.git")


def git(url: str, ref: str = "main", **more: object) -> dict[str, object]:
    return {"repo": url, "ref": ref, **more}


def commit_to(plant: Repository, text: str) -> CommitId:
    return plant.commit({"README.md": text})


FAST = {"interval": "1s"}


@pytest.mark.smoke
def test_a_resource_gets_its_finalizer_its_maps_and_its_agents_their_rights(
    site: Site, plant: Repository, url: str
) -> None:
    site.secret("gateway", apiKey=f"name:{planted('gateway-key')}")
    site.apply(
        "IgnitionSync",
        "line",
        git=git(url),
        gateway={"apiKeySecretRef": {"name": "gateway", "key": "apiKey"}},
        siteNumber="7",
    )
    site.pod("gateway-0", "line", kind=IGNITION_SYNC, account="ignition", ready=False)
    site.start("--cluster-name=north")
    metadata = site.until_metadata("line", IGNITION_SYNC, commit=plant.tip())
    resource = site.get("IgnitionSync", "line")
    assert resource["metadata"]["finalizers"] == ["sync.ignition.io/finalizer"]

    assert (metadata.ref, metadata.trigger, metadata.git_url) == ("main", "spec", url)
    assert (metadata.gateway_port, metadata.gateway_tls, metadata.paused, metadata.terminating) == (
        8043,
        True,
        False,
        False,
    )
    assert metadata.api_key is not None
    assert (metadata.api_key.name, metadata.api_key.key) == ("gateway", "apiKey")
    assert "**/.resources/**" in metadata.exclude_patterns
    spec = json.loads(metadata.agent_spec)
    assert (spec["clusterName"], spec["resource"]["spec"]["siteNumber"]) == ("north", "7")

    for name in ("ignition-sync-metadata-line", "ignition-sync-status-line"):
        meta = site.get("ConfigMap", name)["metadata"]
        assert meta["labels"] == {"stoker.io/cr-name": "line", "stoker.io/cr-kind": "IgnitionSync"}
        assert [owner["uid"] for owner in meta["ownerReferences"]] == [resource["metadata"]["uid"]]

    eventually(lambda: site.get("RoleBinding", "ignition-sync-agent-line"), PATIENCE, "a binding")
    binding = site.get("RoleBinding", "ignition-sync-agent-line")
    assert [one["name"] for one in binding["subjects"]] == ["ignition"], "also for a pod that has not started"
    rules = site.get("Role", "ignition-sync-agent-line")["rules"]
    assert not any("secrets" in rule["resources"] for rule in rules)
    assert all(rule.get("resourceNames") for rule in rules if "configmaps" in rule["resources"])
    assert binding["metadata"]["ownerReferences"][0]["uid"] == resource["metadata"]["uid"]

    second = site.pod("gateway-1", "line", kind=IGNITION_SYNC, account="second")
    eventually(
        lambda: len(site.get("RoleBinding", "ignition-sync-agent-line")["subjects"]) == 2, PATIENCE, "both"
    )
    second.delete()
    eventually(
        lambda: len(site.get("RoleBinding", "ignition-sync-agent-line")["subjects"]) == 1, PATIENCE, "one"
    )


@pytest.mark.smoke
def test_an_agent_may_do_exactly_what_it_needs(site: Site, plant: Repository, url: str) -> None:
    site.post("/api/v1", "serviceaccounts", {"metadata": {"name": "ignition"}})
    site.apply("Stoker", "line", git=git(url))
    site.pod("gateway-0", "line", account="ignition")
    site.start()
    eventually(lambda: site.get("RoleBinding", "stoker-agent-line"), PATIENCE, "a binding", interval=0.1)
    allowed = {
        "get configmap/stoker-metadata-line": "yes",
        "watch configmap/stoker-metadata-line": "yes",
        "patch configmap/stoker-metadata-line": "no",
        "patch configmap/stoker-status-line": "yes",
        "patch configmap/stoker-status-other": "no",
        "create configmaps": "no",
        "get secrets": "no",
        "list syncprofiles.stoker.io": "yes",
        "get stokers.stoker.io": "no",
    }
    who = f"--as=system:serviceaccount:{site.namespace}:ignition"
    asked = {
        words: site.cluster.kubectl(
            "-n", site.namespace, "auth", "can-i", *words.split(), who, check=False
        ).stdout.strip()
        for words in allowed
    }
    assert asked == allowed


@pytest.mark.smoke
def test_reports_become_status_conditions_and_events(site: Site, plant: Repository, url: str) -> None:
    site.apply("Stoker", "line", git=git(url), polling=FAST)
    site.start()
    site.until("Stoker", "line", "AllGatewaysSynced", "NoGateways")
    assert site.condition("Stoker", "line", "AllGatewaysSynced") == (
        "True",
        "NoGateways",
        "0 of 0 gateways synced",
    )
    assert site.condition("Stoker", "line", "Ready")[:2] == ("True", "RefResolved")

    north = site.pod("north-0", "line", gateway="north", ready=False)
    south = site.pod("south-0", "line", gateway="south")
    site.until("Stoker", "line", "Ready", "GatewaysSyncing")
    eventually(
        lambda: site.condition("Stoker", "line", "Ready")[2].startswith("0 of 2 gateways synced"),
        PATIENCE,
        "both are missing",
    )
    site.until("Stoker", "line", "AgentReady", "AgentStarting")
    north.is_ready(True)
    site.until("Stoker", "line", "AgentReady", "AgentHealthy")

    first = plant.tip()
    south.report(first, verified=True, projects_synced=("site",))
    message = site.until("Stoker", "line", "Verified", "Verified")
    eventually(
        lambda: site.condition("Stoker", "line", "AllGatewaysSynced")[2].startswith("1 of 2"),
        PATIENCE,
        "one of them is done",
    )
    assert "north" in site.condition("Stoker", "line", "AllGatewaysSynced")[2]
    north.report(first, synced_at="2026-03-02T08:15:00Z", duration="1.5s")
    assert site.until("Stoker", "line", "Ready", "GatewaysSynced").startswith("2 of 2 gateways synced")
    status = site.status("Stoker", "line")
    assert [one["name"] for one in status["discoveredGateways"]] == ["north", "south"]
    assert status["lastSyncTime"] == "2026-03-02T08:15:00Z"
    assert (status["lastSyncCommit"], status["lastSyncRef"]) == (first, "main")
    site.until_event("SyncCompleted", f"Gateway north synced to {first[:8]} (3 files changed)")
    site.until_event("SyncCompleted", f"2 gateways synced to {first[:8]}")

    second = commit_to(plant, "two")
    site.until_metadata("line", commit=second, trigger="polling")
    site.until("Stoker", "line", "Ready", "GatewaysSyncing")
    site.until_event("RefUpdated", f"to {second[:8]} (main), found by polling")
    north.report(
        second,
        SyncState.ERROR,
        reason="SourceEmpty",
        error_message="the source services/site is missing",
        synced_commit=first,
    )
    south.report(second, drift=None)
    message = site.until("Stoker", "line", "Ready", "SyncFailed")
    assert message.startswith("1 of 2 gateways synced")
    assert "north failed (SourceEmpty: the source services/site is missing)" in message
    site.until_event("SyncFailed", "Gateway north sync failed: the source services/site is missing")

    north.is_ready(False)
    site.until("Stoker", "line", "AgentReady", "AgentUnreachable")
    south.delete()
    eventually(
        lambda: len(site.status("Stoker", "line")["discoveredGateways"]) == 1, PATIENCE, "south is gone"
    )


@pytest.mark.smoke
def test_a_missing_secret_is_named_and_its_fix_is_noticed_by_the_watch(
    site: Site, plant: Repository, url: str
) -> None:
    key = {"apiKeySecretRef": {"name": "gateway", "key": "apiKey"}}
    token = {"token": {"secretRef": {"name": "forge", "key": "token"}}}
    rarely = {"interval": "1h"}  # the watch of the Secrets notices a fix, not the next poll
    site.apply("Stoker", "shut", git=git(url, auth=token), polling=rarely)
    site.apply("Stoker", "keyless", git=git(url), gateway=key, polling=rarely)
    site.apply("Stoker", "well", git=git(url))
    site.apply("Stoker", "called", git=git(url), webhook={"secretRef": {"name": "hook", "key": "hmac"}})
    site.start()
    site.until("Stoker", "well", "Ready", "RefResolved")
    assert "Secret 'forge' does not exist" in site.until("Stoker", "shut", "Ready", "SecretNotFound")
    assert "Secret 'gateway' does not exist" in site.until("Stoker", "keyless", "Ready", "SecretNotFound")
    assert "Secret 'hook' does not exist" in site.until("Stoker", "called", "Ready", "SecretNotFound")
    site.until_event("SecretNotFound", "'forge'")
    assert site.until_metadata("keyless", commit=plant.tip()), "the fleet learns the commit all the same"

    site.secret("gateway", wrong="x")
    eventually(
        lambda: "no key 'apiKey'" in site.condition("Stoker", "keyless", "Ready")[2],
        PATIENCE,
        "the key is missed now",
        interval=0.1,
    )
    site.patch(
        site.path_of("Secret", "gateway"), {"stringData": {"apiKey": f"name:{planted('gateway-key')}"}}
    )
    site.until("Stoker", "keyless", "Ready", "RefResolved")
    site.secret("forge", token=planted("git-token"))
    site.until("Stoker", "shut", "Ready", "RefResolved")


def test_a_storage_class_a_profile_and_a_circle_are_named(site: Site, plant: Repository, url: str) -> None:
    site.cluster.kubectl("create", "-f", "-", stdin=json.dumps(_cluster_role(site)))
    site.cluster.kubectl("create", "-f", "-", stdin=json.dumps(_cluster_binding(site)))
    site.grant("volumes", CONTROLLER, controller_rules(shared_volumes=True).watched)
    gateway = {"filesOnly": True}
    site.apply("IgnitionSync", "big", git=git(url), gateway=gateway, storage={"storageClassName": "efs-sc"})
    site.apply(
        "IgnitionSync", "single", git=git(url), gateway=gateway, storage={"accessMode": "ReadWriteOnce"}
    )
    for name in ("one", "two"):
        site.pod(f"single-{name}", "single", kind=IGNITION_SYNC)
    site.apply("Stoker", "line", git=git(url))
    site.pod("lost", "line", profile="no-such")
    site.start("--shared-volumes", "--agent-image=registry.test/stoker:2")
    assert "'efs-sc'" in site.until("IgnitionSync", "big", "Ready", "StorageClassNotFound")
    message = site.until("IgnitionSync", "single", "Ready", "InvalidAccessMode")
    assert "single-one, single-two" in message
    message = site.until("Stoker", "line", "Ready", "ProfileNotFound")
    assert f"{site.namespace}/no-such" in message

    mapping = [{"source": "a", "destination": "projects"}]
    site.apply("SyncProfile", "no-such", mappings=mapping, dependsOn=[{"profileName": "other"}])
    site.apply("SyncProfile", "other", mappings=mapping, dependsOn=[{"profileName": "no-such"}])
    message = site.until("Stoker", "line", "Ready", "DependencyCycle")
    assert "waits for" in message
    site.until("SyncProfile", "other", "Ready", "DependencyCycle")
    site.apply("SyncProfile", "other", mappings=mapping)
    site.until("SyncProfile", "other", "Ready", "ProfileUsable")
    site.until("Stoker", "line", "Ready", "GatewaysSyncing")


def _cluster_role(site: Site) -> dict[str, Any]:
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": site.namespace},
        "rules": list(controller_rules().cluster),
    }


def _cluster_binding(site: Site) -> dict[str, Any]:
    subject = {"kind": "ServiceAccount", "name": "stoker-controller", "namespace": site.namespace}
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": site.namespace},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": site.namespace},
        "subjects": [subject],
    }


def test_a_volume_is_made_for_a_resource_that_asks_for_one_and_goes_when_it_no_longer_does(
    site: Site, plant: Repository, url: str
) -> None:
    site.grant("volumes", CONTROLLER, controller_rules(shared_volumes=True).watched)
    asked = {"size": "2Gi", "accessMode": "ReadWriteMany", "storageClassName": ""}
    site.apply("IgnitionSync", "line", git=git(url), gateway={"filesOnly": True}, storage=asked)
    site.start("--shared-volumes", "--agent-image=registry.test/stoker:2")
    name = "ignition-sync-repo-line"
    eventually(lambda: site.get("PersistentVolumeClaim", name), PATIENCE, "a claim", interval=0.1)
    claim = site.get("PersistentVolumeClaim", name)
    assert claim["spec"]["accessModes"] == ["ReadWriteMany"]
    assert claim["spec"]["resources"]["requests"]["storage"] == "2Gi"
    assert "storageClassName" not in claim["spec"], "written down it would turn provisioning off"
    labels = claim["metadata"]["labels"]
    assert labels["app.kubernetes.io/managed-by"] == "ignition-sync-controller"
    assert labels["sync.ignition.io/cr-name"] == "line"
    uid = site.get("IgnitionSync", "line")["metadata"]["uid"]
    assert [owner["uid"] for owner in claim["metadata"]["ownerReferences"]] == [uid]
    assert "without effect" not in site.until("IgnitionSync", "line", "Ready", "RefResolved")

    site.patch(site.path_of("IgnitionSync", "line"), {"spec": {"storage": None}})
    eventually(
        lambda: site.get("PersistentVolumeClaim", name).get("metadata", {}).get("deletionTimestamp", "gone"),
        PATIENCE,
        "the claim is deleted",
        interval=0.1,
    )


def test_a_deleted_resource_waits_for_its_agents_and_no_longer(
    site: Site, plant: Repository, url: str
) -> None:
    for name in ("heard", "silent", "lonely"):
        site.apply("Stoker", name, git=git(url))
    heard = site.pod("heard-0", "heard")
    site.pod("silent-0", "silent")
    site.start()
    for name in ("heard", "silent", "lonely"):
        site.until_metadata(name, commit=plant.tip())
    for name in ("heard", "silent", "lonely"):
        site.delete("Stoker", name)
    began = time.monotonic()
    eventually(lambda: not site.get("Stoker", "lonely"), PATIENCE, "there is no agent to wait for")
    site.until_metadata("heard", terminating=True)
    assert site.get("Stoker", "heard"), "its agent has not answered"
    heard.report(plant.tip(), terminating_ack=True)
    eventually(lambda: not site.get("Stoker", "heard"), PATIENCE, "the answer lets it go")
    assert site.get("Stoker", "silent"), "a silent agent is waited for"
    eventually(lambda: not site.get("Stoker", "silent"), PATIENCE, "thirty seconds are enough", interval=0.3)
    assert time.monotonic() - began >= 25


@pytest.mark.smoke
def test_a_requested_ref_counts_until_the_spec_changes(site: Site, plant: Repository, url: str) -> None:
    first = plant.tip()
    released = commit_to(plant, "released")
    plant.tag("v2", released)
    third = commit_to(plant, "third")
    plant.tag("v3", third)
    plant.tag("v1", first)
    site.apply("Stoker", "line", git=git(url, "v1"))
    site.start()
    site.until_metadata("line", commit=first, ref="v1", trigger="spec")

    asked = {"requested_ref": "v2", "requested_at": "2026-03-02T08:15:00.5Z", "requested_by": "webhook"}
    site.annotate("Stoker", "line", **asked)
    site.until_metadata("line", commit=released, ref="v2", trigger="webhook")
    eventually(lambda: "requestedRef" in site.status("Stoker", "line"), PATIENCE, "it is remembered")
    requested = site.status("Stoker", "line")["requestedRef"]
    assert (requested["ref"], requested["specRef"], requested["by"]) == ("v2", "v1", "webhook")
    message = "requested by webhook at 2026-03-02T08:15:00.500000Z; spec.git.ref v1 is not followed"
    eventually(
        lambda: message in site.condition("Stoker", "line", "RepoCloned")[2], PATIENCE, "the reason shows"
    )
    assert site.get("Stoker", "line")["spec"]["git"]["ref"] == "v1", "only the user writes the spec"
    eventually(
        lambda: site.status("Stoker", "line")["lastSyncRef"] == "v2", PATIENCE, "the effective ref shows"
    )

    site.patch(site.path_of("Stoker", "line"), {"spec": {"git": {"ref": "v3"}}})
    site.until_metadata("line", commit=third, ref="v3", trigger="spec")
    eventually(
        lambda: (
            not any("requested" in name for name in site.get("Stoker", "line")["metadata"]["annotations"])
        ),
        PATIENCE,
        "the request has had its day",
    )
    site.patch(site.path_of("Stoker", "line"), {"spec": {"git": {"ref": "v1"}}})
    site.until_metadata("line", commit=first, ref="v1")
    assert "requestedRef" not in site.status("Stoker", "line")

    site.annotate("Stoker", "line", requested_ref="no-such", requested_at="2026-03-02T09:00:00Z")
    assert "no-such" in site.until("Stoker", "line", "Ready", "RefNotFound")
    assert site.metadata("line") is not None
    published = site.metadata("line")
    assert published is not None
    assert (published.commit, published.ref) == (first, "v1"), "gateways keep what they have"


def test_a_sync_request_triggers_a_lookup_at_once_and_nothing_else(
    site: Site, plant: Repository, git_http: GitHttpServer, url: str
) -> None:
    site.apply("Stoker", "line", git=git(url), polling={"interval": "1h"})
    site.start()
    site.until_metadata("line", commit=plant.tip())
    moved = commit_to(plant, "moved")
    site.annotate("Stoker", "line", requested_at="2026-03-02T08:15:00.000001Z", requested_by="webhook")
    metadata = site.until_metadata("line", commit=moved, trigger="webhook")
    assert metadata.ref == "main"
    before = site.versions()["ConfigMap/stoker-metadata-line"]
    asked = len(git_http.requests)
    site.annotate("Stoker", "line", requested_at="2026-03-02T08:15:00.000002Z", requested_by="webhook")
    eventually(lambda: len(git_http.requests) > asked, PATIENCE, "the repository is asked again")
    site.annotate("Stoker", "line", note="means-nothing")
    assert site.versions()["ConfigMap/stoker-metadata-line"] == before, "there was nothing new to tell"


@pytest.mark.smoke
def test_gateways_of_a_profile_wait_for_those_it_depends_on(site: Site, plant: Repository, url: str) -> None:
    mapping = [{"source": "a", "destination": "projects"}]
    site.apply("SyncProfile", "base", mappings=mapping)
    site.apply("SyncProfile", "area", mappings=mapping, dependsOn=[{"profileName": "base"}])
    site.apply("Stoker", "line", git=git(url), polling=FAST)
    base, area = site.pod("base-0", "line", profile="base"), site.pod("area-0", "line", profile="area")
    site.start()
    first = plant.tip()
    site.until_metadata("line", commit=first, targets={})
    eventually(lambda: site.status("SyncProfile", "base").get("gatewayCount") == 1, PATIENCE, "it is counted")
    base.report(first)
    area.report(first)
    site.until("SyncProfile", "area", "DependenciesMet", "DependenciesSatisfied")

    second = commit_to(plant, "two")
    metadata = site.until_metadata("line", commit=second)
    assert {name: target.commit for name, target in metadata.targets.items()} == {"area-0": first}
    message = site.until("Stoker", "line", "DependenciesMet", "DependencyWaiting")
    assert "area-0 waits for base-0 of SyncProfile base" in message
    site.until("SyncProfile", "area", "DependenciesMet", "DependencyWaiting")
    base.report(second)
    site.until_metadata("line", commit=second, targets={})
    site.until("SyncProfile", "area", "DependenciesMet", "DependenciesSatisfied")
    area.report(second)
    site.until("Stoker", "line", "Ready", "GatewaysSynced")
    site.until("Stoker", "line", "DependenciesMet", "DependenciesSatisfied")

    # The profile of a gateway may also be waited for by those of another resource.
    site.apply("Stoker", "second", git=git(url), polling={"interval": "1h"})
    other = site.pod("other-0", "second", profile="area")
    site.until_metadata("second", commit=second)
    other.report(second)
    site.until("Stoker", "second", "Ready", "GatewaysSynced")
    third = commit_to(plant, "three")
    site.until_metadata("line", commit=third)
    site.annotate("Stoker", "second", nudged_at="2026-03-02T08:15:00.000000Z")
    metadata = site.until_metadata("second", commit=third)
    assert {name: target.commit for name, target in metadata.targets.items()} == {"other-0": second}
    base.report(third)
    site.until_metadata("second", commit=third, targets={})


@pytest.mark.smoke
def test_two_mappings_that_own_one_destination_are_reported(site: Site, plant: Repository) -> None:
    site.apply(
        "SyncProfile",
        "twice",
        mappings=[
            {"source": "a", "destination": "projects/site"},
            {"source": "b", "destination": "./projects/site/"},
        ],
    )
    site.start()
    message = site.until("SyncProfile", "twice", "Ready", "ConflictDetected")
    assert "mappings[0] (a) and mappings[1] (b) both own projects/site" in message
    site.until_event("ConflictDetected", "both own projects/site")


@pytest.mark.smoke
def test_a_gateway_at_another_ref_is_skew(site: Site, plant: Repository, url: str) -> None:
    plant.tag("v1", plant.tip())
    site.apply("Stoker", "line", git=git(url))
    own = site.pod("own-0", "line", ref_override="v1")
    follows = site.pod("follows-0", "line")
    site.start()
    site.until_metadata("line", commit=plant.tip())
    own.report(plant.tip(), synced_ref="v1", ref="v1")
    follows.report(plant.tip())
    message = site.until("Stoker", "line", "RefSkew", "RefSkewDetected")
    assert message == "own-0 is at v1 by its annotation; the resource is at main"
    site.until("Stoker", "line", "Ready", "GatewaysSynced")
    site.until_event("RefSkewDetected", "own-0")


@pytest.mark.smoke
def test_a_pause_reaches_the_agents_and_so_does_the_emergency_stop(
    site: Site, plant: Repository, url: str
) -> None:
    site.apply("Stoker", "line", git=git(url), polling=FAST)
    site.apply("IgnitionSync", "line", git=git(url), gateway={"filesOnly": True}, polling=FAST)
    site.start()
    first = plant.tip()
    site.until_metadata("line", STOKER, commit=first, paused=False)
    site.until_metadata("line", IGNITION_SYNC, commit=first, paused=False)

    site.patch(site.path_of("Stoker", "line"), {"spec": {"paused": True}})
    site.until_metadata("line", STOKER, paused=True)
    assert "spec.paused" in site.until("Stoker", "line", "Ready", "Paused")
    second = commit_to(plant, "two")
    site.until_metadata("line", IGNITION_SYNC, commit=second)
    published = site.metadata("line", STOKER)
    assert published is not None
    assert published.commit == first, "a paused resource does not follow its ref"
    site.patch(site.path_of("Stoker", "line"), {"spec": {"paused": False}})
    site.until_metadata("line", STOKER, paused=False, commit=second)

    pause = {"metadata": {"name": "ignition-sync-global-pause"}, "data": {"paused": "true"}}
    site.post("/api/v1", "configmaps", pause)
    for kind in (STOKER, IGNITION_SYNC):
        site.until_metadata("line", kind, paused=True)
        assert "ignition-sync-global-pause" in site.until(str(kind), "line", "Ready", "Paused")
    site.patch(site.path_of("ConfigMap", "ignition-sync-global-pause"), {"data": {"paused": "false"}})
    for kind in (STOKER, IGNITION_SYNC):
        site.until_metadata("line", kind, paused=False)
        site.until(str(kind), "line", "Ready", "RefResolved")


def test_from_the_twenty_first_gateway_on_reports_go_to_a_second_map(
    site: Site, plant: Repository, url: str
) -> None:
    site.apply("Stoker", "line", git=git(url))
    pods = [site.pod(f"gateway-{number:02}", "line") for number in range(25)]
    site.start("--forget-reports-after=0")
    metadata = site.until_metadata("line", commit=plant.tip(), status_shards=lambda shards: len(shards) == 25)
    assert sorted(metadata.status_shards.values()) == [0] * 20 + [1] * 5
    assert site.get("ConfigMap", "stoker-statusshard-1-line")["metadata"]["ownerReferences"]
    role = site.get("Role", "stoker-agent-line")
    assert "stoker-statusshard-1-line" in role["rules"][1]["resourceNames"]
    for pod in pods:
        pod.report(plant.tip())
    assert site.until("Stoker", "line", "Ready", "GatewaysSynced").startswith("25 of 25 gateways synced")
    assert len(site.get("ConfigMap", "stoker-status-line")["data"]) == 20
    assert len(site.get("ConfigMap", "stoker-statusshard-1-line")["data"]) == 5

    pods[0].delete()
    pods[24].delete()
    for name, left in (("stoker-status-line", 19), ("stoker-statusshard-1-line", 4)):
        eventually(
            lambda name=name, left=left: len(site.get("ConfigMap", name)["data"]) == left,  # type: ignore[misc]
            PATIENCE,
            f"{name} forgets who is gone",
            interval=0.1,
        )
    after = site.until_metadata("line", status_shards=lambda shards: len(shards) == 23)
    assert all(metadata.status_shards[key] == shard for key, shard in after.status_shards.items()), (
        "no gateway changed its shard"
    )


def test_replicas_of_one_name_report_under_their_pods(site: Site, plant: Repository, url: str) -> None:
    site.apply("Stoker", "line", git=git(url))
    one = site.pod("front-a", "line", gateway="front")
    site.start()
    site.until_metadata("line", commit=plant.tip(), status_key_mode=StatusKeyMode.GATEWAY)
    one.report(plant.tip())
    two = site.pod("front-b", "line", gateway="front")
    site.until_metadata("line", status_key_mode=StatusKeyMode.POD)
    one.report(plant.tip())
    two.report(plant.tip())
    site.until("Stoker", "line", "Ready", "GatewaysSynced")
    gateways = site.status("Stoker", "line")["discoveredGateways"]
    assert [(one["name"], one["podName"]) for one in gateways] == [("front", "front-a"), ("front", "front-b")]
    assert sorted(site.get("ConfigMap", "stoker-status-line")["data"]) == ["front-a", "front-b"]


@pytest.mark.smoke
def test_a_pod_without_its_agent_is_reported_and_an_outdated_one_too(
    site: Site, plant: Repository, url: str
) -> None:
    site.apply("Stoker", "line", git=git(url))
    bare = site.pod("bare-0", "line", injected=False)
    site.start("--agent-image=registry.test/stoker:2")
    message = site.until("Stoker", "line", "Ready", "SidecarMissing")
    assert "bare-0" in message
    assert site.condition("Stoker", "line", "SidecarInjected")[:2] == ("False", "SidecarMissing")
    site.until_event("SidecarMissing", "bare-0")
    bare.delete()
    site.until("Stoker", "line", "SidecarInjected", "NoGateways")
    site.pod("old-0", "line")
    stamp = {"stoker.io/injected": "0123456789abcdef"}  # of an agent that no current webhook injects
    site.patch(site.path_of("Pod", "old-0"), {"metadata": {"annotations": stamp}})
    message = site.until("Stoker", "line", "SidecarInjected", "SidecarOutdated")
    assert "old-0" in message
    assert site.condition("Stoker", "line", "SidecarInjected")[0] == "True"
    site.until_event("SidecarOutdated", "old-0")


@pytest.mark.smoke
def test_only_resources_of_the_selector_are_worked_on(site: Site, plant: Repository, url: str) -> None:
    site.apply("Stoker", "ours", git=git(url), labels={"team": "north"})
    site.apply("Stoker", "theirs", git=git(url), labels={"team": "south"})
    site.start("--watch-label-selector=team=north", "--leader-elect=false")
    site.until("Stoker", "ours", "Ready", "RefResolved")
    assert site.status("Stoker", "theirs") == {"observedGeneration": -1}, "as the server made it"
    assert "finalizers" not in site.get("Stoker", "theirs")["metadata"]


@pytest.mark.smoke
def test_the_finalizer_of_a_resource_that_loses_its_label_is_removed(
    site: Site, plant: Repository, url: str
) -> None:
    """This controller would not see its deletion, and its finalizer would hold it for ever."""
    site.apply("Stoker", "ours", git=git(url), labels={"team": "north"})
    site.start("--watch-label-selector=team=north", "--leader-elect=false")
    site.until("Stoker", "ours", "Ready", "RefResolved")
    assert site.get("Stoker", "ours")["metadata"]["finalizers"] == ["stoker.io/finalizer"]
    place = site.path_of("Stoker", "ours")
    site.patch(place, {"metadata": {"labels": {"team": "south"}}})
    eventually(
        lambda: "finalizers" not in site.get("Stoker", "ours")["metadata"],
        PATIENCE,
        lambda: f"no finalizer: {site.get('Stoker', 'ours')['metadata']}\n{site.running[0].tail()}",
    )
    site.patch(place, {"metadata": {"labels": {"team": "north"}}})
    eventually(
        lambda: site.get("Stoker", "ours")["metadata"].get("finalizers"),
        PATIENCE,
        lambda: f"it is ours again:\n{site.running[0].tail()}",
    )


def test_what_pods_say_of_the_resources_of_another_installation_leaves_them_alone(
    site: Site, plant: Repository, url: str
) -> None:
    for name in ("north", "south"):
        site.apply("Stoker", name, git=git(url), labels={"team": name})
    tied = {"metadata": {"finalizers": ["stoker.io/finalizer"]}}  # as the other installation does
    site.patch(site.path_of("Stoker", "south"), tied)
    site.start("--watch-label-selector=team=north", "--leader-elect=false")
    site.until("Stoker", "north", "Ready", "RefResolved")
    site.pod("theirs-0", "south")
    site.pod("bare-0", "north", injected=False)
    site.until("Stoker", "north", "SidecarInjected", "SidecarMissing")
    assert site.get("Stoker", "south")["metadata"]["finalizers"] == ["stoker.io/finalizer"]
    site.patch(site.path_of("Stoker", "south"), {"metadata": {"finalizers": None}})


def test_letting_go_leaves_the_resources_of_another_installation(
    site: Site, plant: Repository, url: str
) -> None:
    for name in ("north", "south"):
        site.apply("Stoker", name, git=git(url), labels={"team": name})
        meta = {"metadata": {"finalizers": ["stoker.io/finalizer"]}}
        site.patch(site.path_of("Stoker", name), meta)
    process = site.start("--remove-finalizers", "--watch-label-selector=team=north")
    assert process.wait(PATIENCE), process.tail()
    assert process.returncode == 0, process.tail()
    left = {name: site.get("Stoker", name)["metadata"].get("finalizers", []) for name in ("north", "south")}
    assert left == {"north": [], "south": ["stoker.io/finalizer"]}
    site.patch(site.path_of("Stoker", "south"), {"metadata": {"finalizers": None}})


def test_nothing_is_written_while_nothing_changes(
    site: Site, plant: Repository, url: str, git_http: GitHttpServer
) -> None:
    site.secret("gateway", apiKey=f"name:{planted('gateway-key')}")
    key = {"apiKeySecretRef": {"name": "gateway", "key": "apiKey"}}
    mapping = [{"source": "a", "destination": "projects"}]
    site.apply("SyncProfile", "base", mappings=mapping)
    site.apply("SyncProfile", "area", mappings=mapping, dependsOn=[{"profileName": "base"}])
    site.apply("Stoker", "line", git=git(url), polling=FAST, gateway=key)
    site.apply("IgnitionSync", "lost", git=git(url, "no-such"), polling=FAST, gateway=key)
    site.apply("Stoker", "late", git=git(url), polling=FAST)
    site.pod("late-0", "late")
    pods = [site.pod("base-0", "line", profile="base"), site.pod("area-0", "line", profile="area")]
    metrics = f"127.0.0.1:{free_ports(1)[0]}"
    controller = site.start(f"--metrics-bind-address={metrics}")
    site.until_metadata("line", commit=plant.tip())
    for pod in pods:
        pod.report(plant.tip(), synced_at="2026-03-02T08:15:00Z", heartbeat_at="2026-03-02T08:15:00Z")
    site.until("Stoker", "line", "Ready", "GatewaysSynced")
    site.until("IgnitionSync", "lost", "Ready", "RefNotFound")
    site.until("Stoker", "late", "Ready", "GatewaysSyncing")
    site.until("SyncProfile", "area", "DependenciesMet", "DependenciesSatisfied")
    eventually(
        lambda: _settled(site),
        PATIENCE,
        "the last events are written",
    )
    before, looks, passes = site.versions(), len(git_http.requests), _passes(metrics, "line")
    eventually(lambda: len(git_http.requests) >= looks + 15, PATIENCE, "five looks at each", interval=0.2)
    assert _passes(metrics, "line") == passes, "where nothing moves there are no passes either"
    for pod in pods:
        pod.report(plant.tip(), synced_at="2026-03-02T08:15:00Z", heartbeat_at="2026-03-02T08:20:00Z")
    looks = len(git_http.requests)
    eventually(lambda: len(git_http.requests) >= looks + 6, PATIENCE, "two more", interval=0.2)
    after = site.versions()
    changed = {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
    assert changed == {"ConfigMap/stoker-status-line"}, "only the agents have written"

    controller.stop()
    site.start()
    looks = len(git_http.requests)
    eventually(lambda: len(git_http.requests) >= looks + 15, PATIENCE, "the next controller looks around")
    assert site.versions() == after, "a restart changes nothing"


def _settled(site: Site) -> bool:
    before = site.versions()
    time.sleep(1.0)
    return site.versions() == before


def _passes(metrics: str, resource: str) -> int:
    with urllib.request.urlopen(f"http://{metrics}/metrics", timeout=5) as page:
        lines = page.read().decode().splitlines()
    counted = [one for one in lines if one.startswith("ignition_sync_reconcile_total{") and resource in one]
    return sum(int(float(one.rpartition(" ")[2])) for one in counted)


@pytest.mark.parametrize("how", [signal.SIGKILL, pytest.param(signal.SIGSTOP, marks=pytest.mark.long)])
def test_the_next_leader_goes_on_where_the_first_was_killed(
    site: Site, plant: Repository, url: str, how: signal.Signals
) -> None:
    count = 8
    for number in range(count):
        site.apply("Stoker", f"line-{number}", git=git(url), polling=FAST)
        site.pod(f"gateway-{number}", f"line-{number}")
    first = site.start()
    site.until_metadata("line-0", commit=plant.tip())
    second = site.start()
    for number in range(count):
        site.until_metadata(f"line-{number}", commit=plant.tip())
    moved = commit_to(plant, "moved")
    eventually(
        lambda: any(
            (metadata := site.metadata(f"line-{number}")) is not None and metadata.commit == moved
            for number in range(count)
        ),
        PATIENCE,
        "the leader is in the middle of it",
        interval=0.01,
    )
    os.kill(first.pid, how)
    later = commit_to(plant, "later")
    for number in range(count):
        site.until_metadata(f"line-{number}", commit=later, patience=60)
    for number in range(count):
        eventually(
            lambda number=number: site.status("Stoker", f"line-{number}")["lastSyncCommit"] == later,  # type: ignore[misc]
            PATIENCE,
            "the status follows",
        )
    assert second.running
    if how is signal.SIGSTOP:
        before = site.versions()
        os.kill(first.pid, signal.SIGCONT)
        eventually(
            lambda: "lease.term_over" in first.log.read_text(), PATIENCE, "it knows that it leads no more"
        )
        changed = {name for name, version in site.versions().items() if before.get(name) != version}
        assert not {name for name in changed if name.startswith(("ConfigMap/", "Stoker/"))}, (
            "the old leader wakes up and writes nothing"
        )
    refs = [
        message for _, reason, message in site.events() if reason == "RefUpdated" and later[:8] in message
    ]
    assert len(refs) == count, "each move is recorded once"
