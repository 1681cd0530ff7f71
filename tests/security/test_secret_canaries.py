"""A canary in every credential, on good ways and on bad ones: none of them is seen anywhere.

Real processes on a real API server use every kind of credential that the product takes;
those that open repositories and other sources are in `test_source_credential_canaries`. While a scene
plays, the command lines of the whole machine are read over and over. Afterwards all that
it left is searched (`stoker_testkit.secret_leaks.namespace_scan`).
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import hmac
import json
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from stoker.agent.sidecar.startup import MARKER
from stoker.domain.protocol import SyncState
from stoker_testkit.certificates import Authority
from stoker_testkit.environments.agent_environment import project
from stoker_testkit.environments.agent_pod import AgentPod
from stoker_testkit.environments.controller_environment import Site
from stoker_testkit.forges.gitlab_merge_requests import GitLabForgeDouble
from stoker_testkit.gateway.settings import ApiKey, GatewaySettings
from stoker_testkit.gateway.simulated_gateway import SimulatedGateway
from stoker_testkit.processes import free_ports
from stoker_testkit.repositories.bare_repository import Repository
from stoker_testkit.repositories.git_http_server import GitHttpServer
from stoker_testkit.secret_leaks.canary_tokens import CommandLineSearch
from stoker_testkit.secret_leaks.namespace_scan import LeakScanNamespace
from stoker_testkit.services.alert_receivers import PATHS, ROUTING_KEY, AlertServices
from stoker_testkit.services.s3 import S3
from stoker_testkit.wait_until import eventually

PATIENCE = 60.0


def ref(name: str, key: str) -> dict[str, str]:
    return {"name": name, "key": key}


def post(url: str, body: Mapping[str, Any], **headers: str) -> int:
    raw = json.dumps(body).encode()
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    request = urllib.request.Request(url, raw, {"Content-Type": "application/json", **given})  # noqa: S310
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:  # noqa: S310 - the address is our own
            return int(answer.status)
    except urllib.error.HTTPError as error:
        error.close()
        return error.code


def signed(key: str, body: Mapping[str, Any]) -> str:
    return "sha256=" + hmac.new(key.encode(), json.dumps(body).encode(), hashlib.sha256).hexdigest()


@pytest.fixture
def services(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[AlertServices]:
    authority = Authority()
    (tmp_path / "keys").mkdir()
    (tmp_path / "keys/authorities.pem").write_bytes(authority.pem)
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "keys/authorities.pem"))
    with AlertServices.start(authority.server().save(tmp_path / "keys", "services")) as made:
        yield made


def test_from_a_commit_to_a_gateway_and_back_no_credential_is_seen(
    scene: LeakScanNamespace, git_http: GitHttpServer, services: AlertServices
) -> None:
    plant, canaries, namespace = scene.canaries, scene.canaries, scene.namespace
    token, forge_token = plant.make("git-token"), plant.make("forge-token")
    api_key, hmac_key, bearer = plant.make("api-key"), plant.make("hmac"), plant.make("bearer")
    wrong, map_key = plant.make("wrong-key"), plant.make("metadata-key")
    for name, path in PATHS.items():
        if name != "pagerduty":
            canaries.add(f"{name}-url", path)
    canaries.add("routing-key", ROUTING_KEY)
    repository = Repository.create(git_http.root / "plant/line.git")
    view = "projects/filler/view.txt"
    repository.commit({f"services/site/{path}": text for path, text in project("filler", 1).items()})
    repository.commit({f"services/site/{view}": "one\n"})
    git_http.users["x-access-token"] = token
    site = Site.prepare(scene.cluster, namespace, scene.folder)
    pod = AgentPod.create(
        scene.folder / "pod",
        namespace,
        resource="line",
        gateway="press",
        annotations={"service-path": "services/site"},
    )
    (pod.root / "tmp" / MARKER).touch()
    gateway_port, receiver_port, metrics_port = free_ports(3)
    settings = GatewaySettings(keys={"stoker": ApiKey(api_key)})
    with (
        GitLabForgeDouble.start(forge_token) as forge,
        S3.start(scene.folder / "keys" / "s3") as store,
        SimulatedGateway.start(pod.data_dir, settings=settings, port=gateway_port, scan_seconds=0.0),
        CommandLineSearch(canaries) as lines,
    ):
        store.create_bucket("copies")
        keys = {name: secret.reveal() for name, secret in store.credentials.items()}
        for name, value in keys.items():
            canaries.add(f"s3-{name}", value)
        forge.add_repository("plant/line", git=repository.path)
        site.secret("git", token=token)
        site.secret("forge", token=forge_token)
        site.secret("gateway", key=f"stoker:{api_key}")
        site.secret("hooks", hmac=hmac_key, bearer=bearer)
        site.secret("copies", **keys)
        site.secret("maps", key=map_key)
        site.secret(
            "alerts", key=ROUTING_KEY, **{name: services.url(name) for name in PATHS if name != "pagerduty"}
        )
        urls = [{"type": name, "urlSecretRef": ref("alerts", name)} for name in PATHS if name != "pagerduty"]
        bucket = {"bucket": "copies", "endpoint": store.url, "region": "us-east-1"}
        site.apply(
            "Stoker",
            "line",
            git={
                "repo": git_http.url("plant/line.git"),
                "ref": "main",
                "auth": {"token": {"secretRef": ref("git", "token")}},
            },
            gateway={"port": gateway_port, "tls": False, "apiKeySecretRef": ref("gateway", "key")},
            polling={"interval": "1s"},
            webhook={"secretRef": ref("hooks", "hmac"), "bearerSecretRef": ref("hooks", "bearer")},
            snapshots={
                "enabled": True,
                "storage": {"type": "s3", "s3": {**bucket, "credentialsSecretRef": {"name": "copies"}}},
            },
            alerting={
                "enabled": True,
                "webhooks": [*urls, {"type": "pagerduty", "integrationKeySecretRef": ref("alerts", "key")}],
            },
            bidirectional={
                "enabled": True,
                "watchPaths": ["projects/**"],
                "debounce": "300ms",
                "forge": {"type": "gitlab", "url": forge.url, "tokenSecretRef": ref("forge", "token")},
            },
        )
        site.post("/api/v1", "serviceaccounts", {"metadata": {"name": "ignition", "namespace": namespace}})
        site.pod("gateway-0", "line", gateway="press", account="ignition")
        pod.mount("git-credentials", {"token": token})
        pod.mount("api-key", {"key": f"stoker:{api_key}"})
        pod.mount("secrets/copies", keys)
        pod.mount("metadata-key", {"key": map_key})
        try:
            site.start(
                f"--receiver-bind-address=127.0.0.1:{receiver_port}",
                f"--metrics-bind-address=127.0.0.1:{metrics_port}",
                f"--pagerduty-url={services.pagerduty_url}",
                "--metadata-key=maps/key",
            )
            eventually(
                lambda: site.get("RoleBinding", "stoker-agent-line").get("subjects"), PATIENCE, site.tail
            )
            pod.start(scene.cluster.service_account_kubeconfig(namespace, "ignition"), "--log-level=debug")
            pod.until_file(view, "one\n", PATIENCE)
            _the_good_way(scene, site, pod, repository, forge, view)
            _webhooks(f"http://127.0.0.1:{receiver_port}/webhook/{namespace}/line", hmac_key, bearer, wrong)
            # Everything is refused from now on, by those who show what they were sent.
            forge.fail_next(403, times=20)
            services.fail("slack", 403, times=10)
            pod.mount("api-key", {"key": f"stoker:{wrong}"})
            pod.mount("secrets/copies", {**keys, "secretAccessKey": wrong})
            repository.commit({f"services/site/{view}": "two\n"})
            eventually(
                lambda: (
                    site.status("Stoker", "line")["discoveredGateways"][0]["syncStatus"] == SyncState.ERROR
                ),
                PATIENCE,
                lambda: f"a failed sync: {site.status('Stoker', 'line')}\n{pod.tail()}",
            )
            eventually(lambda: services.heard("webhook"), PATIENCE, site.tail)
            site.until_event("AlertFailed", "slack")
            git_http.users["x-access-token"] = "another"
            site.until("Stoker", "line", "Ready", "SourceAuthFailed", PATIENCE)
            scene.scrape("the controller", metrics_port)
            scene.pages["the agent"] = pod.ask("/metrics")[1]
        finally:
            pod.stop()
            site.stop()
        assert any(store.objects.rglob("*.pack")), "a copy was taken"
    assert [*scene.found(lines), *canaries.in_folder(store.objects)] == []


def _the_good_way(
    scene: LeakScanNamespace,
    site: Site,
    pod: AgentPod,
    repository: Repository,
    forge: GitLabForgeDouble,
    view: str,
) -> None:
    """A second commit, for which a copy is taken, and an edit that becomes a merge request."""
    commit = repository.commit({"services/site/projects/filler/more.txt": "more\n"})
    eventually(
        lambda: site.status("Stoker", "line")["discoveredGateways"][0].get("syncedCommit") == commit,
        PATIENCE,
        lambda: f"the second commit: {site.status('Stoker', 'line')}\n{pod.tail()}",
    )
    eventually(lambda: pod.logged("changes.watched"), PATIENCE, pod.tail)
    (pod.data_dir / view).write_text("designed\n")
    eventually(
        lambda: any(method == "POST" for method, _ in forge.asked),
        PATIENCE,
        lambda: (
            f"a merge request: {forge.asked} {site.status('Stoker', 'line')}\n{site.tail()}\n{pod.tail()}"
        ),
    )


def _webhooks(url: str, key: str, bearer: str, wrong: str) -> None:
    body = {"ref": "main"}
    assert post(url, body, X_Hub_Signature_256=signed(key, body)) == 202
    assert post(url, body, Authorization=f"Bearer {bearer}") == 202
    assert post(url, body, Authorization=f"Bearer {wrong}") == 401
    assert post(f"{url}?token={wrong}", body, X_Hub_Signature_256=signed(wrong, body)) == 401


def test_a_leak_at_any_place_is_found(scene: LeakScanNamespace) -> None:
    """The search itself: one canary shown at each place at which a scene is looked through."""
    token = scene.canaries.make("shown")
    site = Site.prepare(scene.cluster, scene.namespace, scene.folder)
    site.secret("git", token=token)
    encoded = base64.b64encode(f"x-access-token:{token}".encode()).decode()
    repository = Repository.create(scene.folder / "repositories/plant.git")
    repository.commit({"a": "1"}, message=f"cloned from http://me:{token}@127.0.0.1/")
    leaks: dict[str, Callable[[], object]] = {
        "log": lambda: (scene.folder / "controller-0.log").write_text(f'{{"error": "Basic {encoded}"}}'),
        "tmp": lambda: (scene.folder / "tmp/askpass").write_text(token),
        "pod": lambda: (scene.folder / "pod/tmp/x").write_bytes(gzip.compress(token.encode())),
        "metrics": lambda: scene.pages.update(page=f'ignition_sync_x{{repo="https://{token}@x"}} 1'),
        "event": lambda: site.post("/api/v1", "events", _event(scene.namespace, quote(f"/{token}", safe=""))),
        "map": lambda: site.post(
            "/api/v1",
            "configmaps",
            {"metadata": {"name": "m", "namespace": scene.namespace}, "binaryData": {"k": encoded}},
        ),
    }
    (scene.folder / "pod/tmp").mkdir(parents=True)
    (scene.folder / "pod/etc").mkdir()
    (scene.folder / "pod/etc/token").write_text(token)
    command = [sys.executable, "-c", "input()", f"--token={token}"]
    with CommandLineSearch(scene.canaries) as lines:
        site.post("/api/v1", "events", _event(scene.namespace, "nothing", "first"))
        eventually(lambda: lines.seen > 10, 10, "command lines")
        assert scene.found(lines) == [f"shown in an object of {repository.path}"], "and no mounted Secret"
        with subprocess.Popen(command, stdin=subprocess.PIPE) as process:
            eventually(lines.found, 10, "it to be seen")
            process.communicate(b"\n")
    for leak in leaks.values():
        leak()
    found = scene.found(lines)
    paths = {str(scene.folder / name) for name in ("controller-0.log", "pod/tmp/x,", "tmp/askpass")}
    words = {one.partition(" in ")[2].split()[0] for one in found}
    assert words == {*paths, "ConfigMap", "Event", "an", "the"}
    assert {one.split()[3] for one in found if " in the " in one} == {"command", "metrics"}


def _event(namespace: str, message: str, name: str = "leak") -> dict[str, Any]:
    return {
        "metadata": {"name": name, "namespace": namespace},
        "involvedObject": {"kind": "Stoker", "name": "line", "namespace": namespace},
        "reason": "SyncFailed",
        "message": message,
    }
