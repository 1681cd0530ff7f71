"""The receiver as a real process on the real API server, called by a real forge and by a flood."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import re
import secrets
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from stoker.kube.client.client import KubeClient
from stoker.kube.client.resources import ApiResource
from stoker.kube.config import config
from stoker_testkit.cluster.cluster_access import ClusterAccess
from stoker_testkit.faults.http_fault_proxy import AnsweredFault, HttpFaultProxy
from stoker_testkit.forges.gitea import GiteaRepository, GiteaServer
from stoker_testkit.processes import Process
from stoker_testkit.secret_leaks.tracked_credentials import planted
from stoker_testkit.wait_until import eventually, eventually_async

PROCESS = Path(__file__).parent / "receiver_process.py"
STOKERS = ApiResource("stoker.io", "v1alpha1", "stokers", "Stoker", namespaced=True)
KEY, TOKEN = planted("webhook-key"), planted("webhook-bearer")
FLOOD_SECONDS = 3
FLOOD_PER_SECOND = 1000


@dataclass
class Serving:
    """A receiver, and the namespace that it serves."""

    cluster: ClusterAccess
    namespace: str
    process: Process
    port: int
    metrics_port: int
    headers: dict[str, str] = field(default_factory=lambda: {"Content-Type": "application/json"})

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/webhook/{self.namespace}"

    def resource(self, kind: str = "stoker", name: str = "plant") -> dict[str, Any]:
        shown = self.cluster.kubectl("-n", self.namespace, "get", kind, name, "-o", "json").stdout
        found = json.loads(shown)
        assert isinstance(found, dict)
        return found

    def asked(self, kind: str = "stoker", name: str = "plant") -> dict[str, str]:
        """What the annotations of a resource ask for, without their prefix."""
        annotations = self.resource(kind, name)["metadata"].get("annotations", {})
        return {
            key.rpartition("/")[2]: value
            for key, value in annotations.items()
            if ("requested-" in key or "nudged-" in key)
            and key.startswith(("stoker.io/", "sync.ignition.io/"))
        }

    async def post(
        self, body: Mapping[str, Any] | bytes, *, name: str = "plant", key: str = KEY, **headers: str
    ) -> tuple[int, Any]:
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        signature = hmac.new(key.encode(), raw, hashlib.sha256).hexdigest()
        given = self.headers | {"X-Hub-Signature-256": f"sha256={signature}"} | headers
        async with (
            aiohttp.ClientSession() as session,
            session.post(f"{self.url}/{name}", data=raw, headers=given) as answer,
        ):
            return answer.status, json.loads(await answer.text())

    def counted(self) -> dict[tuple[str, str], int]:
        """Requests by the sort of sender and the result."""
        return asyncio.run(self._counted())

    async def _counted(self) -> dict[tuple[str, str], int]:
        url = f"http://127.0.0.1:{self.metrics_port}/metrics"
        async with aiohttp.ClientSession() as session, session.get(url) as answer:
            page = await answer.text()
        found = re.findall(
            r'^ignition_sync_webhook_received_total\{result="(.+?)",source="(.+?)"\} (\S+)',
            page,
            re.MULTILINE,
        )
        return {(source, result): int(float(value)) for result, source, value in found}


Serve = Callable[..., Serving]


@pytest.fixture
def serve(kinds: ClusterAccess, namespace: str, tmp_path: Path) -> Iterator[Serve]:
    """Starts receivers with the rights that the chart gives: read, and patch our kinds."""
    running: list[Process] = []
    kinds.kubectl("apply", "-f", "-", stdin=json.dumps(_rights(namespace)))

    def serve(server: str = "", *, operator_key: str = "") -> Serving:
        log = tmp_path / f"receiver-{len(running)}.log"
        kubeconfig = kinds.kubeconfig("dave", namespace=namespace, server=server)
        argv: list[str | Path] = [sys.executable, PROCESS, kubeconfig, namespace]
        if operator_key:
            (tmp_path / "operator-key").write_text(operator_key)
            argv.append(tmp_path / "operator-key")
        process = Process.start("receiver", argv, log=log)
        running.append(process)
        process.wait_ready(lambda: bool(_ports(log)), 30)
        port, metrics_port = _ports(log)
        return Serving(kinds, namespace, process, port, metrics_port)

    yield serve
    for process in running:
        process.stop()


def _ports(log: Path) -> list[int]:
    found = re.search(r"^(\d+) (\d+)$", log.read_text(), re.MULTILINE)
    return [int(found[1]), int(found[2])] if found else []


def _rights(namespace: str) -> dict[str, Any]:
    meta = {"name": "receiver", "namespace": namespace}
    ours = {"resources": ["stokers", "ignitionsyncs"], "apiGroups": ["stoker.io", "sync.ignition.io"]}
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": meta,
        "rules": [
            {**ours, "verbs": ["list", "watch", "patch"]},
            {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "list", "watch"]},
        ],
    }
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": meta,
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "receiver"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "dave"}],
    }
    return {"apiVersion": "v1", "kind": "List", "items": [role, binding]}


@pytest.fixture
def plant(kinds: ClusterAccess, namespace: str) -> None:
    """A Stoker and an IgnitionSync of one name, which follow main and can be called."""
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "plant-webhook", "namespace": namespace},
        "stringData": {"hmac-key": KEY, "token": TOKEN, "other": planted("other-key")},
    }
    items = [secret, _resource(namespace, "Stoker"), _resource(namespace, "IgnitionSync", key="other")]
    kinds.kubectl("apply", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))


def _resource(namespace: str, kind: str, *, key: str = "hmac-key") -> dict[str, Any]:
    group = "stoker.io" if kind == "Stoker" else "sync.ignition.io"
    spec: dict[str, Any] = {
        "git": {"repo": "https://git.example.com/plant.git", "ref": "main"},
        "webhook": {"secretRef": {"name": "plant-webhook", "key": key}, "allowedRefs": ["*"]},
    }
    if kind == "Stoker":
        spec["webhook"]["bearerSecretRef"] = {"name": "plant-webhook", "key": "token"}
    if kind == "IgnitionSync":
        spec["git"]["auth"] = {"token": {"secretRef": {"name": "plant-webhook", "key": "token"}}}
        spec["gateway"] = {"apiKeySecretRef": {"name": "plant-webhook", "key": "token"}}
    return {
        "apiVersion": f"{group}/v1alpha1",
        "kind": kind,
        "metadata": {"name": "plant", "namespace": namespace},
        "spec": spec,
    }


def ready(serving: Serving) -> Serving:
    """Wait until it knows its resources: before that, it answers 503."""
    eventually(
        lambda: asyncio.run(serving.post({"zen": "x"}, **{"X-GitHub-Event": "ping"}))[0] == 202,
        20,
        "a receiver that knows its resources",
    )
    return serving


@pytest.mark.smoke
@pytest.mark.usefixtures("plant")
async def test_a_request_changes_annotations_and_nothing_else(serve: Serve) -> None:
    serving = await asyncio.to_thread(lambda: ready(serve()))
    before = serving.resource()
    assert await serving.post({"ref": "2.0.0"}) == (202, {"accepted": True, "ref": "2.0.0"})
    after = serving.resource()
    asked = serving.asked()
    assert asked.pop("requested-at").endswith("Z")
    assert asked == {"requested-ref": "2.0.0", "requested-by": "webhook", "requested-source": "generic"}
    assert (after["spec"], after["metadata"]["generation"]) == (
        before["spec"],
        before["metadata"]["generation"],
    )
    assert serving.asked("ignitionsync") == {}


@pytest.mark.smoke
@pytest.mark.usefixtures("plant")
async def test_of_two_kinds_of_one_name_the_key_decides(serve: Serve) -> None:
    serving = await asyncio.to_thread(lambda: ready(serve()))
    assert (await serving.post({"ref": "2.0.0"}, key=planted("other-key")))[0] == 202
    assert serving.asked() == {}
    assert serving.asked("ignitionsync")["requested-ref"] == "2.0.0"
    assert (await serving.post({"ref": "2.0.0"}, name="plant?kind=Stoker", key=planted("other-key")))[
        0
    ] == 401


@pytest.mark.smoke
@pytest.mark.usefixtures("plant")
async def test_a_resource_is_served_from_its_creation_to_its_end_and_keys_rotate(serve: Serve) -> None:
    serving = await asyncio.to_thread(lambda: ready(serve(operator_key="0perators")))

    def status_of(**options: Any) -> int:
        return asyncio.run(serving.post({"ref": "2.0.0"}, **options))[0]

    def story() -> None:
        cluster, namespace = serving.cluster, serving.namespace
        assert status_of(name="nothing") == 401
        assert status_of(name="nothing", key="0perators") == 404
        assert status_of(key="0perators") == 202
        patch = json.dumps({"stringData": {"hmac-key": planted("rotated-key")}})
        cluster.kubectl("-n", namespace, "patch", "secret", "plant-webhook", "--type=merge", "-p", patch)
        eventually(lambda: status_of(key=planted("rotated-key")) == 202, 10, "the rotated key to count")
        assert status_of() == 401
        off = json.dumps({"spec": {"webhook": {"enabled": False}}})
        cluster.kubectl("-n", namespace, "patch", "stoker", "plant", "--type=merge", "-p", off)
        eventually(lambda: status_of(key=planted("rotated-key")) == 401, 10, "the resource to be turned off")
        cluster.kubectl("-n", namespace, "delete", "ignitionsync", "plant")
        eventually(lambda: status_of(key="0perators") == 404, 10, "the route to be gone")

    await asyncio.to_thread(story)


@pytest.mark.usefixtures("plant")
async def test_an_api_server_that_is_away_for_a_moment_is_tried_again(
    serve: Serve, http_fault_proxy: HttpFaultProxy
) -> None:
    serving = await asyncio.to_thread(lambda: ready(serve(http_fault_proxy.url)))
    conflict = json.dumps({"kind": "Status", "status": "Failure", "reason": "Conflict", "code": 409}).encode()
    http_fault_proxy.arm(AnsweredFault(409, conflict), "/stokers/plant", method="PATCH", times=2)
    http_fault_proxy.arm(AnsweredFault(502, b"<html>"), "/stokers/plant", method="PATCH", times=1)
    assert (await serving.post({"ref": "2.0.0"}))[0] == 202
    assert [one.status for one in http_fault_proxy.seen("/stokers/plant", method="PATCH")] == [
        409,
        409,
        502,
        200,
    ]
    http_fault_proxy.arm(AnsweredFault(503, b""), "/stokers/plant", method="PATCH", times=None)
    status, result = await serving.post({"ref": "2.0.1"})
    assert (status, result["accepted"]) == (503, False)
    assert serving.asked()["requested-ref"] == "2.0.0"


@pytest.mark.smoke
@pytest.mark.usefixtures("plant")
def test_without_the_right_to_patch_it_says_so_and_claims_nothing(serve: Serve) -> None:
    serving = ready(serve())
    serving.cluster.kubectl("-n", serving.namespace, "delete", "rolebinding", "receiver")
    status = eventually(
        lambda: asyncio.run(serving.post({"ref": secrets.token_hex(4)}))[0] == 503, 10, "a refusal"
    )
    assert status
    assert "RBAC" in serving.process.log.read_text() or "forbidden" in serving.process.log.read_text()


@pytest.fixture
def repository(gitea: GiteaServer) -> GiteaRepository:
    return gitea.create_repository(f"plant-{secrets.token_hex(4)}")


@pytest.mark.xdist_group("gitea")
@pytest.mark.usefixtures("plant")
def test_a_real_gitea_calls_on_push_tag_and_release(serve: Serve, repository: GiteaRepository) -> None:
    serving = ready(serve())
    events = ["push", "create", "delete", "release"]
    repository.hook(f"{serving.url}/plant", secret=KEY, events=events)

    repository.commit("a.txt", b"one\n")
    pushed = eventually(serving.asked, 20, "the push")
    assert pushed["nudged-source"] == "gitea"
    assert "requested-ref" not in pushed

    repository.commit("b.txt", b"two\n", new_branch="feature")
    eventually(lambda: serving.counted().get(("gitea", "ignored"), 0) >= 2, 20, "push and create of feature")
    assert serving.asked() == pushed

    repository.tag("1.0.0")
    eventually(lambda: serving.asked().get("requested-ref") == "1.0.0", 20, "the tag")

    repository.release("3.0.0-rc1", prerelease=True)
    repository.release("2.0.0")
    eventually(lambda: serving.asked().get("requested-ref") == "2.0.0", 20, "the release")
    repository.request("DELETE", "/tags/1.0.0")
    repository.commit("c.txt", b"three\n")
    eventually(lambda: serving.asked()["nudged-at"] > pushed["nudged-at"], 20, "another push")
    assert serving.asked()["requested-ref"] == "2.0.0"
    assert serving.counted().keys() <= {
        ("gitea", "accepted"),
        ("gitea", "ignored"),
        ("github", "ignored"),
        ("unknown", "failed"),
    }


@pytest.mark.xdist_group("gitea")
@pytest.mark.usefixtures("plant")
def test_a_real_gitea_with_the_wrong_secret_or_none_is_turned_away(
    serve: Serve, repository: GiteaRepository
) -> None:
    serving = ready(serve())
    for wrong in ("wrong", ""):
        repository.hook(f"{serving.url}/plant", secret=wrong, events=["push", "release"])
    repository.commit("a.txt", b"one\n")
    eventually(lambda: serving.counted().get(("unknown", "unauthorized"), 0) == 2, 20, "two refusals")
    assert serving.asked() == {}


@pytest.mark.xdist_group("gitea")
@pytest.mark.usefixtures("plant")
def test_a_real_gitea_may_bring_a_token_in_place_of_a_signature(
    serve: Serve, repository: GiteaRepository
) -> None:
    serving = ready(serve())
    repository.hook(f"{serving.url}/plant", events=["create"], authorization=f"Bearer {TOKEN}")
    repository.tag("1.0.0")
    eventually(lambda: serving.asked().get("requested-ref") == "1.0.0", 20, "the tag")
    log = serving.process.log.read_text()
    assert "webhook.accepted" in log
    assert TOKEN not in log
    assert KEY not in log


@pytest.mark.usefixtures("plant")
async def test_a_flood_costs_no_memory_and_signed_requests_get_through_as_one(
    serve: Serve, admin_kubeconfig: Path
) -> None:
    serving = await asyncio.to_thread(lambda: ready(serve()))
    push = {"ref": "refs/heads/main", "before": "0" * 40, "after": "a" * 40, "repository": {"name": "plant"}}
    changes = Counter[str]()
    answers = Counter[int]()
    async with KubeClient(config.load_config(admin_kubeconfig)) as client:
        watching = asyncio.create_task(_watch(client, serving, changes))
        await _flood(serving, answers, 0.5)  # until everything that is made once has been made
        before = _resident(serving.process.pid)
        flood = asyncio.create_task(_flood(serving, answers, FLOOD_SECONDS))

        async def seen() -> bool:
            signed = await asyncio.gather(*(serving.post(push) for _ in range(20)))
            assert {status for status, _ in signed} == {202}
            return bool(changes["MODIFIED"])

        await eventually_async(
            seen, FLOOD_SECONDS, "the watch shows what the first signed one did", interval=0.05
        )
        await flood
        after = _resident(serving.process.pid)
        watching.cancel()
        with suppress(asyncio.CancelledError):
            await watching
    assert changes["MODIFIED"] == 1
    assert sum(answers.values()) >= FLOOD_PER_SECOND
    assert answers.keys() <= {401, 429}
    assert answers[429] > answers[401] > 0
    assert after - before < 8 << 20, f"from {before} to {after} bytes"


async def _watch(client: KubeClient, serving: Serving, changes: Counter[str]) -> None:
    version = serving.resource()["metadata"]["resourceVersion"]
    async with client.watch(
        STOKERS, serving.namespace, resource_version=version, timeout_seconds=60
    ) as lines:
        async for line in lines:
            changes[str(json.loads(line)["type"])] += 1


async def _flood(serving: Serving, answers: Counter[int], seconds: float) -> None:
    """So many unsigned requests a second, as far as this machine can send them."""
    body = b'{"ref": "refs/heads/main"}'
    head = (
        f"POST /webhook/{serving.namespace}/plant HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    )
    request = f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body
    loop = asyncio.get_running_loop()
    end = loop.time() + seconds
    running: set[asyncio.Task[None]] = set()

    async def one() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", serving.port)
        writer.write(request)
        answers[int((await reader.readline()).split()[1])] += 1
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()

    while loop.time() < end:
        for _ in range(FLOOD_PER_SECOND // 50):
            if len(running) < 200:
                task = asyncio.create_task(one())
                running.add(task)
                task.add_done_callback(running.discard)
        await asyncio.sleep(1 / 50)
    await asyncio.gather(*running)


def _resident(pid: int) -> int:
    fields = Path(f"/proc/{pid}/statm").read_text().split()
    return int(fields[1]) * 4096
