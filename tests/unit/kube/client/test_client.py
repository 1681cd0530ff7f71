"""The client against small real servers that give nasty answers."""

from __future__ import annotations

import asyncio
import base64
import gzip
import json
import resource
import ssl
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer, unused_port

from stoker.domain.errors import InvalidValue
from stoker.domain.secrets import Secret
from stoker.kube.client.client import KubeClient, RequestRate
from stoker.kube.client.errors import (
    ApiServerUnreachable,
    Gone,
    Invalid,
    ResponseTooLarge,
    ServerError,
    TooManyRequests,
    Unauthorized,
    UnreadableResponse,
)
from stoker.kube.client.objects import ObjectHeader
from stoker.kube.client.resources import CONFIG_MAPS, SECRETS
from stoker.kube.config.config import ClusterConfig
from stoker.kube.config.credentials import (
    FileCredentials,
    RequestIdentity,
    StaticCredentials,
    bearer_header_from_file,
)
from stoker.kube.config.tls import ServerTrust
from stoker_testkit.certificates import Authority
from stoker_testkit.manual_clock import ManualClock
from stoker_testkit.wait_until import eventually_async

CANARY = "canary-3f9c1a"
Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass
class Server:
    """A real HTTP server that plays a list of answers, the last one for ever, and keeps what it was asked."""

    answers: list[Answer]
    asked: list[web.Request] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    url: str = ""

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.asked.append(request)
        self.bodies.append(await request.read())
        answer = self.answers[min(len(self.asked), len(self.answers)) - 1]
        return await answer(request)


def says(status: int, body: object = b"", **headers: str) -> Answer:
    async def answer(_: web.Request) -> web.StreamResponse:
        data = body if isinstance(body, bytes) else msgspec.json.encode(body)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return web.Response(status=status, body=data, headers=named)

    return answer


def streams(*chunks: bytes, then: Callable[[web.Request], Awaitable[None]] | None = None) -> Answer:
    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        response.enable_chunked_encoding()
        await response.prepare(request)
        for chunk in chunks:
            await response.write(chunk)
        if then is not None:
            await then(request)
        return response

    return answer


@asynccontextmanager
async def serving(*answers: Answer, context: ssl.SSLContext | None = None) -> AsyncIterator[Server]:
    server = Server(list(answers))
    app = web.Application(client_max_size=16 * 1024 * 1024)
    app.router.add_route("*", "/{path:.*}", server.handle)
    http = TestServer(app, scheme="https" if context else "http")
    await http.start_server(ssl=context, shutdown_timeout=0.1)
    try:
        server.url = str(http.make_url("")).rstrip("/")
        yield server
    finally:
        await http.close()


def client_of(server: Server, **options: Any) -> KubeClient:
    token = StaticCredentials(RequestIdentity(Secret(f"Bearer {CANARY}")))
    return KubeClient(ClusterConfig(server=server.url, credentials=token), **options)


OK: dict[str, object] = {"metadata": {"name": "x"}}
BUSY = {"kind": "Status", "message": "slow down", "reason": "TooManyRequests"}


async def get(client: KubeClient) -> ObjectHeader:
    return await client.get(CONFIG_MAPS, "x", "shop", into=ObjectHeader)


async def create(client: KubeClient) -> ObjectHeader:
    return await client.create(CONFIG_MAPS, OK, "shop", into=ObjectHeader)


@pytest.mark.parametrize("status", [429, 503])
async def test_a_busy_server_is_asked_again_when_it_says(status: int) -> None:
    clock = ManualClock()
    answers = (says(status, BUSY, Retry_After="2"), says(200, OK))
    async with serving(*answers) as server, client_of(server, clock=clock) as client:
        asked = asyncio.create_task(get(client))
        await clock.sleeping()
        assert clock.alarms == (2.0,)
        await clock.advance(2)
        assert (await asked).metadata.name == "x"
    assert len(server.asked) == 2


async def test_patience_ends_after_three_tries() -> None:
    clock = ManualClock()
    async with serving(says(429, BUSY, Retry_After="1")) as server, client_of(server, clock=clock) as client:
        asked = asyncio.create_task(get(client))
        for _ in range(2):
            await clock.sleeping()
            await clock.advance(1)
        with pytest.raises(TooManyRequests, match="get configmaps shop/x: slow down") as refused:
            await asked
    assert refused.value.after == 1.0
    assert len(server.asked) == 3


