"""Everything that can come out of a port instead of a gateway's answer, from a real socket.

Whatever it is, the client ends within its time with an error of our own or with a
value that is bounded and printable; it follows no redirect, keeps nothing, and never shows
the key.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import tracemalloc
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from stoker.domain.errors import Retry, StokerError
from stoker.domain.reasons import Reason
from stoker.domain.secrets import Secret
from stoker.ignition.client.address import GatewayAddress
from stoker.ignition.client.gateway import GatewayClient, ScanKind
from stoker.ignition.client.http import MAX_ANSWER_BYTES
from stoker.ignition.client.requests import GatewayRequests
from stoker.ignition.client.responses import PathNotOffered
from stoker_testkit.wait_until import eventually_async

CANARY = "canary-4711"
KEY = f"stoker:{CANARY}"
ANSWER_SECONDS = 10.0


class Impostor:
    """Reads a request's head and answers with the bytes of the test."""

    def __init__(self, answer: bytes, *, then: str = "close") -> None:
        self.answer = answer
        self.requests: list[str] = []
        self._then = then
        self.port = 0

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[Impostor]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        async with server:
            yield self
            server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            self.requests.append(head.decode("latin-1"))
            writer.write(self.answer)
            await writer.drain()
            if self._then == "drip":
                while True:
                    writer.write(b"x")
                    await writer.drain()
                    await asyncio.sleep(0.02)
            if self._then == "flood":
                while True:
                    writer.write(b"x" * 65536)
                    await writer.drain()
            if self._then == "hang":
                await reader.read()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    @property
    def address(self) -> GatewayAddress:
        return GatewayAddress("127.0.0.1", self.port, tls=False)

    @asynccontextmanager
    async def client(self) -> AsyncIterator[GatewayClient]:
        gateway = GatewayClient(self.address, lambda: Secret(KEY))
        try:
            yield gateway
        finally:
            await gateway.aclose()


def answered(body: bytes, status: str = "200 OK", kind: str | None = "application/json", *more: str) -> bytes:
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", "Connection: close", *more]
    if kind is not None:
        lines.append(f"Content-Type: {kind}")
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def an_object(value: object) -> bytes:
    return answered(json.dumps(value).encode())


Question = Callable[[GatewayClient], Awaitable[object]]

QUESTIONS: dict[str, Question] = {
    "presence": GatewayClient.presence,
    "check": GatewayClient.check,
    "projects": GatewayClient.project_names,
    "tag providers": GatewayClient.tag_providers,
    "managed": GatewayClient.managed_providers,
    "designers": GatewayClient.designers,
    "sessions": GatewayClient.perspective_sessions,
    "modules": GatewayClient.modules,
    "restarts": GatewayClient.pending_restarts,
    "types": lambda gateway: gateway.types_of("default"),
    "scan": lambda gateway: gateway.scan(ScanKind.PROJECTS),
    "lock": lambda gateway: gateway.lock(ScanKind.PROJECTS, acquire=1, hold=1),
    "lock info": lambda gateway: gateway.lock_info(ScanKind.CONFIG),
    "write": GatewayClient.may_write,
    "restart": GatewayClient.restart,
    "message": lambda gateway: gateway.message_session("1", "hello"),
    "close": lambda gateway: gateway.close_session("1", "bye"),
}

