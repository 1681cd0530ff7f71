"""A controller with slow servers, apps, webhooks and manual changes: isolation and repair."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import socket
import threading
import urllib.request
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from stoker.domain.intent.intent import SyncResourceKind
from stoker.domain.protocol import check_signature
from stoker.domain.refs import CommitId
from stoker.domain.secrets import Secret
from stoker_testkit.chart.controller_rbac import controller_rules
from stoker_testkit.cluster.cluster_access import ClusterAccess
from stoker_testkit.environments.controller_environment import PATIENCE, Site
from stoker_testkit.forges.github_app_login import GitHubAppServer
from stoker_testkit.processes import free_ports
from stoker_testkit.repositories.bare_repository import Repository
from stoker_testkit.repositories.git_http_server import GitHttpServer
from stoker_testkit.secret_leaks.tracked_credentials import planted
from stoker_testkit.wait_until import eventually

FAST = {"interval": "1s"}


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


@pytest.fixture
def silent() -> Iterator[str]:
    """The address of a server that takes calls and says nothing."""
    listener = socket.create_server(("127.0.0.1", 0))
    taken: list[socket.socket] = []
    over = threading.Event()

    def take() -> None:
        while not over.is_set():
            try:
                taken.append(listener.accept()[0])
            except OSError:
                return

    thread = threading.Thread(target=take, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{listener.getsockname()[1]}/plant.git"
    over.set()
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    for one in taken:
        one.close()
    thread.join()


def test_a_repository_that_does_not_answer_holds_up_no_other(
    site: Site, plant: Repository, url: str, silent: str
) -> None:
    for number in range(12):
        site.apply("Stoker", f"slow-{number}", git={"repo": silent, "ref": "main"})
    site.start("--workers=1", "--git-timeout=3")
    site.until("Stoker", "slow-0", "Ready", "RefResolving")
    site.apply("Stoker", "well", git={"repo": url, "ref": "main"}, polling=FAST)
    site.until_metadata("well", commit=plant.tip(), patience=8)
    moved = plant.commit({"README.md": "moved"})
    site.until_metadata("well", commit=moved, patience=8)
    message = site.until("Stoker", "slow-0", "Ready", "SourceUnreachable")
    assert "did not answer within 3 s" in message


def test_while_a_ref_is_looked_up_nothing_is_reconciled_again(site: Site, silent: str) -> None:
    """The answer enqueues the resource; until then another reconcile would find nothing new."""
    metrics = f"127.0.0.1:{free_ports(1)[0]}"
    site.apply("Stoker", "slow", git={"repo": silent, "ref": "main"})
    site.start("--git-timeout=16", f"--metrics-bind-address={metrics}")
    site.until("Stoker", "slow", "Ready", "RefResolving")
    site.until("Stoker", "slow", "Ready", "SourceUnreachable")
    with urllib.request.urlopen(f"http://{metrics}/metrics", timeout=5) as page:
        lines = page.read().decode().splitlines()
    waits = [one for one in lines if one.startswith("ignition_sync_reconcile_total{") and '"wait"' in one]
    counted = sum(float(one.rpartition(" ")[2]) for one in waits)
    assert counted <= 2, "the first reconcile, and one for the finalizer that it set"


def test_a_repository_that_goes_away_takes_nothing_from_the_agents(
    site: Site, plant: Repository, git_http: GitHttpServer, url: str
) -> None:
    site.apply("Stoker", "line", git={"repo": url, "ref": "main"}, polling=FAST)
    pod = site.pod("gateway-0", "line")
    controller = site.start()
    first = plant.tip()
    site.until_metadata("line", commit=first)
    git_http.users["nobody"] = planted("git-password")
    site.until("Stoker", "line", "RepoCloned", "SourceAuthFailed")
    pod.report(first)
    site.until("Stoker", "line", "AllGatewaysSynced", "GatewaysSynced")
    controller.stop()
    site.start()
    eventually(
        lambda: "SourceAuthFailed" in site.running[-1].log.read_text(), PATIENCE, "the next controller asks"
    )
    published = site.metadata("line")
    assert published is not None
    assert (published.commit, published.ref) == (first, "main")
    git_http.users.clear()
    site.until("Stoker", "line", "Ready", "GatewaysSynced")


def test_a_github_app_becomes_a_token_for_gateways_where_that_is_allowed(
    site: Site, repositories: Path
) -> None:
    plant = Repository.create(repositories / "app.git")
    plant.commit({"README.md": "one"})
    with GitHubAppServer.start(repositories) as github:
        github.lifetime = 6.0
        key = github.register(12, 3456).decode()
        site.secret("app", pem=key)
        site.apply("Stoker", "line", git=_as_app(github.url("app.git")), polling=FAST)
        controller = site.start()
        message = site.until("Stoker", "line", "Ready", "GitHubAppNotPermitted")
        assert site.namespace in message
        metadata = site.until_metadata("line", commit=plant.tip())
        assert (metadata.auth_type, metadata.auth_secret and metadata.auth_secret.name) == (
            "token",
            "stoker-git-token-line",
        )
        assert "githubApp" not in metadata.agent_spec, "the app is the controller's alone"
        assert not site.get("Secret", "stoker-git-token-line")

        controller.stop()
        writes = {"apiGroups": [""], "resources": ["secrets"], "verbs": ["create", "update"]}
        site.grant("tokens", "stoker-controller", (writes,))
        site.start(f"--github-app-namespace={site.namespace}")
        site.until("Stoker", "line", "Ready", "RefResolved")
        first = _token(site)
        assert first in github.given
        made = site.get("Secret", "stoker-git-token-line")["metadata"]
        assert made["ownerReferences"]
        assert made["labels"]["app.kubernetes.io/managed-by"] == "stoker", "the reverser withholds it by that"
        eventually(lambda: _token(site) != first, PATIENCE, "it is renewed before its end", interval=0.2)
        assert _token(site) in github.given
        assert key.splitlines()[2] not in site.running[-1].log.read_text()


def _as_app(url: str) -> dict[str, object]:
    app = {"appId": 12, "installationId": 3456, "privateKeySecretRef": {"name": "app", "key": "pem"}}
    return {"repo": url, "ref": "main", "auth": {"githubApp": app}}


def _token(site: Site) -> str:
    data = site.get("Secret", "stoker-git-token-line").get("data", {})
    return base64.b64decode(data.get("token", "")).decode()


def test_a_signed_webhook_reaches_the_agents_and_a_rotated_key_counts(
    site: Site, plant: Repository, url: str
) -> None:
    site.secret("hook", hmac=planted("first-key"))
    webhook = {"secretRef": {"name": "hook", "key": "hmac"}, "allowedRefs": ["v*"]}
    slow = {"interval": "1h"}
    site.apply("Stoker", "line", git={"repo": url, "ref": "main"}, polling=slow, webhook=webhook)
    port = free_ports(1)[0]
    site.start(f"--receiver-bind-address=127.0.0.1:{port}")
    site.until_metadata("line", commit=plant.tip())
    assert site.condition("Stoker", "line", "WebhookReady")[:2] == ("False", "PortMismatch")

    released = plant.commit({"README.md": "released"})
    plant.tag("v2", released)
    eventually(
        lambda: _call(site, port, {"ref": "v2"}, planted("first-key")) == 202, PATIENCE, "it is accepted"
    )
    site.until_metadata("line", commit=released, ref="v2", trigger="webhook")
    assert _call(site, port, {"ref": "main"}, "wrong") == 401

    site.patch(site.path_of("Secret", "hook"), {"stringData": {"hmac": planted("second-key")}})
    moved = plant.commit({"README.md": "moved"})
    eventually(
        lambda: _call(site, port, {"ref": "main"}, planted("second-key")) == 202,
        PATIENCE,
        "the new key counts",
    )
    site.until_metadata("line", commit=moved, ref="main")
    assert _call(site, port, {"ref": "v2"}, planted("first-key")) == 401


def _call(site: Site, port: int, body: object, key: str) -> int:
    content = json.dumps(body).encode()
    signature = hmac.new(key.encode(), content, hashlib.sha256).hexdigest()
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/webhook/{site.namespace}/line",
        data=content,
        headers={"Content-Type": "application/json", "X-Hub-Signature-256": f"sha256={signature}"},
    )
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:  # noqa: S310 - our own server
            return int(answer.status)
    except urllib.error.HTTPError as error:
        with error:
            return int(error.code)


def test_a_manual_change_of_owned_objects_is_reverted(site: Site, plant: Repository, url: str) -> None:
    site.apply("Stoker", "line", git={"repo": url, "ref": "main"})
    pod = site.pod("gateway-0", "line")
    site.start()
    published = site.until_metadata("line", commit=plant.tip())
    pod.report(plant.tip())
    site.until("Stoker", "line", "Ready", "GatewaysSynced")
    metadata = site.path_of("ConfigMap", "stoker-metadata-line")
    site.patch(metadata, {"data": {"commit": "0" * 40, "gitURL": "http://evil.test/x.git"}})
    site.until_metadata("line", commit=published.commit, git_url=published.git_url)
    for kind, name in (
        ("ConfigMap", "stoker-metadata-line"),
        ("ConfigMap", "stoker-status-line"),
        ("Role", "stoker-agent-line"),
        ("RoleBinding", "stoker-agent-line"),
    ):
        uid = site.get(kind, name)["metadata"]["uid"]
        site.delete(kind, name)
        eventually(
            lambda kind=kind, name=name, uid=uid: (  # type: ignore[misc]
                site.get(kind, name).get("metadata", {"uid": uid})["uid"] != uid
            ),
            PATIENCE,
            f"{kind} {name} is made anew",
            interval=0.1,
        )
    site.patch(site.path_of("Role", "stoker-agent-line"), {"rules": []})
    eventually(lambda: site.get("Role", "stoker-agent-line")["rules"], PATIENCE, "the rules are back")
    site.patch(site.path_of("Stoker", "line"), {"metadata": {"finalizers": []}})
    eventually(
        lambda: site.get("Stoker", "line")["metadata"].get("finalizers"), PATIENCE, "the finalizer is back"
    )


def test_maps_are_signed_where_a_key_is_given(site: Site, plant: Repository, url: str) -> None:
    site.secret("signing", key=planted("map-key"))
    site.apply("Stoker", "line", git={"repo": url, "ref": "main"})
    site.start("--metadata-key=signing/key")
    site.until_metadata("line", commit=plant.tip())
    where = f"{site.namespace}/stoker-metadata-line"
    data = site.get("ConfigMap", "stoker-metadata-line")["data"]
    check_signature(data, Secret(planted("map-key")), of=where)
    site.patch(site.path_of("Secret", "signing"), {"stringData": {"key": planted("other-map-key")}})

    def signed_anew() -> bool:
        found = site.get("ConfigMap", "stoker-metadata-line")["data"]
        return bool(found["signature"] != data["signature"])

    eventually(signed_anew, PATIENCE, "the new key is used")
    check_signature(
        site.get("ConfigMap", "stoker-metadata-line")["data"], Secret(planted("other-map-key")), of=where
    )


def test_an_earlier_signed_map_that_is_put_back_is_replaced_by_a_newer_one(
    site: Site, plant: Repository, url: str
) -> None:
    key = Secret(planted("map-key"))
    site.secret("signing", key=planted("map-key"))
    site.apply("Stoker", "line", git={"repo": url, "ref": "main"})
    site.start("--metadata-key=signing/key")
    site.until_metadata("line", commit=plant.tip())
    where = f"{site.namespace}/stoker-metadata-line"

    def current() -> dict[str, str]:
        return dict(site.get("ConfigMap", "stoker-metadata-line")["data"])

    earlier = current()
    assert earlier["resourceUID"] == site.get("Stoker", "line")["metadata"]["uid"]
    site.patch(site.path_of("Stoker", "line"), {"spec": {"paused": True}})
    eventually(lambda: current()["paused"] == "true", PATIENCE, "a second version")
    second = check_signature(current(), key, of=where)
    assert second > check_signature(earlier, key, of=where)
    site.patch(site.path_of("ConfigMap", "stoker-metadata-line"), {"data": earlier})
    eventually(lambda: check_signature(current(), key, of=where) > second, PATIENCE, "a version above both")
    assert current()["paused"] == "true"


def test_a_bad_report_spoils_nothing_but_itself(site: Site, plant: Repository, url: str) -> None:
    site.apply("Stoker", "line", git={"repo": url, "ref": "main"})
    good, bad = site.pod("good", "line"), site.pod("bad", "line")
    site.start()
    site.until_metadata("line", commit=plant.tip())
    good.report(plant.tip())
    bad.apply("stoker-status-line", "bad", "{not json")
    bad.report(plant.tip(), synced_at="yesterday", errors=("x" * 5000,), projects_synced=("p" * 300,) * 200)
    site.until("Stoker", "line", "Ready", "GatewaysSynced")
    bad.apply("stoker-status-line", "bad", json.dumps({"gateway": "bad", "syncStatus": "Nonsense"}))
    message = site.until("Stoker", "line", "Ready", "GatewaysSyncing")
    assert message.startswith("1 of 2 gateways synced")


def test_everything_of_a_resource_goes_with_it(
    control_plane_with_controllers: ClusterAccess, tmp_path: Path, plant: Repository, url: str
) -> None:
    cluster = control_plane_with_controllers
    crds = Path(__file__).parents[3] / "config" / "crd"
    cluster.kubectl("apply", "--server-side", "--force-conflicts", "-f", str(crds))
    cluster.kubectl("wait", "--for=condition=Established", "--timeout=30s", "-f", str(crds))
    namespace = f"test-{uuid.uuid4().hex[:12]}"
    cluster.create_namespace(namespace)
    site = Site.prepare(cluster, namespace, tmp_path)
    try:
        eventually(lambda: _has_default_account(site), PATIENCE, "the namespace is ready for pods")
        site.apply("Stoker", "line", git={"repo": url, "ref": "main"})
        pod = site.pod("gateway-0", "line")
        site.start()
        site.until_metadata("line", commit=plant.tip())
        eventually(lambda: site.get("RoleBinding", "stoker-agent-line"), PATIENCE, "agents have their rights")
        made = {
            name for name in site.versions() if "line" in name and not name.startswith(("Event/", "Stoker/"))
        }
        assert made == {
            "ConfigMap/stoker-metadata-line",
            "ConfigMap/stoker-status-line",
            "Role/stoker-agent-line",
            "RoleBinding/stoker-agent-line",
        }
        pod.delete()
        site.delete("Stoker", "line")
        eventually(
            lambda: not made & set(site.versions()),
            60,
            lambda: f"left: {made & set(site.versions())}",
            interval=0.3,
        )
    finally:
        site.stop()


def _has_default_account(site: Site) -> bool:
    path = f"/api/v1/namespaces/{site.namespace}/serviceaccounts/default"
    return site.cluster.request("GET", path).status == 200


def test_two_resources_of_one_name_in_two_kinds_share_nothing(
    site: Site, plant: Repository, url: str
) -> None:
    old = CommitId(plant.tip())
    plant.tag("v1", old)
    plant.commit({"README.md": "newer"})
    site.apply("Stoker", "line", git={"repo": url, "ref": "main"})
    site.apply("IgnitionSync", "line", git={"repo": url, "ref": "v1"}, gateway={"filesOnly": True})
    ours = site.pod("ours", "line", kind=SyncResourceKind.STOKER)
    theirs = site.pod("theirs", "line", kind=SyncResourceKind.IGNITION_SYNC)
    site.start()
    site.until_metadata("line", SyncResourceKind.STOKER, commit=plant.tip())
    site.until_metadata("line", SyncResourceKind.IGNITION_SYNC, commit=old)
    ours.report(plant.tip())
    theirs.report(old)
    for kind, pod in (("Stoker", "ours"), ("IgnitionSync", "theirs")):
        site.until(kind, "line", "Ready", "GatewaysSynced")
        assert [one["podName"] for one in site.status(kind, "line")["discoveredGateways"]] == [pod]


def test_resources_of_one_name_in_two_namespaces_go_their_own_ways(
    site: Site, plant: Repository, url: str, tmp_path: Path
) -> None:
    cluster, second = site.cluster, f"{site.namespace}-b"
    cluster.create_namespace(second)
    (tmp_path / "b").mkdir()
    other = Site.prepare(cluster, second, tmp_path / "b")
    # One account works in both, as a release with these two namespaces has it.
    other.grant("both", "stoker-controller", controller_rules().watched)
    binding = other.path_of("RoleBinding", "both")
    subject = {"kind": "ServiceAccount", "name": "stoker-controller", "namespace": site.namespace}
    other.patch(binding, {"subjects": [subject]})
    for one, ref in ((site, "main"), (other, "next")):
        one.apply("Stoker", "line", git={"repo": url, "ref": ref}, polling=FAST)
        one.pod("gateway-0", "line")
    plant.set_branch("next", plant.tip())
    site.start(f"--watch-namespaces={site.namespace},{second}")
    first = plant.tip()
    for one in (site, other):
        one.until_metadata("line", commit=first)
    moved = plant.commit({"README.md": "moved"}, branch="next")
    other.until_metadata("line", commit=moved)
    assert site.until_metadata("line", commit=first).ref == "main"
    names = {name for one in (site, other) for name in one.versions() if name.startswith("ConfigMap/stoker-")}
    assert names == {"ConfigMap/stoker-metadata-line", "ConfigMap/stoker-status-line"}


def test_a_pod_that_names_no_resource_belongs_to_the_only_one(
    site: Site, plant: Repository, url: str
) -> None:
    site.apply("Stoker", "line", git={"repo": url, "ref": "main"})
    body = {
        "metadata": {"name": "nameless", "annotations": {"stoker.io/inject": "true"}},
        "spec": {"containers": [{"name": "gateway", "image": "gateway"}]},
    }
    site.post("/api/v1", "pods", body)
    site.start()
    assert "nameless" in site.until("Stoker", "line", "SidecarInjected", "SidecarMissing")
    site.apply("Stoker", "other", git={"repo": url, "ref": "main"})
    site.until("Stoker", "line", "SidecarInjected", "NoGateways")
    site.until("Stoker", "other", "SidecarInjected", "NoGateways")