@pytest.mark.parametrize(
    ("answer", "call"),
    [
        (says(429, BUSY, Retry_After="11"), get),
        (says(429, BUSY), get),
        (says(503, b"no healthy upstream"), get),
        (says(500, BUSY, Retry_After="1"), get),
        (says(504, BUSY, Retry_After="1"), get),
        (says(429, BUSY, Retry_After="1"), create),
    ],
    ids=["too long", "no time", "no time either", "500", "504", "not idempotent"],
)
async def test_an_error_that_a_retry_cannot_fix_is_raised_at_once(
    answer: Answer, call: Callable[[KubeClient], Awaitable[ObjectHeader]]
) -> None:
    async with serving(answer) as server, client_of(server, clock=ManualClock()) as client:
        with pytest.raises((TooManyRequests, ServerError)):
            await call(client)
    assert len(server.asked) == 1


@pytest.mark.parametrize(
    ("answer", "kind", "message"),
    [
        (says(502, b"<html><h1>502 Bad Gateway</h1></html>"), ServerError, "answered 502 (502 Bad Gateway)"),
        (says(401), Unauthorized, "the server answered 401 without a word"),
        (says(500, b"x" * 500_000), ServerError, "the server answered 500 without a word"),
        (says(302, b"", Location="https://evil.example/"), Invalid, "answered 302, a redirect"),
        (says(200, b"<html>Sign in</html>"), ServerError, "the answer is not JSON"),
        (says(200, b""), ServerError, "the answer is not JSON"),
        (says(200, b'{"metadata": {"name"'), ServerError, "the answer is not JSON"),
        (says(200, b'{"metadata": {"name": "\xff"}}'), ServerError, "the answer is not JSON"),
        (
            says(200, {"metadata": {"name": 7}}),
            UnreadableResponse,
            "this is not a readable ObjectHeader: Expected `str`, got `int` - at `$.metadata.name`",
        ),
    ],
)
async def test_a_nasty_answer_becomes_one_sentence(
    answer: Answer, kind: type[Exception], message: str
) -> None:
    async with serving(answer) as server, client_of(server) as client:
        with pytest.raises(kind) as refused:
            await get(client)
    assert str(refused.value).startswith("get configmaps shop/x: ")
    assert message in str(refused.value)
    assert CANARY not in repr(refused.value)
    assert len(server.asked) == 1


async def test_a_connection_that_cannot_be_made_is_unreachable() -> None:
    port = unused_port()
    async with KubeClient(ClusterConfig(server=f"http://127.0.0.1:{port}")) as client:
        with pytest.raises(
            ApiServerUnreachable, match=f"http://127.0.0.1:{port} cannot be reached: Connection refused"
        ):
            await get(client)
    async with KubeClient(ClusterConfig(server="http://nowhere.invalid")) as client:
        with pytest.raises(ApiServerUnreachable, match="cannot be reached: its name is not known"):
            await get(client)


@asynccontextmanager
async def replying(*replies: bytes) -> AsyncIterator[tuple[str, list[bytes]]]:
    """A port that answers each connection with some bytes, HTTP or not, and hangs up."""
    asked: list[bytes] = []

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(replies[len(asked) - 1])
        await writer.drain()
        writer.close()
        await writer.wait_closed()

    listener = await asyncio.start_server(talk, "127.0.0.1", 0)
    async with listener:
        yield f"127.0.0.1:{listener.sockets[0].getsockname()[1]}", asked


async def test_a_server_that_is_no_web_server_is_unreachable() -> None:
    replies = (
        b"SSH-2.0-OpenSSH_9.2\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{",
        b"",
    )
    token = StaticCredentials(RequestIdentity(Secret(f"Bearer {CANARY}")))
    async with (
        replying(*replies) as (address, _),
        KubeClient(ClusterConfig(server=f"http://{address}", credentials=token)) as client,
    ):
        for message in (
            "does not answer in HTTP",
            "broke off in the middle of its answer",
            "closed the connection without an answer",
        ):
            with pytest.raises(ApiServerUnreachable, match=message) as refused:
                # A POST, because aiohttp itself repeats a GET on a connection that was closed.
                await create(client)
            assert CANARY not in "".join(traceback.format_exception(refused.value))