ANSWERS = {
    "nothing": b"",
    "garbage": b"\x00\xff" * 50 + b"\r\n\r\n",
    "tls alert": b"\x15\x03\x01\x00\x02\x02\x46",
    "half a head": b"HTTP/1.1 200 OK\r\nContent-Ty",
    "no such status": b"HTTP/1.1 999 What\r\nContent-Length: 0\r\n\r\n",
    "status of words": b"HTTP/1.1 many OK\r\n\r\n",
    "endless header": b"HTTP/1.1 200 OK\r\nX: " + b"y" * 200_000 + b"\r\n\r\n",
    "many headers": b"HTTP/1.1 200 OK\r\n" + b"".join(b"X%d: 1\r\n" % n for n in range(20_000)) + b"\r\n",
    "cut off body": b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 500\r\n\r\n{",
    "bad chunks": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n",
    "negative length": b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n",
    "empty 200": answered(b""),
    "no content type": answered(b"{}", "200 OK", None),
    "wrong content type": answered(b'{"items":[]}', "200 OK", "application/octet-stream"),
    "login page": answered(b"<html><form action=/login>", "200 OK", "text/html"),
    "html called json": answered(b"<html>", "200 OK"),
    "truncated json": answered(b'{"items":[{"id":"1"'),
    "json of nan": answered(b'{"items":[NaN],"metadata":{"total":Infinity}}'),
    "deep json": answered(b"[" * 200_000),
    "deep objects": answered(b'{"items":' * 20_000),
    "large number": answered(b'{"items":[],"metadata":{"total":' + b"9" * 9_000 + b"}}"),
    "float beyond": answered(b'{"items":[{"id":"1","uptime":1e999}]}'),
    "wrong encoding": answered('{"items":["ä"]}'.encode("utf-16")),
    "bad encoding": answered(b'{"items":["\xff\xfe"]}'),
    "lone surrogates": answered(b'{"items":[{"name":"\\ud800","id":"\\udfff","user":"\\ud83d"}]}'),
    "items are numbers": answered(b'{"items":[1,2,3],"pending":[1],"tags":[5]}'),
    "items are lists": answered(b'{"items":[[],[[]]],"tags":[[]]}'),
    "ids are objects": answered(b'{"items":[{"id":{},"name":[],"user":1,"project":null}]}'),
    "metadata is a list": answered(b'{"items":[],"metadata":[]}'),
    "total is a word": answered(b'{"items":[],"metadata":{"total":"many"}}'),
    "a first page": answered(b'{"items":[{"name":"a"}],"metadata":{"total":5000}}'),
    "success false": answered(b'{"success":false,"message":"a\\nb\\u001b[31m"}'),
    "success zero": answered(b'{"success":0}'),
    "error of lists": answered(b'{"message":[[[]]],"error":{"message":{}}}', "400 Bad"),
    "empty 401": answered(b"", "401 Unauthorized", None),
    "json 403": answered(b'{"message":"no"}', "403 Forbidden"),
    "html 404": answered(b"<html>", "404 Not Found", "text/html"),
    "redirect without place": answered(b"", "302 Found", None),
    "redirect to https": answered(b"", "302 Found", None, "Location: https://elsewhere/"),
    "redirect to nonsense": answered(b"", "302 Found", None, "Location: http://[::/%zz"),
    "redirect to itself": answered(b"", "307 Temporary", None, "Location: /system/gwinfo"),
    "500 of a megabyte": answered(b"<html><th>MESSAGE:</th><td>" + b"x" * 2**20, "500 Broken", "text/html"),
    "continue for ever": b"HTTP/1.1 100 Continue\r\n\r\n" * 5,
    "switching": b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n",
    "gzip": answered(gzip.compress(b'{"items":[]}'), "200 OK", "application/json", "Content-Encoding: gzip"),
    "unknown coding": answered(b"{}", "200 OK", "application/json", "Content-Encoding: zstd"),
    "gwinfo of separators": answered(b"=;" * 50_000, "200 OK", "text/plain"),
    "gwinfo of escapes": answered(b"ContextStatus=RUNNING;Version=\x1b[2J\r\n8.3", "200 OK", "text/plain"),
}


async def outcome(asked: Awaitable[object]) -> str:
    """What came of it, as it would be shown; a foreign exception would hold the request's headers."""
    try:
        return repr(await asyncio.wait_for(asked, ANSWER_SECONDS))
    except StokerError as error:
        return error.message if error.__cause__ is None else f"\n{error.__cause__!r}"


@pytest.mark.parametrize("name", ANSWERS)
async def test_no_answer_is_beyond_the_client(name: str) -> None:
    """Every question gets this answer; each ends in an error of our own or in something small."""
    for question in QUESTIONS.values():
        async with Impostor(ANSWERS[name]).listening() as impostor, impostor.client() as gateway:
            result = await outcome(question(gateway))
            assert result.isprintable()
            assert CANARY not in result
            assert len(result) < 2_000


@pytest.mark.parametrize("then", ["drip", "hang"])
async def test_a_response_that_never_ends_is_given_up(then: str) -> None:
    started = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 1000000\r\n\r\n{"
    async with Impostor(started, then=then).listening() as impostor:
        asking = GatewayRequests(impostor.address, lambda: Secret(KEY))
        with pytest.raises(Retry, match=r"did not answer within 0\.3 s") as given_up:
            await asking.ask("GET", "/data/api/v1/designers", "listing designers", within=0.3)
        assert given_up.value.reason is Reason.GATEWAY_UNREACHABLE
        await asking.aclose()


async def test_a_flood_is_cut_off_and_takes_no_more_memory_than_its_limit() -> None:
    async with Impostor(b"HTTP/1.1 200 OK\r\n\r\n", then="flood").listening() as impostor:
        async with impostor.client() as gateway:
            tracemalloc.start()
            try:
                with pytest.raises(Retry, match="more than 8 MiB"):
                    await gateway.project_names()
                peak = tracemalloc.get_traced_memory()[1]
            finally:
                tracemalloc.stop()
        assert peak < 3 * MAX_ANSWER_BYTES


async def test_a_body_that_is_small_on_the_wire_and_large_in_memory_is_not_unpacked() -> None:
    """8 MiB of empty lists would be 200 MB of objects, and a few KiB of gzip gigabytes of zeros."""
    lists = b'{"items":[' + b"[]," * (MAX_ANSWER_BYTES // 4) + b"1]}"
    zeros = gzip.compress(bytes(64 * 2**20))
    packed = answered(zeros, "200 OK", "application/json", "Content-Encoding: gzip")
    for body in (answered(lists), packed):
        async with Impostor(body).listening() as impostor, impostor.client() as gateway:
            tracemalloc.start()
            try:
                with pytest.raises(Retry) as refused:
                    await gateway.project_names()
                peak = tracemalloc.get_traced_memory()[1]
            finally:
                tracemalloc.stop()
        assert refused.value.reason is Reason.GATEWAY_ERROR
        assert peak < 40 * 2**20


async def test_a_redirect_gets_no_key_and_no_second_request() -> None:
    async with Impostor(answered(b"", "200 OK")).listening() as elsewhere:
        location = f"Location: http://127.0.0.1:{elsewhere.port}/"
        async with Impostor(answered(b"", "307 Elsewhere", None, location)).listening() as impostor:
            async with impostor.client() as gateway:
                with pytest.raises(Retry, match="points elsewhere"):
                    await gateway.project_names()
            assert len(impostor.requests) == 1
        assert not elsewhere.requests


async def test_what_a_server_wants_to_be_kept_is_not_sent_back() -> None:
    cookie = "Set-Cookie: session=1; Path=/"
    answer = answered(b"[]", "200 OK", "application/json", cookie)
    async with Impostor(answer).listening() as impostor, impostor.client() as gateway:
        await gateway.project_names()
        await gateway.project_names()
    assert len(impostor.requests) == 2
    assert "cookie" not in "".join(impostor.requests).lower()


async def test_the_key_goes_only_where_a_key_is_needed() -> None:
    page = answered(b"<html>", "200 OK", "text/html")
    async with Impostor(page).listening() as impostor, impostor.client() as gateway:
        await gateway.presence()
    assert impostor.requests
    assert not [head for head in impostor.requests if CANARY in head]


@pytest.mark.parametrize(
    "session", ["../projects/x", "a b?c=d#e", "%2e%2e", "é\u2028", "a&sessionId=b", "x/y"]
)
async def test_an_id_from_a_gateway_stays_one_part_of_a_path(session: str) -> None:
    async with Impostor(answered(b"true")).listening() as impostor, impostor.client() as gateway:
        await gateway.message_session(session, "x")
        await gateway.close_session(session, "a&b=c")
    first, second = (head.partition(" HTTP/1.1")[0] for head in impostor.requests)
    method, _, path = first.partition(" ")
    assert method == "POST"
    assert path.startswith("/data/api/v2/sessions/")
    assert path.endswith("/message")
    assert path.count("/") == 6
    assert not set("?#& ") & set(path)
    assert second.count("sessionId=") == 1
    assert second.count("&") == 1


@pytest.mark.parametrize("session", ["", ".", ".."])
async def test_an_id_that_would_select_every_session_is_never_sent(session: str) -> None:
    async with Impostor(answered(b"true")).listening() as impostor, impostor.client() as gateway:
        with pytest.raises(PathNotOffered):
            await gateway.close_session(session, "x")
        with pytest.raises(PathNotOffered):
            await gateway.message_session(session, "x")
    assert not impostor.requests


async def test_connections_are_not_kept_when_nothing_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stoker.ignition.client.http.KEEPALIVE_SECONDS", 0.1)
    body = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n[]"
    left = 0

    class Keeping(Impostor):
        async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonlocal left
            await super()._serve(reader, writer)
            left += 1

    async with Keeping(body, then="hang").listening() as impostor, impostor.client() as gateway:
        await gateway.project_names()
        await eventually_async(lambda: left == 1)
