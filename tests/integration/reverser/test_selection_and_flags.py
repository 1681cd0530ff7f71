"""The selection of objects, the flags of the command, metrics, and a kill at any time."""

from __future__ import annotations

import urllib.request

import pytest

from stoker.domain import failpoints
from stoker_testkit.processes import free_ports
from stoker_testkit.repositories.bare_repository import Repository
from stoker_testkit.reverser.reverser_environment import BASE, ReverserSite, files_of
from stoker_testkit.wait_until import eventually


def test_objects_come_and_go_with_their_labels(site: ReverserSite, prod: Repository) -> None:
    site.repo_config()
    site.destination()
    site.rule(labelSelector={"matchLabels": {"tier": "web"}})
    site.config_map("chosen", labels={"tier": "web"})
    site.config_map("other", labels={"tier": "db"})
    site.start()
    files = site.until_files(prod, {site.map_path("chosen"): "value"})
    assert site.map_path("other") not in files
    site.config_map("other", labels={"tier": "web"})
    site.until_files(prod, {site.map_path("other"): "value"})
    site.config_map("chosen", labels={"tier": "db"})
    site.until_files(prod, {site.map_path("chosen"): None, site.map_path("other"): "value"})


def test_a_cluster_rule_follows_the_labels_of_namespaces(site: ReverserSite, prod: Repository) -> None:
    other = f"{site.namespace}-b"
    site.cluster.create_namespace(other)
    label = f"team-{site.namespace}"
    site.repo_config()
    site.destination()
    site.cluster_rule(
        site.namespace,
        ["configmaps"],
        scope="Namespaced",
        namespaceSelector={"matchExpressions": [{"key": label, "operator": "Exists"}]},
    )
    site.config_map("prices")
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "prices"}, "data": {"key": "b"}}
    assert site.cluster.request("POST", f"/api/v1/namespaces/{other}/configmaps", body).status == 201
    site.cluster.kubectl("label", "namespace", site.namespace, f"{label}=yes")
    site.start()
    there = f"{BASE}/core/v1/configmaps/{other}/prices.yaml"
    files = site.until_files(prod, {site.map_path("prices"): "value"})
    assert there not in files
    site.cluster.kubectl("label", "namespace", other, f"{label}=yes")
    site.until_files(prod, {there: "key: b"})
    site.cluster.kubectl("label", "namespace", site.namespace, f"{label}-")
    site.until_files(prod, {site.map_path("prices"): None})
    site.delete("ClusterWatchRule", site.namespace)


def test_objects_without_a_namespace_are_written(site: ReverserSite, prod: Repository) -> None:
    name = f"viewer:{site.namespace}"
    site.repo_config()
    site.destination()
    site.cluster_rule(site.namespace, ["clusterroles.rbac.authorization.k8s.io"])
    site.cluster.kubectl("create", "clusterrole", name, "--verb=get", "--resource=pods")
    site.start()
    path = f"{BASE}/rbac.authorization.k8s.io/v1/clusterroles/viewer%3a{site.namespace}.yaml"
    files = site.until_files(prod, {path: "ClusterRole"})
    assert not [each for each in files if "system%3a" in each]  # what the API server keeps by itself
    site.delete("ClusterWatchRule", site.namespace)
    site.cluster.kubectl("delete", "clusterrole", name)


def test_operations_decide_about_writing_and_deleting(site: ReverserSite, prod: Repository) -> None:
    site.repo_config()
    site.destination()
    site.rule("keeps", operations=["CREATE", "UPDATE"])
    site.config_map("prices")
    site.start()
    site.until_files(prod, {site.map_path("prices"): "value"})
    site.delete("ConfigMap", "prices")
    site.config_map("probe")
    files = site.until_files(prod, {site.map_path("probe"): "value"})
    assert site.map_path("prices") in files


def test_noise_and_credentials_are_never_written(site: ReverserSite, prod: Repository) -> None:
    site.secret("login", username="anybody", password="hidden")
    site.secret("plain", word="visible")
    site.repo_config(secretRef={"name": "login"})
    site.destination(secretPolicy="Include")
    site.rule("all", ["configmaps", "secrets"])
    site.config_map("kube-root-ca.crt")
    site.config_map(
        "owned",
        ownerReferences=[{"apiVersion": "v1", "kind": "Pod", "name": "x", "uid": "u-1", "controller": True}],
    )
    site.config_map("mine")
    site.start("--include-secrets")
    secret = f"{BASE}/core/v1/secrets/{site.namespace}/plain.yaml"
    files = site.until_files(prod, {site.map_path("mine"): "value", secret: "word:"})
    assert set(files) == {f"{BASE}/.configbutler/owner.yaml", site.map_path("mine"), secret}
    site.until("GitDestination", "production", "SecretsInClear", "SecretsInClear")
    site.until_event("GitDestination", "SecretsInClear")
    site.destination(secretPolicy="Redact")
    site.until_files(prod, {secret: "# data, whose values are not written: word"})
    site.destination(secretPolicy="Exclude")
    site.until_files(prod, {secret: None})
    site.until("GitDestination", "production", "NoneFound", "SecretsInClear")


