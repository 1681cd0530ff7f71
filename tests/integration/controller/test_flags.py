"""Flags of a controller, seen from outside: its receiver, its defaults, its probes."""

from __future__ import annotations

import hashlib
import hmac
import json
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from stoker.domain.intent.intent import SyncResourceKind
from stoker_testkit.certificates import Authority
from stoker_testkit.cluster.cluster_access import ClusterAccess
from stoker_testkit.environments.controller_environment import PATIENCE, Site
from stoker_testkit.processes import free_port
from stoker_testkit.repositories.bare_repository import Repository
from stoker_testkit.repositories.git_http_server import GitHttpServer
from stoker_testkit.secret_leaks.tracked_credentials import planted
from stoker_testkit.wait_until import eventually

RARELY = {"interval": "1h"}


@pytest.fixture
def site(kinds: ClusterAccess, namespace: str, tmp_path: Path) -> Iterator[Site]:
    with Site.prepare(kinds, namespace, tmp_path) as made:
        yield made


@pytest.fixture
def plant(repositories: Path) -> Repository:
    repository = Repository.create(repositories / "plant.git")
    repository.commit({"README.md": "one"})
    return repository


@pytest.fixture
def git(git_http: GitHttpServer, plant: Repository) -> dict[str, object]:
    return {"repo": git_http.url("plant.git"), "ref": "main"}


def call(site: Site, port: int, ref: str, key: bytes, trust: ssl.SSLContext | None = None) -> int:
    """One signed request; how it was answered."""
    content = json.dumps({"ref": ref}).encode()
    signed = hmac.new(key, content, hashlib.sha256).hexdigest()
    scheme = "http" if trust is None else "https"
    request = urllib.request.Request(  # noqa: S310 - our own server
        f"{scheme}://127.0.0.1:{port}/webhook/{site.namespace}/line",
        data=content,
        headers={"Content-Type": "application/json", "X-Hub-Signature-256": f"sha256={signed}"},
    )
    try:
        with urllib.request.urlopen(request, timeout=10, context=trust) as answer:  # noqa: S310 - our own server
            return int(answer.status)
    except urllib.error.HTTPError as error:
        with error:
            return int(error.code)


def test_the_receiver_serves_tls_and_takes_each_certificate_without_a_restart(
    site: Site, plant: Repository, git: dict[str, object], tmp_path: Path
) -> None:
    site.secret("hook", hmac=planted("webhook-key"))
    port = free_port()
    webhook = {"secretRef": {"name": "hook", "key": "hmac"}, "port": port, "allowedRefs": ["v*"]}
    site.apply("Stoker", "line", git=git, polling=RARELY, webhook=webhook)
    first, second = Authority("first"), Authority("second")
    folder = tmp_path / "tls"
    folder.mkdir()

    def present(authority: Authority) -> ssl.SSLContext:
        authority.server().save(folder, "tls")
        return ssl.create_default_context(cadata=authority.pem.decode())

    def is_believed(authority: ssl.SSLContext, ref: str) -> bool:
        try:
            return call(site, port, ref, planted("webhook-key").encode(), authority) == 202
        except urllib.error.URLError:  # another one is presented, or none yet
            return False

    site.start(f"--receiver-bind-address=127.0.0.1:{port}", f"--receiver-cert-dir={folder}")
    message = site.until("Stoker", "line", "WebhookReady", "ListenerActive")
    assert message == f"Webhook listener active on port {port}"
    trust = present(first)
    released = plant.commit({"README.md": "two"})
    plant.tag("v2", released)
    eventually(lambda: is_believed(trust, "v2"), PATIENCE, site.tail, interval=0.2)
    site.until_metadata("line", ref="v2", commit=released)
    with pytest.raises((urllib.error.URLError, ConnectionError)):
        call(site, port, "v2", planted("webhook-key").encode())

    renewed = present(second)
    eventually(lambda: is_believed(renewed, "main"), PATIENCE, site.tail, interval=0.2)
    assert not is_believed(trust, "v2")


