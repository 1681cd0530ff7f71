"""A canary in whatever opens a source, a destination or a bucket: none of them is seen anywhere.

As in `test_secret_canaries`: real processes and servers, ways that are let in and ways that are not.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Literal

import obstore
import pyrage  # type: ignore[import-untyped]
import pytest
from obstore.store import S3Store

from stoker.domain.errors import StokerError
from stoker.domain.secrets import Secret
from stoker.snapshots import bucket_storage
from stoker_testkit.chart.controller_rbac import CONTROLLER
from stoker_testkit.environments.controller_environment import Site
from stoker_testkit.forges.github_app_login import GitHubAppServer
from stoker_testkit.processes import free_ports
from stoker_testkit.repositories.bare_repository import Repository
from stoker_testkit.repositories.git_http_server import GitHttpServer
from stoker_testkit.repositories.git_ssh_server import GitSshServer
from stoker_testkit.repositories.ssh_keys import make_ssh_key
from stoker_testkit.reverser.reverser_environment import ReverserSite
from stoker_testkit.secret_leaks.canary_tokens import Canaries, CommandLineSearch
from stoker_testkit.secret_leaks.namespace_scan import LeakScanNamespace
from stoker_testkit.services import oci_artifacts
from stoker_testkit.services.gcs import Gcs
from stoker_testkit.services.http_proxy import HttpProxy
from stoker_testkit.services.oci_registry import Registry
from stoker_testkit.services.s3 import S3
from stoker_testkit.wait_until import eventually

PATIENCE = 60.0


def ref(name: str, key: str) -> dict[str, str]:
    return {"name": name, "key": key}


def test_of_every_way_to_log_in_nothing_is_seen(
    scene: LeakScanNamespace,
    git_http: GitHttpServer,
    git_ssh: GitSshServer,
    repositories: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    canaries = scene.canaries
    repository = Repository.create(repositories / "plant.git")
    repository.commit({"a": "1"})
    password, in_proxy = canaries.make("basic-password"), canaries.make("proxy-password")
    token = canaries.make("other-token")
    git_http.users |= {"plant": password, "x-access-token": token}
    ssh_key = canaries.add("ssh-key", git_ssh.authorized_key().read_text())
    stranger = canaries.add("stranger-key", git_ssh.stranger_key().read_text())
    site = Site.prepare(scene.cluster, scene.namespace, scene.folder)
    (metrics_port,) = free_ports(1)
    with (
        GitHubAppServer.start(repositories) as github,
        HttpProxy.start({"me": in_proxy}) as proxy,
        CommandLineSearch(canaries) as lines,
    ):
        app_key = canaries.add("app-key", github.register(12, 3456).decode())
        monkeypatch.setenv("http_proxy", f"http://me:{in_proxy}@127.0.0.1:{proxy.port}")
        monkeypatch.setenv("no_proxy", "")
        site.secret("basic", username="plant", password=password)
        site.secret("token", token=token)
        site.secret("ssh", key=ssh_key, hosts=git_ssh.known_hosts.read_text())
        site.secret("app", key=app_key)
        ways: dict[str, tuple[str, dict[str, Any]]] = {
            "basic": (git_http.url("plant.git"), {"basic": {"secretRef": {"name": "basic"}}}),
            "token": (git_http.url("plant.git"), {"token": {"secretRef": ref("token", "token")}}),
            "ssh": (
                git_ssh.url("plant.git"),
                {"sshKey": {"secretRef": ref("ssh", "key"), "knownHostsSecretRef": ref("ssh", "hosts")}},
            ),
            "app": (
                github.url("plant.git"),
                {
                    "githubApp": {
                        "appId": 12,
                        "installationId": 3456,
                        "privateKeySecretRef": ref("app", "key"),
                    }
                },
            ),
        }
        for name, (url, auth) in ways.items():
            site.apply(
                "Stoker", name, git={"repo": url, "ref": "main", "auth": auth}, polling={"interval": "1s"}
            )
        try:
            writes = {"apiGroups": [""], "resources": ["secrets"], "verbs": ["create", "update"]}
            site.grant("tokens", CONTROLLER, (writes,))
            site.start(
                f"--metrics-bind-address=127.0.0.1:{metrics_port}",
                f"--github-app-namespace={scene.namespace}",
            )
            for name in ways:
                site.until("Stoker", name, "Ready", "RefResolved", PATIENCE)
            assert any(passage.allowed for passage in proxy.passages), "the proxy was gone through"
            # The same with what opens nothing.
            git_http.users = {"nobody": "nothing"}
            github.revoke_all()
            change = {"stringData": {"key": stranger}}
            site.patch(site.path_of("Secret", "ssh"), change)
            for name in ("basic", "token", "ssh"):
                site.until("Stoker", name, "Ready", "SourceAuthFailed", PATIENCE)
            site.patch(site.path_of("Secret", "app"), {"stringData": {"key": app_key.replace("E", "F", 40)}})
            proxy.users["me"] = "another"
            repository.commit({"a": "2"})
            eventually(lambda: site.condition("Stoker", "app", "Ready")[0] == "False", PATIENCE, site.tail)
            scene.scrape("the controller", metrics_port)
        finally:
            site.stop()
        for given in github.given:
            canaries.add("app-token", given)
    assert scene.found(lines) == []


def test_the_reverser_shows_neither_its_login_nor_what_it_encrypts(
    scene: LeakScanNamespace, git_http: GitHttpServer, tmp_path: Path
) -> None:
    canaries = scene.canaries
    login, content = canaries.make("reverser-password"), canaries.make("mirrored-secret")
    git_http.users["mirror"] = login
    prod = Repository.create(git_http.root / "prod.git")
    (tmp_path / "keys").mkdir()
    signing = canaries.add("signing-key", make_ssh_key(tmp_path / "keys/signing").private.read_text())
    identity = pyrage.x25519.Identity.generate()
    canaries.add("age-identity", str(identity))
    (metrics_port,) = free_ports(1)
    site = ReverserSite(scene.cluster, scene.namespace, tmp_path, git_http.url("prod.git"))
    with site, CommandLineSearch(canaries) as lines:
        site.secret("login", username="mirror", password=login)
        site.secret("signing", ssh_privatekey=signing)
        site.secret("mirrored", word=content)
        site.repo_config(secretRef={"name": "login"}, signing={"secretRef": {"name": "signing"}})
        site.destination(secretPolicy="Encrypt", encryption={"recipients": [str(identity.to_public())]})
        site.rule("secrets", ["secrets"])
        site.start(f"--metrics-port={metrics_port}", "--log-level=debug", "--include-secrets")
        path = f"clusters/prod/core/v1/secrets/{scene.namespace}/mirrored.yaml"
        site.until_files(prod, {path: "sops:"})
        git_http.users["mirror"] = "another"
        site.secret("mirrored", word=f"{content}-changed")
        site.until("GitRepoConfig", "repo", "AuthFailed", patience=PATIENCE)
        scene.scrape("the reverser", metrics_port)
    assert scene.found(lines) == []


def test_a_bucket_of_google_is_opened_and_refused_without_a_word_of_its_key(
    scene: LeakScanNamespace, capfd: pytest.CaptureFixture[str]
) -> None:
    canaries = scene.canaries
    messages: list[str] = []
    with Gcs.start() as store, Gcs.start() as stranger, CommandLineSearch(canaries) as lines:
        for account in (store, stranger):
            document = json.loads(account.credentials["serviceAccount.json"].reveal())
            canaries.add("gcs-key", document["private_key"])
        opened = bucket_storage.gcs_storage(store.bucket("plant"), "site", store.credentials, retries=0)
        opened.put("one", [b"1"])
        assert opened.get("one", 0, 1) == b"1"
        tries: list[tuple[dict[str, Secret], Callable[[Any], object]]] = [
            (stranger.credentials, lambda it: it.put("two", [b"2"])),
            ({"serviceAccount.json": Secret(store.credentials["serviceAccount.json"].reveal()[:-40])}, repr),
        ]
        for credentials, ask in tries:
            try:
                messages.append(
                    str(
                        ask(bucket_storage.gcs_storage(store.bucket("plant"), "site", credentials, retries=0))
                    )
                )
            except StokerError as error:
                messages.append(f"{error} {error.message} {error.__cause__!r} {error.__context__!r}")
    assert len(messages) == 2
    captured = capfd.readouterr()
    document = [*lines.found(), *canaries.in_folder(scene.folder)]
    assert [
        *document,
        *canaries.in_text("what was said", "\n".join([*messages, captured.out, captured.err])),
    ] == []


@pytest.mark.services
@pytest.mark.parametrize(
    "source", [pytest.param("a registry", marks=pytest.mark.long), "a registry with tokens", "a bucket"]
)
def test_a_source_that_is_no_repository_is_opened_and_refused_without_its_password(
    tmp_path: Path, source: str
) -> None:
    canaries = Canaries()
    for name in ("data", "tmp", "keys"):
        (tmp_path / name).mkdir()
    with ExitStack() as stack:
        if source == "a bucket":
            store = stack.enter_context(S3.start(tmp_path / "keys/s3"))
            store.create_bucket("plant")
            keys = {name: secret.reveal() for name, secret in store.credentials.items()}
            where = {"endpoint": store.url, "region": "us-east-1", "client_options": {"allow_http": True}}
            opened = S3Store(
                "plant",
                access_key_id=keys["accessKeyId"],
                secret_access_key=keys["secretAccessKey"],
                **where,  # type: ignore[arg-type]
            )
            obstore.put(opened, "v1/services/a.json", b"1")
            url = f"s3://plant?endpoint={store.url}&region=us-east-1"
            username, password = keys["accessKeyId"], keys["secretAccessKey"]
        else:
            auth: Literal["token", "basic"] = "token" if "tokens" in source else "basic"
            registry = stack.enter_context(Registry.start(tmp_path / "keys/registry", auth=auth))
            registry.push("plant", "v1", oci_artifacts.flux({"services/a.json": "1"}))
            url, username, password = registry.url("plant"), registry.username, registry.password
        canaries.add("password", password)
        messages: list[str] = []
        lines = stack.enter_context(CommandLineSearch(canaries))
        for word, opens in ((password, True), (canaries.make("wrong-password"), False)):
            (tmp_path / "keys/password").write_text(word)
            done = subprocess.run(
                [
                    *(sys.executable, "-m", "stoker", "sync", f"--repo={url}", "--ref=v1"),
                    *(f"--data-dir={tmp_path / 'data'}", f"--cache-dir={tmp_path / 'cache'}"),
                    *("--map=services:projects/P", f"--username={username}"),
                    f"--token-file={tmp_path / 'keys/password'}",
                ],
                capture_output=True,
                text=True,
                check=False,
                timeout=60,
                env={**os.environ, "TMPDIR": str(tmp_path / "tmp")},
            )
            messages += [done.stdout, done.stderr]
            assert (done.returncode == 0) is opens, messages
    assert (tmp_path / "data/projects/P/a.json").read_text() == "1"
    result = [*lines.found(), *canaries.in_text("what was said", "".join(messages))]
    for place in ("data", "tmp", "cache"):
        result += canaries.in_folder(tmp_path / place)
    assert result == []