def test_secrets_can_be_left_out_of_an_installation(site: ReverserSite, prod: Repository) -> None:
    site.repo_config()
    site.destination()
    site.rule("all", ["configmaps", "secrets", "services"])
    site.secret("plain", word="visible")
    site.config_map("mine")
    site.start("--include-secrets=false", "--exclude=services")
    files = site.until_files(prod, {site.map_path("mine"): "value"})
    assert not [path for path in files if "/secrets/" in path]
    assert '"why":"Excluded"' in site.running[0].tail(1000)


def test_without_ingestion_nothing_is_written_and_everything_says_so(
    site: ReverserSite, prod: Repository
) -> None:
    site.follow_maps()
    site.config_map("prices")
    site.start("--enable-watch-ingestion=false")
    for kind, name in (("GitRepoConfig", "repo"), ("GitDestination", "production"), ("WatchRule", "maps")):
        site.until(kind, name, "WatchIngestionDisabled")
        assert site.condition(kind, name, "Ready")[0] == "False"
    assert not prod.has_branch("main")


def test_a_file_that_flips_back_and_forth_is_held_and_the_others_go_on(
    site: ReverserSite, prod: Repository
) -> None:
    site.follow_maps()
    site.config_map("torn", {"key": "A"})
    site.start()
    site.until_files(prod, {site.map_path("torn"): "key: A"})
    for state in "BAB":
        site.config_map("torn", {"key": state})
        site.until_files(prod, {site.map_path("torn"): f"key: {state}"})
    site.config_map("torn", {"key": "A"})
    message = site.until("GitDestination", "production", "LoopDetected")
    assert "torn.yaml" in message
    site.config_map("calm")
    files = site.until_files(prod, {site.map_path("calm"): "value"})
    assert b"key: B" in files[site.map_path("torn")]


def test_metrics_have_the_names_of_the_paper(site: ReverserSite, prod: Repository) -> None:
    health, port = free_ports(2)
    site.follow_maps()
    for name in ("one", "two"):
        site.config_map(name)
    site.start(f"--metrics-port={port}", f"--health-port={health}")
    site.until_files(prod, {site.map_path(name): "value" for name in ("one", "two")})
    site.delete("ConfigMap", "one")
    site.until_files(prod, {site.map_path("one"): None})

    def page(which: int, path: str) -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{which}{path}", timeout=10) as answer:
            return str(answer.read().decode())

    assert page(health, "/readyz")
    repo = site.url.removeprefix("http://").removesuffix(".git")
    wanted = [
        'objects_scanned_total{gvk="v1/ConfigMap",scope="Namespaced"}',
        'objects_written_total{gvk="v1/ConfigMap",scope="Namespaced"} 2.0',
        f'files_deleted_total{{destination="{site.namespace}/production"}} 1.0',
        f'commits_total{{branch="main",repo="{repo}"}}',
        f'commit_bytes_total{{branch="main",repo="{repo}"}}',
        f'rebase_retries_total{{branch="main",repo="{repo}"}} 0.0',
        f'repo_branch_active_workers{{branch="main",repo="{repo}"}} 1.0',
        f'repo_branch_queue_depth{{branch="main",repo="{repo}"}} 0.0',
        "push_duration_seconds_count",
        "change_push_delay_seconds_count",
        "change_queue_duration_seconds_count",
        "watch_list_duration_seconds_count",
        "# TYPE replay_duration_seconds histogram",
        "# TYPE ownership_conflicts_total counter",
        "# TYPE marker_conflicts_total counter",
        "# TYPE lease_acquire_failures_total counter",
    ]
    eventually(
        lambda: all(each in page(port, "/metrics") for each in wanted),
        15.0,
        lambda: "\n".join(each for each in wanted if each not in page(port, "/metrics")),
    )


@pytest.mark.parametrize("name", failpoints.REVERSING)
def test_a_reverser_that_dies_at_any_turn_loses_nothing(
    site: ReverserSite, prod: Repository, name: str
) -> None:
    site.follow_maps()
    site.config_map("first")
    dying = site.start("--lease-duration=2s", "--lease-renew=0.5s", failpoints=[f"{name}:2"])
    site.until_files(prod, {site.map_path("first"): "value"})
    site.config_map("second")
    site.delete("ConfigMap", "first")
    assert dying.wait(30.0)
    site.start("--lease-duration=2s", "--lease-renew=0.5s")
    site.until_files(prod, {site.map_path("second"): "value", site.map_path("first"): None})
    assert set(files_of(prod)) == {f"{BASE}/.configbutler/owner.yaml", site.map_path("second")}