def test_the_operators_key_opens_resources_without_one_and_may_be_replaced(
    site: Site, plant: Repository, git: dict[str, object], tmp_path: Path
) -> None:
    port, key = free_port(), tmp_path / "key"
    key.write_text("of the operator\n")
    for kind in ("Stoker", "IgnitionSync"):
        webhook = {"port": port, "allowedRefs": ["v*"]}
        site.apply(kind, "line", git=git, polling=RARELY, gateway={"filesOnly": True}, webhook=webhook)
    site.start(f"--receiver-bind-address=127.0.0.1:{port}", f"--receiver-key-file={key}")
    site.until("Stoker", "line", "WebhookReady", "ListenerActive")
    plant.tag("v2", plant.tip())
    eventually(lambda: call(site, port, "v2", b"of the operator") == 202, PATIENCE, site.tail)
    for door in SyncResourceKind:
        site.until_metadata("line", door, ref="v2")
    assert call(site, port, "main", b"wrong") == 401
    key.write_text("another\n")
    assert call(site, port, "main", b"of the operator") == 401
    assert call(site, port, "main", b"another") == 202
    assert "another" not in site.running[-1].log.read_text()


def test_without_a_key_no_caller_is_accepted_and_the_condition_says_so(
    site: Site, git: dict[str, object]
) -> None:
    port = free_port()
    site.apply("Stoker", "line", git=git, webhook={"port": port})
    site.apply("Stoker", "off", git=git, webhook={"port": port, "enabled": False})
    site.start(f"--receiver-bind-address=127.0.0.1:{port}")
    assert "secretRef" in site.until("Stoker", "line", "WebhookReady", "NoCredential")
    assert "webhook.enabled" in site.until("Stoker", "off", "WebhookReady", "WebhookDisabled")


def test_what_resources_leave_out_comes_from_the_installations_defaults(
    site: Site, plant: Repository, git: dict[str, object], tmp_path: Path
) -> None:
    defaults = tmp_path / "defaults.yaml"
    defaults.write_text("polling: {interval: 1s}\nexcludePatterns: ['**/*.bak']\ndrift: {mode: restore}\n")
    site.apply("Stoker", "plain", git=git)
    site.apply("Stoker", "own", git=git, polling=RARELY, excludePatterns=["**/*.tmp"])
    site.start(f"--defaults={defaults}")
    first = plant.tip()
    metadata = site.until_metadata("plain", commit=first)
    assert metadata.exclude_patterns == ("**/*.bak",)
    assert '"restore"' in metadata.agent_spec
    own = site.until_metadata("own", commit=first)
    assert "**/*.tmp" in own.exclude_patterns, own.exclude_patterns
    moved = plant.commit({"README.md": "two"})
    site.until_metadata("plain", commit=moved)
    assert site.until_metadata("own", ref="main").commit == first, (
        "the resource itself wins: it looks once an hour"
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("poling: {}", "poling"),
        ("polling: {interval: soon}", "interval"),
        ("[1]", "defaults"),
        (None, "defaults"),
    ],
)
def test_defaults_that_cannot_be_read_are_refused_at_the_start(
    site: Site, tmp_path: Path, text: str | None, message: str
) -> None:
    defaults = tmp_path / "defaults.yaml"
    if text is not None:
        defaults.write_text(text)
    process = site.start(f"--defaults={defaults}")
    assert process.wait(30)
    assert process.returncode == 2
    assert message in process.tail()


def test_it_says_that_it_lives_and_why_it_is_not_ready(site: Site, git: dict[str, object]) -> None:
    port = free_port()
    site.apply("Stoker", "line", git=git)
    site.start(f"--health-probe-bind-address=127.0.0.1:{port}")

    def ask(path: str) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
                return int(answer.status), answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return int(error.code), error.read().decode()
        except OSError:
            return 0, ""

    eventually(lambda: ask("/readyz")[0] == 200, PATIENCE, site.tail)
    site.until("Stoker", "line", "Ready", "RefResolved")
    assert ask("/healthz")[0] == 200
    binding = site.path_of("RoleBinding", "stoker-controller")
    assert site.cluster.request("DELETE", binding).status == 200
    eventually(lambda: ask("/readyz")[0] == 503, PATIENCE, site.tail)
    assert "leases" in ask("/readyz")[1]
    assert ask("/healthz")[0] == 200, "a restart would not help"
