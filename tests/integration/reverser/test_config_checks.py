"""Checks of the configuration before it is used: repositories, keys, objects of older schemas."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from stoker_testkit.cluster.cluster_access import ClusterAccess
from stoker_testkit.cluster.control_plane import ControlPlane
from stoker_testkit.forges.gitea import USER, GiteaServer
from stoker_testkit.repositories.bare_repository import Repository
from stoker_testkit.repositories.git_http_server import GitHttpServer
from stoker_testkit.repositories.git_ssh_server import GitSshServer
from stoker_testkit.repositories.ssh_keys import make_ssh_key
from stoker_testkit.reverser.reverser_environment import ReverserSite, files_of
from stoker_testkit.secret_leaks.tracked_credentials import planted
from stoker_testkit.wait_until import eventually

CRDS = sorted((Path(__file__).parents[3] / "config" / "crd").glob("configbutler.ai_*.yaml"))


def test_a_repository_without_a_destination_is_checked(
    site: ReverserSite, prod: Repository, repositories: Path, git_http: GitHttpServer
) -> None:
    full = Repository.create(repositories / "full.git")
    tip = full.commit({"README.md": "hello"})
    Repository.create(repositories / "long.git", object_format="sha256").commit({"README.md": "hello"})
    readable = Repository.create(repositories / "readable.git")
    readable.commit({"README.md": "hello"})
    readable.git("config", "http.receivepack", "false")
    site.repo_config("empty")
    for name in ("full", "long", "readable", "away"):
        site.repo_config(name, repoUrl=git_http.url(f"{name}.git"))
    site.repo_config("locked", secretRef={"name": "login"})
    site.repo_config("paused", suspend=True)
    site.start()
    for name in ("empty", "full", "long"):
        message = site.until("GitRepoConfig", name, "Initialized")
        assert "no GitDestination uses it yet" in message
        assert site.condition("GitRepoConfig", name, "Ready")[0] == "True"
    site.until("GitRepoConfig", "readable", "AuthFailed")
    site.until("GitRepoConfig", "away", "NetworkError")
    assert "'login'" in site.until("GitRepoConfig", "locked", "SecretNotFound")
    assert site.condition("GitRepoConfig", "locked", "Stalled")[0] == "True"
    site.until("GitRepoConfig", "paused", "Suspended")
    assert full.tip() == tip
    assert not prod.has_branch("main"), "nothing is written by trying"
    site.secret("login", token=planted("git-token"))
    Repository.create(repositories / "away.git")
    site.until("GitRepoConfig", "locked", "Initialized")
    site.until("GitRepoConfig", "away", "Initialized")


def test_a_repository_behind_ssh_is_tried_with_its_key(
    site: ReverserSite, prod: Repository, git_ssh: GitSshServer, tmp_path: Path
) -> None:
    wrong, hosts = make_ssh_key(tmp_path / "wrong").private.read_text(), git_ssh.known_hosts.read_text()
    site.secret("login", ssh_privatekey=wrong)
    site.patch("Secret", "login", {"stringData": {"known_hosts": hosts}})
    site.repo_config(repoUrl=git_ssh.url(prod.path.name), secretRef={"name": "login"})
    site.start()
    site.until("GitRepoConfig", "repo", "AuthFailed")
    site.secret("login", ssh_privatekey=git_ssh.authorized_key().read_text())
    site.until("GitRepoConfig", "repo", "Initialized")


@pytest.mark.xdist_group("gitea")
def test_a_wrong_token_is_found_on_a_public_repository(site: ReverserSite, gitea: GiteaServer) -> None:
    repository = gitea.create_repository(f"tried-{site.namespace}")
    repository.request("PATCH", "", {"private": False})
    site.secret("login", username=USER, token=planted("wrong-token"))
    site.repo_config(repoUrl=repository.clone_url, secretRef={"name": "login"})
    site.start()
    site.until("GitRepoConfig", "repo", "AuthFailed")
    site.secret("login", username=USER, token=gitea.token)
    site.until("GitRepoConfig", "repo", "Initialized")


def test_the_public_key_is_shown_before_anything_is_signed(
    site: ReverserSite, prod: Repository, tmp_path: Path
) -> None:
    key, other = make_ssh_key(tmp_path / "signing"), make_ssh_key(tmp_path / "other")
    site.secret("signing", ssh_privatekey="not a key")
    for name in ("idle", "repo"):
        site.repo_config(name, signing={"secretRef": {"name": "signing"}})
    site.destination()
    site.rule("nothing", ["services"])
    site.start("--branch-refresh=1s")
    for name in ("idle", "repo"):
        site.until("GitRepoConfig", name, "SigningFailed")
    for each in (key, other):
        site.secret("signing", ssh_privatekey=each.private.read_text())
        for name in ("idle", "repo"):
            _until_shown(site, name, each.public_line.split()[:2])
            site.until("GitRepoConfig", name, "Initialized")
    assert not prod.has_branch("main")
    site.repo_config("idle", signing={"secretRef": {"name": "signing"}}, suspend=True)
    site.until("GitRepoConfig", "idle", "Suspended")
    _until_shown(site, "idle", other.public_line.split()[:2])


def _until_shown(site: ReverserSite, name: str, key: list[str]) -> None:
    eventually(
        lambda: (site.status("GitRepoConfig", name).get("signingPublicKey") or "").split() == key,
        45.0,
        lambda: f"{key}: {site.status('GitRepoConfig', name)}\n{site.tail()}",
    )


@pytest.fixture
def aged(tmp_path: Path, prod: Repository, git_http: GitHttpServer) -> Iterator[ReverserSite]:
    """A cluster whose CRDs took everything in their time."""
    with ControlPlane.start(tmp_path / "plane") as plane:
        _serve(plane, loosely=True)
        plane.create_namespace("aged")
        with ReverserSite(plane, "aged", tmp_path, git_http.url(prod.path.name)) as site:
            yield site


def _serve(plane: ClusterAccess, *, loosely: bool) -> None:
    for file in CRDS:
        crd: dict[str, Any] = yaml.safe_load(file.read_text())
        for version in crd["spec"]["versions"] if loosely else ():
            anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
            version["schema"] = {"openAPIV3Schema": anything}
        command = ("apply", "--server-side", "--force-conflicts", "-f", "-")
        plane.kubectl(*command, stdin=json.dumps(crd))
        name = f"crd/{crd['metadata']['name']}"
        plane.kubectl("wait", "--for=condition=Established", "--timeout=30s", name)


@pytest.mark.cluster
def test_objects_that_do_not_fit_their_schema_are_reported_and_the_others_go_on(
    aged: ReverserSite, prod: Repository
) -> None:
    odd: dict[str, dict[str, Any]] = {
        "GitRepoConfig": {"repoUrl": aged.url},
        "GitDestination": {
            "repoRef": {"name": "repo"},
            "branch": "main",
            "baseFolder": "a",
            "prune": "Perhaps",
        },
        "WatchRule": {"destinationRef": {"name": "production"}, "rules": "all"},
        "ClusterWatchRule": {"destinationRef": {"name": "production", "namespace": "aged"}, "rules": 1},
    }
    for kind, spec in odd.items():
        _make(aged, kind, "odd", spec)
    _make(aged, "GitRepoConfig", "worse", {"repoUrl": 7, "allowedBranches": ["main"]})
    aged.follow_maps()
    aged.destination("lost", repoRef={"name": "odd"}, baseFolder="lost")
    aged.rule("lost", to="odd")
    aged.config_map("prices")
    _serve(aged.cluster, loosely=False)
    aged.start()
    aged.until_files(prod, {aged.map_path("prices"): "value"})
    for kind in odd:
        message = aged.until(kind, "odd", "InvalidSpec")
        assert "does not fit its schema" in message
        assert "spec" in message, message
        assert aged.condition(kind, "odd", "Stalled")[0] == "True"
        if kind != "ClusterWatchRule":  # Events about it are in another namespace
            aged.until_event(kind, "InvalidSpec")
    # The server refuses any status of this one, because it cannot even judge its fields.
    eventually(lambda: any("spec.repoUrl" in event for _, _, event in aged.events()), 20.0, aged.tail)
    assert "does not fit its schema" in aged.until("GitDestination", "lost", "InvalidSpec")
    assert "does not fit its schema" in aged.until("WatchRule", "lost", "InvalidSpec")
    aged.until("WatchRule", "maps", "Initialized")
    aged.repo_config("odd")
    aged.patch("WatchRule", "odd", {"spec": {"rules": [{"resources": ["services"]}]}})
    aged.until("GitRepoConfig", "odd", "Initialized")
    aged.until("WatchRule", "odd", "Initialized")
    aged.until("GitDestination", "lost", "Initialized")
    assert set(files_of(prod)) >= {aged.map_path("prices")}


def _make(site: ReverserSite, kind: str, name: str, spec: dict[str, Any]) -> None:
    """As soon as the server takes it: it may still remember the schema of before."""
    body = {"apiVersion": "configbutler.ai/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec}
    path = site.path_of(kind)
    eventually(lambda: site.cluster.request("POST", path, body).status == 201, 20.0, f"{kind} is taken")
