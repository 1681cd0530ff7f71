"""The receiver over real HTTP: what is answered, what is read, and what it causes."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import hmac
import json
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import pytest_asyncio

from stoker.domain.errors import Misconfigured, Retry, StokerError
from stoker.domain.intent.intent import ResourceIdentity, SyncResourceKind
from stoker.domain.intent.source import SecretKey
from stoker.domain.refs import GitRef
from stoker.domain.secrets import Secret
from stoker.http_server import connections
from stoker.kube.client.errors import Forbidden, NotFound
from stoker.telemetry.metrics import Metrics
from stoker.webhooks.receiver.caller_auth import CallerKeys
from stoker.webhooks.receiver.index import IndexedResource, ReceiverIndex
from stoker.webhooks.receiver.receiver import ReceiverOptions, WebhookReceiver
from stoker_testkit.certificates import Authority
from stoker_testkit.wait_until import eventually_async

PLANT = "/webhook/site1/plant"
HMAC, TOKEN = SecretKey("hook", "hmac-key"), SecretKey("hook", "token")
WHO = ResourceIdentity(SyncResourceKind.STOKER, "site1", "plant")
TWIN = ResourceIdentity(SyncResourceKind.IGNITION_SYNC, "site1", "plant")
KNOWN = IndexedResource(WHO, GitRef("main"), ("*",), hmac_key=HMAC, bearer=TOKEN)
BODY = b'{"ref": "2.0.0"}'
PUSH = json.dumps({"ref": "refs/heads/main", "before": "0" * 40, "after": "a" * 40}).encode()


def signed(body: bytes = BODY, key: str = "k3y") -> dict[str, str]:
    return {"X-Hub-Signature-256": "sha256=" + hmac.new(key.encode(), body, hashlib.sha256).hexdigest()}


@dataclass(frozen=True)
class ReceiverResponse:
    """An answer."""

    status: int
    headers: Mapping[str, str]
    text: str

    @property
    def json(self) -> dict[str, Any]:
        found = json.loads(self.text)
        assert isinstance(found, dict)
        return found


@dataclass
class ReceiverEnvironment:
    """A receiver, what it knows, and what it caused."""

    settings: ReceiverOptions = field(default_factory=lambda: ReceiverOptions(address="127.0.0.1:0"))
    index: ReceiverIndex = field(default_factory=ReceiverIndex)
    secrets: dict[SecretKey, Secret] = field(
        default_factory=lambda: {HMAC: Secret("k3y"), TOKEN: Secret("t0ken")}
    )
    operator: CallerKeys = field(default_factory=CallerKeys)
    written: list[tuple[ResourceIdentity, dict[str, str]]] = field(default_factory=list)
    failure: StokerError | None = None
    hold: asyncio.Event | None = None
    listed: bool = True
    tls: ssl.SSLContext | None = None
    metrics: Metrics = field(default_factory=Metrics)
    looked_up: list[tuple[str, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.index.put(KNOWN)
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> ReceiverEnvironment:
        self.receiver = await self._stack.enter_async_context(
            WebhookReceiver(
                self.find,
                lambda _, key: self.secrets.get(key),
                self.annotate,
                operator_keys=lambda: self.operator,
                settings=self.settings,
                metrics=self.metrics,
                tls=self.tls,
                ready=lambda: self.listed,
            )
        )
        self.session = await self._stack.enter_async_context(aiohttp.ClientSession())
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    def find(self, namespace: str, name: str) -> tuple[IndexedResource, ...]:
        self.looked_up.append((namespace, name))
        return self.index.find(namespace, name)

    async def annotate(self, who: ResourceIdentity, annotations: Mapping[str, str]) -> None:
        if self.hold is not None:
            await self.hold.wait()
        if self.failure is not None:
            raise self.failure
        self.written.append((who, dict(annotations)))

    async def post(
        self,
        body: Any = BODY,
        path: str = PLANT,
        headers: Mapping[str, str] | None = None,
        method: str = "POST",
        scheme: str = "http",
        **options: Any,
    ) -> ReceiverResponse:
        given = signed(body) if headers is None else headers
        url = f"{scheme}://127.0.0.1:{self.receiver.port}{path}"
        kind = {"Content-Type": "application/json"}
        async with self.session.request(
            method, url, data=body, headers={**kind, **given}, **options
        ) as answer:
            return ReceiverResponse(answer.status, answer.headers, await answer.text())

    def counted(self, **labels: str) -> float:
        wanted = ",".join(f'{name}="{value}"' for name, value in sorted(labels.items()))
        for line in self.metrics.page([]).decode().splitlines():
            if line.startswith(f"ignition_sync_webhook_received_total{{{wanted}}}"):
                return float(line.split()[-1])
        return 0.0


@pytest_asyncio.fixture
async def environment() -> AsyncIterator[ReceiverEnvironment]:
    async with ReceiverEnvironment() as made:
        yield made


async def test_a_signed_request_is_accepted_and_becomes_annotations(environment: ReceiverEnvironment) -> None:
    response = await environment.post()
    assert response.status == 202
    assert response.json == {"accepted": True, "ref": "2.0.0"}
    ((who, annotations),) = environment.written
    assert who == WHO
    at = annotations.pop("stoker.io/requested-at")
    assert at.endswith("Z")
    assert annotations == {
        "stoker.io/requested-ref": "2.0.0",
        "stoker.io/requested-by": "webhook",
        "stoker.io/requested-source": "generic",
    }


async def test_a_push_of_another_branch_is_answered_with_the_reason_and_changes_nothing(
    environment: ReceiverEnvironment,
) -> None:
    body = b'{"ref": "refs/heads/feature", "before": "", "after": ""}'
    response = await environment.post(body)
    assert response.status == 202
    assert response.json == {
        "accepted": False,
        "ref": "feature",
        "reason": "ignored: push to feature, this resource follows main",
    }
    assert environment.written == []


async def test_a_push_of_the_branch_that_is_followed_is_a_request_without_a_ref(
    environment: ReceiverEnvironment,
) -> None:
    assert (await environment.post(b'{"ref": "refs/heads/main"}')).json == {"accepted": True, "ref": "main"}
    assert set(environment.written[0][1]) == {
        "stoker.io/nudged-at",
        "stoker.io/nudged-source",
    }


async def test_a_ref_that_is_not_allowed_is_not_taken(environment: ReceiverEnvironment) -> None:
    environment.index.put(IndexedResource(WHO, GitRef("main"), ("v*",), hmac_key=HMAC))
    response = await environment.post()
    assert (response.status, response.json["accepted"]) == (202, False)
    assert "allowedRefs" in response.json["reason"]
    assert environment.written == []


@pytest.mark.parametrize(
    "headers", [{"Authorization": "Bearer t0ken"}, {"X-Gitlab-Token": "k3y"}, {"X-Gitea-Signature": "…"}]
)
async def test_each_proof_is_taken(environment: ReceiverEnvironment, headers: dict[str, str]) -> None:
    if "X-Gitea-Signature" in headers:
        headers = {"X-Gitea-Signature": signed()["X-Hub-Signature-256"].removeprefix("sha256=")}
    assert (await environment.post(headers=headers)).status == 202


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"X-Hub-Signature-256": "sha256=" + "0" * 64},
        {"X-Hub-Signature-256": "sha1=" + "0" * 40},
        {"Authorization": "Bearer wrong"},
        {"Authorization": "Basic dDBrZW4="},
        {"X-Gitlab-Token": "wrong"},
        signed(b'{"ref": "2.0.1"}'),
    ],
)
async def test_strangers_get_the_same_answer_whether_the_resource_exists_or_not(
    environment: ReceiverEnvironment, headers: dict[str, str]
) -> None:
    answers = [await environment.post(path=path, headers=headers) for path in (PLANT, "/webhook/no/where")]
    assert [one.status for one in answers] == [401, 401]
    assert answers[0].text == answers[1].text
    assert answers[0].headers.keys() == answers[1].headers.keys()
    assert environment.written == []


async def test_only_the_operators_key_learns_that_a_resource_is_missing(
    environment: ReceiverEnvironment,
) -> None:
    environment.operator = CallerKeys(hmac=Secret("operators"))
    assert (await environment.post(path="/webhook/no/where")).status == 401
    response = await environment.post(path="/webhook/no/where", headers=signed(key="operators"))
    assert response.status == 404
    assert response.json == {"accepted": False, "reason": "there is no no/where to ask for"}
    assert (await environment.post(headers=signed(key="operators"))).status == 202


async def test_no_credential_at_all_is_a_401_for_every_caller(environment: ReceiverEnvironment) -> None:
    environment.index.put(IndexedResource(WHO, GitRef("main")))
    for headers in ({}, signed(key=""), {"Authorization": "Bearer "}, {"X-Gitlab-Token": ""}):
        assert (await environment.post(headers=headers)).status == 401


async def test_a_resource_that_is_turned_off_or_deleted_has_no_route(
    environment: ReceiverEnvironment,
) -> None:
    environment.operator = CallerKeys(hmac=Secret("operators"))
    environment.index.put(IndexedResource(WHO, GitRef("main"), hmac_key=HMAC, enabled=False))
    assert (await environment.post()).status == 401
    assert (await environment.post(headers=signed(key="operators"))).status == 404
    environment.index.forget(WHO)
    assert (await environment.post()).status == 401


async def test_a_rotated_secret_counts_from_the_next_request_on(environment: ReceiverEnvironment) -> None:
    environment.secrets[HMAC] = Secret("rotated")
    assert (await environment.post()).status == 401
    assert (await environment.post(headers=signed(key="rotated"))).status == 202
    del environment.secrets[HMAC]
    assert (await environment.post(headers=signed(key="rotated"))).status == 401


async def test_of_two_kinds_with_one_name_kind_chooses_and_the_key_otherwise(
    environment: ReceiverEnvironment,
) -> None:
    environment.index.put(IndexedResource(TWIN, GitRef("main"), ("*",), hmac_key=HMAC))
    assert (await environment.post(path=f"{PLANT}?kind=IgnitionSync")).status == 202
    assert (await environment.post(path=f"{PLANT}?kind=stoker")).status == 202
    assert [who for who, _ in environment.written] == [TWIN, WHO]
    assert "sync.ignition.io/requested-ref" in environment.written[0][1]
    assert (await environment.post(b'{"ref": "3.0.0"}')).status == 202
    assert {who for who, _ in environment.written[2:]} == {WHO, TWIN}
    assert (await environment.post(path=f"{PLANT}?kind=Pod")).status == 400


@pytest.mark.parametrize(
    ("path", "method", "status"),
    [
        ("/", "POST", 404),
        ("/webhook", "POST", 404),
        ("/webhook/site1", "POST", 404),
        ("/webhook/site1/plant/", "POST", 404),
        ("/webhook/site1/plant/x", "POST", 404),
        ("/webhook/Site1/plant", "POST", 404),
        ("/webhook/site1/..%2f..", "POST", 404),
        ("/webhook/site1/" + "a" * 64, "POST", 404),
        (PLANT, "GET", 405),
        (PLANT, "PUT", 405),
        ("/webhook/no/where", "DELETE", 405),
    ],
)
async def test_there_is_nothing_else(
    environment: ReceiverEnvironment, path: str, method: str, status: int
) -> None:
    response = await environment.post(path=path, method=method)
    assert response.status == status
    assert response.headers.get("Allow") == ("POST" if status == 405 else None)
    assert environment.looked_up == []


@pytest.mark.parametrize("kind", ["application/x-www-form-urlencoded", "text/plain", "multipart/form-data"])
async def test_only_json_is_taken(environment: ReceiverEnvironment, kind: str) -> None:
    response = await environment.post(headers={**signed(), "Content-Type": kind})
    assert response.status == 415
    assert response.json["reason"] == "the content type must be application/json"


@pytest.mark.parametrize("kind", ["application/json; charset=utf-8", "application/vnd.github+json"])
async def test_json_has_several_names(environment: ReceiverEnvironment, kind: str) -> None:
    assert (await environment.post(headers={**signed(), "Content-Type": kind})).status == 202


async def test_a_body_without_a_type_is_taken_for_json(environment: ReceiverEnvironment) -> None:
    url = f"http://127.0.0.1:{environment.receiver.port}{PLANT}"
    async with environment.session.post(
        url, data=BODY, headers=signed(), skip_auto_headers=["Content-Type"]
    ) as answer:
        assert answer.status == 202


async def test_a_compressed_body_is_never_unpacked(environment: ReceiverEnvironment) -> None:
    bomb = gzip.compress(b" " * 50_000_000)
    response = await environment.post(bomb, headers={**signed(bomb), "Content-Encoding": "gzip"})
    assert response.status == 415


async def test_an_unreadable_body_is_a_400_to_an_authenticated_caller(
    environment: ReceiverEnvironment,
) -> None:
    for body in (b"", b"no json", b"{}", b'{"ref": "--upload-pack=x"}', b'{"ref": "a", "ref": "b"}'):
        response = await environment.post(body)
        assert response.status == 400
        assert len(response.json["reason"]) > 10
    assert (await environment.post(b"no json", headers={})).status == 401
    assert environment.written == []


async def test_a_large_body_is_refused_before_it_is_read(environment: ReceiverEnvironment) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", environment.receiver.port)
    head = (
        f"POST {PLANT} HTTP/1.1\r\nHost: x\r\nX-Gitlab-Token: k3y\r\nContent-Length: {(1 << 20) + 1}\r\n\r\n"
    )
    writer.write(head.encode())
    try:
        answer = await asyncio.wait_for(reader.readuntil(b"\r\n"), 5)  # not one byte of the body was sent
    finally:
        writer.close()
        await writer.wait_closed()
    assert answer.startswith(b"HTTP/1.1 413 ")


async def test_a_body_of_unknown_length_is_capped(environment: ReceiverEnvironment) -> None:
    async def endless() -> AsyncIterator[bytes]:
        for _ in range(40):
            yield b"x" * (64 * 1024)

    with suppress(aiohttp.ClientError):  # it may hang up while we are still sending
        assert (await environment.post(endless(), headers={"X-Gitlab-Token": "k3y"})).status == 413
    assert environment.written == []


async def test_a_body_of_just_the_size_is_taken(environment: ReceiverEnvironment) -> None:
    body = b'{"ref": "2.0.0"' + b" " * ((1 << 20) - 16) + b"}"
    assert len(body) == 1 << 20
    assert (await environment.post(body)).status == 202


async def test_a_body_that_does_not_come_is_not_waited_for() -> None:
    async with ReceiverEnvironment(ReceiverOptions(address="127.0.0.1:0", body_seconds=0.2)) as environment:
        reader, writer = await asyncio.open_connection("127.0.0.1", environment.receiver.port)
        writer.write(
            f"POST {PLANT} HTTP/1.1\r\nHost: x\r\nX-Gitlab-Token: k\r\nContent-Length: 9\r\n\r\n".encode()
        )
        answer = await asyncio.wait_for(reader.readuntil(b"\r\n"), 5)
        writer.close()
        await writer.wait_closed()
        assert answer.startswith(b"HTTP/1.1 408 ")


async def test_so_many_bodies_of_a_source_are_read_at_once_and_no_more() -> None:
    async with ReceiverEnvironment(
        ReceiverOptions(address="127.0.0.1:0", bodies_per_source=2)
    ) as environment:
        head = f"POST {PLANT} HTTP/1.1\r\nHost: x\r\nX-Gitlab-Token: k\r\nContent-Length: 9\r\n\r\n".encode()
        slow = [await asyncio.open_connection("127.0.0.1", environment.receiver.port) for _ in range(2)]
        for _, writer in slow:
            writer.write(head)
        await eventually_async(lambda: len(environment.receiver._reads) == 2, 5, "two bodies being read")
        response = await environment.post()
        assert response.status == 429
        assert response.headers["Retry-After"] == "1"
        for _, writer in slow:
            writer.close()
            await writer.wait_closed()
        await eventually_async(lambda: not environment.receiver._reads, 10, "nothing being read")
        assert (await environment.post()).status == 202


def _reads(environment: ReceiverEnvironment, number: int) -> bool:
    return len(environment.receiver._reads) == number


async def test_slow_senders_keep_no_other_out_however_many_addresses_they_have() -> None:
    settings = ReceiverOptions(address="127.0.0.1:0", bodies_at_once=2, trusted_proxies=("127.0.0.1/32",))
    async with ReceiverEnvironment(settings) as environment:
        slow = [await asyncio.open_connection("127.0.0.1", environment.receiver.port) for _ in range(2)]
        for number, (_, writer) in enumerate(slow):
            head = f"POST {PLANT} HTTP/1.1\r\nHost: x\r\nX-Gitlab-Token: k\r\nContent-Length: 9\r\n"
            writer.write(f"{head}X-Forwarded-For: 192.0.2.{number}\r\n\r\n".encode())
            busy = partial(_reads, environment, number + 1)
            await eventually_async(busy, 5, "a slow body")
        assert (await environment.post()).status == 202
        first = await asyncio.wait_for(slow[0][0].readuntil(b"\r\n"), 5)
        assert first.startswith(b"HTTP/1.1 408 ")
        assert list(environment.receiver._reads.values()) == ["192.0.2.1"]
        for _, writer in slow:
            writer.close()
            await writer.wait_closed()


async def test_a_caller_that_fails_too_often_gets_a_retry_after() -> None:
    async with ReceiverEnvironment(
        ReceiverOptions(address="127.0.0.1:0", failures_per_minute=5)
    ) as environment:
        wrong = {"X-Gitlab-Token": "wrong"}
        statuses = [(await environment.post(headers=wrong)).status for _ in range(8)]
        assert statuses == [401] * 5 + [429] * 3
        response = await environment.post()
        assert response.status == 429
        assert 1 <= int(response.headers["Retry-After"]) <= 12
        assert environment.counted(source="unknown", result="limited") == 4
        assert len(environment.looked_up) == 5


async def test_unsigned_requests_do_not_starve_signed_ones_from_the_same_address() -> None:
    async with ReceiverEnvironment(
        ReceiverOptions(address="127.0.0.1:0", failures_per_minute=5)
    ) as environment:
        statuses = [(await environment.post(headers={})).status for _ in range(20)]
        assert statuses == [401] * 5 + [429] * 15
        assert [(await environment.post(PUSH)).status for _ in range(20)] == [202] * 20
        assert environment.looked_up == [("site1", "plant")] * 20


async def test_errors_of_an_authenticated_sender_are_not_counted_against_it() -> None:
    async with ReceiverEnvironment(
        ReceiverOptions(address="127.0.0.1:0", failures_per_minute=3)
    ) as environment:
        assert [(await environment.post(b"rubbish")).status for _ in range(10)] == [400] * 10


async def test_behind_a_trusted_proxy_sources_are_distinguished() -> None:
    settings = ReceiverOptions(
        address="127.0.0.1:0", failures_per_minute=2, trusted_proxies=("127.0.0.0/8", "::1/128")
    )
    async with ReceiverEnvironment(settings) as environment:
        bad = {"X-Gitlab-Token": "wrong", "X-Forwarded-For": "203.0.113.9"}
        assert [(await environment.post(headers=bad)).status for _ in range(3)] == [401, 401, 429]
        assert (await environment.post(headers={**signed(), "X-Forwarded-For": "198.51.100.4"})).status == 202


async def test_many_equal_requests_at_once_are_one_write(environment: ReceiverEnvironment) -> None:
    answers = await asyncio.gather(*(environment.post(PUSH) for _ in range(50)))
    assert {one.status for one in answers} == {202}
    assert len(environment.written) == 1


@pytest.mark.parametrize(
    ("failure", "status"),
    [
        (Retry("it is away"), 503),
        (Forbidden("RBAC says no", status=403), 503),
        (NotFound("gone", status=404), 404),
    ],
)
async def test_what_could_not_be_written_is_not_called_accepted(
    environment: ReceiverEnvironment, failure: StokerError, status: int
) -> None:
    environment.failure = failure
    response = await environment.post()
    assert response.status == status
    assert response.json["accepted"] is False
    assert response.headers.get("Retry-After") == ("5" if status == 503 else None)
    assert failure.message not in response.text or status == 404


async def test_an_api_server_that_does_not_answer_is_a_503_in_time() -> None:
    async with ReceiverEnvironment(ReceiverOptions(address="127.0.0.1:0", effect_seconds=0.2)) as environment:
        environment.hold = asyncio.Event()
        assert (await environment.post()).status == 503
        environment.hold.set()
        await eventually_async(lambda: environment.written, 5, "the write that was begun")


async def test_until_everything_is_listed_no_caller_is_refused_for_good(
    environment: ReceiverEnvironment,
) -> None:
    environment.listed = False
    response = await environment.post()
    assert (response.status, response.headers["Retry-After"]) == (503, "5")
    environment.listed = True
    assert (await environment.post()).status == 202


async def test_every_request_is_counted_by_sender_and_result(environment: ReceiverEnvironment) -> None:
    await environment.post()
    await environment.post(
        headers={**signed(b'{"zen": "x"}'), "X-GitHub-Event": "ping"}, body=b'{"zen": "x"}'
    )
    await environment.post(headers={"X-GitHub-Event": "push"})
    await environment.post(b"rubbish")
    assert environment.counted(source="generic", result="accepted") == 1
    assert environment.counted(source="github", result="ignored") == 1
    assert environment.counted(source="unknown", result="unauthorized") == 1
    assert environment.counted(source="unknown", result="malformed") == 1


async def test_no_answer_and_no_log_line_holds_a_secret(
    environment: ReceiverEnvironment, capfd: pytest.CaptureFixture[str]
) -> None:
    environment.failure = Retry("away")
    response = [
        await environment.post(headers={"Authorization": "Bearer t0ken"}),
        await environment.post(headers={"X-Gitlab-Token": "wr0ng-t0ken"}),
    ]
    shown = "".join(one.text + str(one.headers) for one in response) + "".join(capfd.readouterr())
    assert "webhook.not_written" in shown
    assert "t0ken" not in shown
    assert "k3y" not in shown


async def test_tls_is_served_where_a_certificate_is_given(tmp_path: Path) -> None:
    authority = Authority("webhooks")
    pair = authority.server().save(tmp_path, "receiver")
    authority.save(tmp_path)
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(pair.certificate, pair.key)
    trusting = ssl.create_default_context(cafile=str(tmp_path / "ca.crt"))
    async with ReceiverEnvironment(tls=serving) as environment:
        assert (await environment.post(scheme="https", ssl=trusting)).status == 202
        with pytest.raises(aiohttp.ClientError):
            await environment.post()


async def test_a_port_in_use_is_named(environment: ReceiverEnvironment) -> None:
    with pytest.raises(Misconfigured, match=str(environment.receiver.port)):
        async with ReceiverEnvironment(ReceiverOptions(address=f"127.0.0.1:{environment.receiver.port}")):
            pass


async def test_an_address_of_0_turns_it_off() -> None:
    async with ReceiverEnvironment(ReceiverOptions(address="0")) as environment:
        assert environment.receiver.port is None


async def test_a_silent_connection_is_closed(
    monkeypatch: pytest.MonkeyPatch, environment: ReceiverEnvironment
) -> None:
    monkeypatch.setattr(connections.StrictHttpServer, "first_request_seconds", 0.2)
    reader, writer = await asyncio.open_connection("127.0.0.1", environment.receiver.port)
    writer.write(b"POST /webhook/site1/plant HTTP/1.1\r\nHost: ")
    with pytest.raises(ConnectionError):
        await asyncio.wait_for(_to_the_end(reader), 5)
    writer.close()


async def test_there_are_so_many_connections_and_no_more(
    monkeypatch: pytest.MonkeyPatch, environment: ReceiverEnvironment
) -> None:
    monkeypatch.setattr(connections.StrictHttpServer, "most_connections", 3)
    held = [await asyncio.open_connection("127.0.0.1", environment.receiver.port) for _ in range(3)]
    assert await _heard(environment) is None
    for _, writer in held:
        writer.close()
        await writer.wait_closed()
    assert await eventually_async(lambda: _heard(environment), 5, "a free place")


async def _heard(environment: ReceiverEnvironment) -> ReceiverResponse | None:
    try:
        return await environment.post()
    except aiohttp.ClientError:
        return None


async def _to_the_end(reader: asyncio.StreamReader) -> None:
    if not await reader.read():
        raise ConnectionResetError