async def test_a_proxy_that_fails_is_named_without_its_password() -> None:
    async with replying(b"HTTP/1.1 407 Who are you\r\nContent-Length: 0\r\n\r\n") as (address, asked):
        settings = ClusterConfig(server="https://host.invalid", proxy=Secret(f"http://me:{CANARY}@{address}"))
        async with KubeClient(settings) as client:
            with pytest.raises(
                ApiServerUnreachable, match="cannot be reached: the proxy answered 407"
            ) as refused:
                await get(client)
    assert CANARY not in "".join(traceback.format_exception(refused.value))
    assert asked[0].startswith(b"CONNECT host.invalid:443 ")
    assert b"Proxy-Authorization: Basic " + base64.b64encode(f"me:{CANARY}".encode()) in asked[0]
    async with KubeClient(settings) as client:
        with pytest.raises(ApiServerUnreachable, match="the proxy does not answer") as refused:
            await get(client)
    assert CANARY not in "".join(traceback.format_exception(refused.value))


async def test_an_answer_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    async with serving(says(200, b"x" * 5_000_000)) as server, client_of(server, max_body=100_000) as client:
        with pytest.raises(
            ResponseTooLarge, match="get configmaps shop/x: the answer is longer than 100000 bytes"
        ):
            await get(client)


async def test_an_answer_that_unpacks_to_far_too_much_is_not_unpacked_to_its_end() -> None:
    bomb = gzip.compress(b"x" * 300_000_000)
    async with (
        serving(says(200, bomb, Content_Encoding="gzip")) as server,
        client_of(server, max_body=100_000) as client,
    ):
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        with pytest.raises(ResponseTooLarge, match="longer than 100000 bytes"):
            await client.get(CONFIG_MAPS, "x", "shop", into=ObjectHeader)
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000  # kilobytes


async def test_a_page_that_is_too_large_is_asked_for_in_smaller_ones() -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        limit = int(request.query["limit"])
        start = int(request.query.get("continue", "0"))
        items = [
            {"metadata": {"name": f"{index}"}, "data": "x" * 900} for index in range(start, start + limit)
        ]
        following = {"continue": str(start + limit)} if start + limit < 62 else {}
        return web.json_response({"metadata": {"resourceVersion": "7", **following}, "items": items})

    async with serving(answer) as server, client_of(server, max_body=50_000) as client:
        sizes = [len(page.items) async for page in client.pages(CONFIG_MAPS)]
        assert sizes == [31, 31]
        with pytest.raises(ResponseTooLarge):
            async with client_of(server, max_body=500) as small:
                await small.list(CONFIG_MAPS, into=ObjectHeader)
    limits = [request.query["limit"] for request in server.asked]
    assert limits == ["500", "125", "31", "31", "500", "125", "31", "7", "1"]


async def test_a_list_that_expires_between_pages_begins_anew() -> None:
    gone = says(410, {"kind": "Status", "reason": "Expired", "message": "too old"})
    first = says(200, {"metadata": {"resourceVersion": "1", "continue": "c"}, "items": [OK]})
    last = says(200, {"metadata": {"resourceVersion": "2"}, "items": None})
    async with serving(first, gone, first, gone, first, last) as server, client_of(server) as client:
        assert len(await client.list(CONFIG_MAPS, "shop", into=ObjectHeader)) == 1
        assert [request.query.get("continue") for request in server.asked] == [None, "c"] * 3
    async with serving(gone) as server, client_of(server) as client:
        with pytest.raises(Gone):
            await client.list(CONFIG_MAPS, into=ObjectHeader)
    assert len(server.asked) == 3


