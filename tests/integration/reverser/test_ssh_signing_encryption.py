"""Ways to git and forms of what is written: ssh, other ids, signatures, encryption, no room and no disk."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path

import pyrage  # type: ignore[import-untyped]
import pytest

from stoker.kube.config.config import load_config
from stoker.reverser.process import ReverserOptions, ReverserProcess
from stoker.reverser.writer.batch import QueueCapacity
from stoker_testkit.repositories.bare_repository import Repository
from stoker_testkit.repositories.git_http_server import GitHttpServer
from stoker_testkit.repositories.git_ssh_server import GitSshServer
from stoker_testkit.repositories.ssh_keys import make_ssh_key
from stoker_testkit.reverser.reverser_environment import BASE, ReverserSite, files_of
from stoker_testkit.services.sops_decrypt import opened
from stoker_testkit.wait_until import eventually


def test_it_writes_over_ssh_with_a_key_and_known_hosts(
    site: ReverserSite, prod: Repository, git_ssh: GitSshServer
) -> None:
    key, hosts = git_ssh.authorized_key().read_text(), git_ssh.known_hosts.read_text()
    site.secret("login", ssh_privatekey=key)
    site.patch("Secret", "login", {"stringData": {"known_hosts": hosts}})
    site.repo_config(repoUrl=git_ssh.url(prod.path.name), secretRef={"name": "login"})
    site.destination()
    site.rule()
    site.config_map("prices")
    site.start("--require-known-hosts")
    site.until_files(prod, {site.map_path("prices"): "value"})
    site.config_map("prices", {"key": "second"})
    site.until_files(prod, {site.map_path("prices"): "second"})


def test_a_repository_with_long_ids_is_written_and_recognised_after_a_restart(
    site: ReverserSite, repositories: Path, git_http: GitHttpServer
) -> None:
    long = Repository.create(repositories / "long.git", object_format="sha256")
    site.repo_config(repoUrl=git_http.url("long.git"))
    site.destination()
    site.rule()
    site.config_map("prices")
    first = site.start()
    site.until_files(long, {site.map_path("prices"): "value"})
    first.stop()
    tip = long.tip()
    site.start()
    site.config_map("probe")
    site.until_files(long, {site.map_path("probe"): "value"})
    changed = long.git("log", "--format=", "--name-only", f"{tip}..main").decode().split()
    assert changed == [site.map_path("probe")]


def test_commits_are_signed_and_the_public_key_is_shown(
    site: ReverserSite, prod: Repository, tmp_path: Path
) -> None:
    key = make_ssh_key(tmp_path / "signing")
    site.secret("signing", ssh_privatekey="not a key")
    site.repo_config(signing={"secretRef": {"name": "signing"}})
    site.destination()
    site.rule()
    site.config_map("prices")
    site.start()
    site.until("GitRepoConfig", "repo", "SigningFailed")
    assert not prod.has_branch("main"), "nothing is pushed unsigned"
    site.secret("signing", ssh_privatekey=key.private.read_text())
    site.until_files(prod, {site.map_path("prices"): "value"})
    allowed = tmp_path / "allowed"
    allowed.write_text(f"* {key.public_line}\n")
    config = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "gpg.ssh.allowedSignersFile"}
    prod.git("verify-commit", "main", env=config | {"GIT_CONFIG_VALUE_0": str(allowed)})
    shown = key.public_line.split()[:2]
    eventually(
        lambda: (site.status("GitRepoConfig", "repo").get("signingPublicKey") or "").split() == shown,
        20.0,
        site.tail,
    )


def test_encrypted_secrets_are_opened_by_their_recipient_and_stay_over_a_restart(
    site: ReverserSite, prod: Repository
) -> None:
    identity = pyrage.x25519.Identity.generate()
    site.repo_config()
    site.destination(secretPolicy="Encrypt", encryption={"recipients": [str(identity.to_public())]})
    site.rule("secrets", ["secrets"])
    site.secret("login", password="hunter2")
    first = site.start("--include-secrets")
    path = f"{BASE}/core/v1/secrets/{site.namespace}/login.yaml"
    files = site.until_files(prod, {path: "sops:"})
    assert b"hunter2" not in files[path]
    assert opened(files[path], identity)["data"] == {"password": "aHVudGVyMg=="}
    first.stop()
    site.start("--include-secrets")
    site.secret("other", password="hunter3")
    again = site.until_files(prod, {path.replace("login", "other"): "sops:"})
    assert again[path] == files[path], "unchanged plaintext keeps its ciphertext"


def test_a_full_disk_is_reported_and_the_next_start_writes_everything(
    site: ReverserSite, prod: Repository
) -> None:
    site.follow_maps()
    site.config_map("prices")
    broken = site.start("--lease-duration=2s", "--lease-renew=0.5s", failpoints=["pack.write.before=enospc"])
    message = site.until("GitDestination", "production", "GitFailed")
    assert "space" in message
    assert not prod.has_branch("main")
    broken.stop()
    site.start()
    site.until_files(prod, {site.map_path("prices"): "value"})


@pytest.fixture
def cramped(site: ReverserSite, tmp_path: Path) -> ReverserOptions:
    """A reverser with room for three changes."""
    return ReverserOptions(
        load_config(site.cluster.kubeconfig(), None),
        site.namespace,
        tmp_path / "cramped",
        namespaces=(site.namespace,),
        health_address="0",
        metrics_address="0",
        capacity=QueueCapacity(changes=3),
    )


async def test_with_little_room_everything_arrives_and_an_outage_holds_up_no_other_branch(
    site: ReverserSite,
    prod: Repository,
    repositories: Path,
    git_http: GitHttpServer,
    cramped: ReverserOptions,
) -> None:
    other = Repository.create(repositories / "other.git")
    hidden = repositories / "hidden"

    def story() -> None:
        site.repo_config("other", repoUrl=git_http.url("other.git"))
        site.destination("other", repoRef={"name": "other"})
        site.rule("other", to="other")
        site.follow_maps()
        for n in range(10):
            site.config_map(f"first-{n}")
        for repository in (prod, other):
            site.until_files(repository, {site.map_path(f"first-{n}"): "value" for n in range(10)})
        other.path.rename(hidden)
        for n in range(10):
            site.config_map(f"second-{n}")
        site.delete("ConfigMap", "first-0")
        wanted = {site.map_path(f"second-{n}"): "value" for n in range(10)}
        site.until_files(prod, {**wanted, site.map_path("first-0"): None})
        hidden.rename(other.path)
        site.until_files(other, {**wanted, site.map_path("first-0"): None}, patience=60.0)
        assert set(files_of(other)) == set(files_of(prod))

    running = asyncio.create_task(ReverserProcess(cramped).run())
    try:
        await asyncio.to_thread(story)
    finally:
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running