async def test_a_401_is_worth_one_read_of_a_new_token(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("first")

    async def answer(request: web.Request) -> web.StreamResponse:
        if request.headers["Authorization"] == "Bearer second":
            return web.json_response(OK)
        if replaced:
            file.write_text(replaced.pop())
        return web.Response(status=401)

    replaced = ["second"]
    async with serving(answer) as server:
        credentials = FileCredentials(lambda: RequestIdentity(bearer_header_from_file(file)), ManualClock())
        async with KubeClient(ClusterConfig(server=server.url, credentials=credentials)) as client:
            assert (await create(client)).metadata.name == "x"
            assert server.bodies[0] == server.bodies[1] == json.dumps(OK, separators=(",", ":")).encode()
            replaced.append("third")
            file.write_text("fourth")
            assert (await create(client)).metadata.name == "x"
            assert len(server.asked) == 3, "the second token is still good"


async def test_a_token_that_stays_the_same_is_not_tried_twice(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("first")
    async with serving(says(401)) as server:
        credentials = FileCredentials(
            lambda: RequestIdentity(bearer_header_from_file(tmp_path / "token")), ManualClock()
        )
        async with KubeClient(ClusterConfig(server=server.url, credentials=credentials)) as client:
            with pytest.raises(Unauthorized):
                await get(client)
    assert len(server.asked) == 1


async def test_what_is_sent_is_what_the_verb_means() -> None:
    async with serving(says(200, OK)) as server, client_of(server, user_agent="stoker/test") as client:
        await client.apply(CONFIG_MAPS, OK, "x", "shop", manager="me", force=False, into=ObjectHeader)
        await client.patch(
            CONFIG_MAPS, b'{"data":null}', "x", "shop", into=ObjectHeader, subresource="status"
        )
        await client.delete(CONFIG_MAPS, "x", "shop", uid="u")
        await client.raw("GET", "/version", query={"a": "b c"}, headers={"Accept": "text/plain"})
    apply, patch, _, raw = server.asked
    assert (apply.method, apply.content_type) == ("PATCH", "application/apply-patch+yaml")
    assert dict(apply.query) == {"fieldManager": "me", "force": "false"}
    assert (patch.path, patch.content_type) == (
        "/api/v1/namespaces/shop/configmaps/x/status",
        "application/merge-patch+json",
    )
    assert server.bodies[1] == b'{"data":null}'
    assert json.loads(server.bodies[2]) == {
        "kind": "DeleteOptions",
        "apiVersion": "v1",
        "propagationPolicy": "Background",
        "preconditions": {"uid": "u"},
    }
    assert raw.rel_url.raw_query_string == "a=b%20c"
    assert raw.headers.getall("Accept") == ["text/plain"]
    for request in server.asked:
        assert request.headers["Authorization"] == f"Bearer {CANARY}"
        assert request.headers["User-Agent"] == "stoker/test"
        assert request.headers["Accept-Encoding"] == "identity"
    assert apply.headers.getall("Accept") == ["application/json"]


async def test_what_cannot_be_sent_never_is() -> None:
    async with serving(says(200, OK)) as server:
        async with client_of(server) as client:
            for path in ("version", "/a/../b", "/a?b", "/a#b", "/%2e%2E", "/a b", "/ü"):
                with pytest.raises(InvalidValue, match="is not a path of the API"):
                    await client.raw("GET", path)
            with pytest.raises(InvalidValue, match="none was named to create it in"):
                await client.create(CONFIG_MAPS, OK, into=ObjectHeader)
            with pytest.raises(InvalidValue, match="a parameter is not text that can be sent"):
                await client.list(CONFIG_MAPS, into=ObjectHeader, labels="\ud800")
        with pytest.raises(RuntimeError, match="outside of its `async with` block"):
            await get(client)
    assert server.asked == []


async def test_a_refused_secret_is_not_quoted() -> None:
    refusal = {"kind": "Status", "reason": "Invalid", "message": f'Invalid value: "{CANARY}"'}
    async with serving(says(422, refusal)) as server, client_of(server) as client:
        with pytest.raises(Invalid) as refused:
            await client.patch(SECRETS, {"data": {}}, "x", "shop", into=ObjectHeader)
    assert str(refused.value) == "patch secrets shop/x: the server answered 422 Invalid"


async def test_requests_keep_to_their_rate() -> None:
    clock = ManualClock()
    async with (
        serving(says(200, OK)) as server,
        client_of(server, clock=clock, rate=RequestRate(qps=1, burst=2)) as client,
    ):
        asked = asyncio.gather(*(get(client) for _ in range(3)))
        await clock.sleeping()
        waited: bool = await eventually_async(lambda: len(server.asked) == 2, 10.0, "the burst to pass")
        await clock.advance(1)
        assert len(await asked) == 3
    assert waited


async def watched(client: KubeClient, idle_timeout: float = 20.0) -> list[bytes]:
    async with client.watch(
        CONFIG_MAPS, "shop", resource_version="5", timeout_seconds=30, idle_timeout=idle_timeout
    ) as lines:
        return [line async for line in lines]


async def test_a_watch_gives_whole_lines_however_they_come() -> None:
    large = b'{"type":"ADDED","object":"' + b"x" * 3_000_000 + b'"}'
    async with (
        serving(streams(b'{"a":', b"1}\n\n{}\r\n" + large, b"\n")) as server,
        client_of(server) as client,
    ):
        assert await watched(client) == [b'{"a":1}', b"{}", large]
    assert dict(server.asked[0].query) == {
        "watch": "true",
        "allowWatchBookmarks": "true",
        "resourceVersion": "5",
        "timeoutSeconds": "30",
    }


async def test_a_watch_that_is_gone_at_once_says_so() -> None:
    gone = {"kind": "Status", "reason": "Expired", "message": "too old resource version: 5 (900)"}
    async with serving(says(410, gone)) as server, client_of(server) as client:
        with pytest.raises(Gone, match=r"watch configmaps in shop: too old resource version: 5 \(900\)"):
            await watched(client)


async def test_a_watch_that_breaks_off_is_unreachable() -> None:
    async def cut(request: web.Request) -> None:
        assert request.transport is not None
        request.transport.abort()

    async with (
        serving(streams(b'{"a":1}\n{"b"'), streams(b"{}\n", then=cut)) as server,
        client_of(server) as client,
    ):
        with pytest.raises(ApiServerUnreachable, match="the stream broke off in the middle of an event"):
            await watched(client)
        with pytest.raises(ApiServerUnreachable, match="broke off in the middle of its answer"):
            await watched(client)


async def test_a_watch_line_without_an_end_is_given_up_on() -> None:
    endless = (b"x" * 1024 * 1024,) * 65
    async with serving(streams(*endless)) as server, client_of(server) as client:
        with pytest.raises(ApiServerUnreachable, match="the server sends a line without an end"):
            await watched(client)


async def test_a_silent_watch_is_unreachable() -> None:
    async def forever(_: web.Request) -> None:
        await asyncio.Event().wait()

    async with serving(streams(b"{}\n", then=forever)) as server, client_of(server) as client:
        with pytest.raises(
            ApiServerUnreachable, match=r"watch configmaps in shop: .* did not answer within 0\.2 s"
        ):
            await watched(client, idle_timeout=0.2)


async def test_leaving_a_watch_closes_its_connection() -> None:
    left = asyncio.Event()

    async def until_left(_: web.Request) -> None:
        await left.wait()

    async with serving(streams(b"{}\n", then=until_left)) as server, client_of(server) as client:
        async with client.watch(CONFIG_MAPS, resource_version="5", timeout_seconds=300) as lines:
            assert await anext(lines) == b"{}"
            assert server.asked[0].transport is not None
        closed: bool = await eventually_async(
            lambda: server.asked[0].transport is None, 5.0, "the server to see the connection close"
        )
        left.set()
    assert closed


async def test_a_replaced_authority_is_taken_up_after_a_refusal(tmp_path: Path) -> None:
    old, new = Authority("old"), Authority("new")
    pair = new.server().save(tmp_path, "server")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(pair.certificate, pair.key)
    file = tmp_path / "ca.crt"
    file.write_bytes(old.pem)
    async with (
        serving(says(200, OK), context=context) as server,
        KubeClient(ClusterConfig(server=server.url, trust=ServerTrust(ca_file=file))) as client,
    ):
        with pytest.raises(ApiServerUnreachable, match="shows a certificate that is not trusted"):
            await get(client)
        file.write_bytes(new.pem)
        assert (await get(client)).metadata.name == "x"


async def test_a_server_without_tls_is_described() -> None:
    async with serving(says(200, OK)) as server:
        plain = server.url.replace("http://", "https://")
        async with KubeClient(ClusterConfig(server=plain)) as client:
            with pytest.raises(ApiServerUnreachable, match="does not speak TLS"):
                await get(client)
