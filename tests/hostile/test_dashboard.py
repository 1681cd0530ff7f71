"""Hostile visitors of a dashboard: huge, slow, forged, foreign and many; nothing moves, nothing leaks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, suppress
from http.cookies import Morsel
from typing import Any

import msgspec
import pytest
import pytest_asyncio

from stoker.dashboard import sessions, sse
from stoker.dashboard.interfaces import Visitor
from stoker.dashboard.server import DashboardOptions, DashboardServer
from stoker.dashboard.view_models import CommitView
from stoker.domain.secrets import Secret
from stoker_testkit.dashboard import sample_fleets
from stoker_testkit.dashboard.api_client import CSRF, DashboardClient
from stoker_testkit.dashboard.fake_fleet_server import EDITOR, FakeActions, FakeAuth, FakeViewSource
from stoker_testkit.wait_until import eventually_async

MARKUP = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\r\nX-Evil: 1"


class DashboardEnvironment:
    def __init__(self) -> None:
        self.scene, self.gate = FakeViewSource(), FakeAuth()
        self.scene.put(*sample_fleets.mixed())
        self.hands = FakeActions(self.scene)
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> DashboardEnvironment:
        settings = DashboardOptions(address="127.0.0.1:0", names=frozenset({"plant.example.net"}))
        self.dashboard = await self._stack.enter_async_context(
            DashboardServer(self.scene, self.hands, self.gate, settings=settings)
        )
        self.url = f"http://127.0.0.1:{self.dashboard.port}"
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    async def visit(self, token: str = EDITOR) -> DashboardClient:
        visit = await self._stack.enter_async_context(DashboardClient(self.url))
        if token:
            assert (await visit.sign_in(token)).status == 200
        return visit

    def asked(self, path: str, cookie: Morsel[str], *more: str) -> bytes:
        lines = (
            f"GET {path} HTTP/1.1",
            f"Host: 127.0.0.1:{self.dashboard.port}",
            f"Cookie: {cookie.key}={cookie.value}",
            *more,
        )
        return "".join(f"{line}\r\n" for line in (*lines, "")).encode()

    async def raw(self, request: bytes) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.dashboard.port)
        try:
            writer.write(request)
            await writer.drain()
            return await asyncio.wait_for(reader.read(1 << 16), 15)
        finally:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()


@pytest_asyncio.fixture
async def environment() -> AsyncIterator[DashboardEnvironment]:
    async with DashboardEnvironment() as environment:
        yield environment


async def still_fine(environment: DashboardEnvironment) -> None:
    visit = await environment.visit()
    assert (await visit.get("/api/picture")).status == 200
    assert environment.hands.orders == []


BODIES: list[bytes] = [
    b"",
    b"null",
    b"[]",
    b"{}",
    b'"stop"',
    b"{" * 5000,
    b'{"action": ' + b"[" * 5000,
    b'{"action": "destroy"}',
    b'{"action": 1}',
    b'{"action": null}',
    b'{"action": "stop", "more": 1}',
    b'{"action": "sync", "namespace": ["a"]}',
    b'{"action": "sync", "namespace": 1e400}',
    b'{"action": "sync", "name": "' + b"a" * 301 + b'"}',
    b'{"action": "sync", "name": "a\\u0000b"}',
    b'{"action": "sync", "name": "a\\r\\nSet-Cookie: x=1"}',
    b'{"action": "sync", "gateway": "\\u007f"}',
    b'{"action": "sync", "name": "\\ud800"}',
    b'\xff\xfe{"action": "stop"}',
    b'{"action": "stop"} {"action": "stop"}',
    b"action=stop",
]


@pytest.mark.parametrize("body", BODIES, ids=lambda body: repr(body[:40]))
async def test_bodies_that_are_no_orders_order_nothing(
    environment: DashboardEnvironment, body: bytes
) -> None:
    visit = await environment.visit()
    headers = {CSRF: visit.csrf, "Content-Type": "application/json"}
    response = await visit.ask("POST", "/api/actions", data=body, headers=headers)
    assert response.status == 400
    assert response.error
    assert environment.hands.orders == []


@pytest.mark.parametrize("declared", [True, False])
async def test_huge_bodies_are_cut_off(environment: DashboardEnvironment, declared: bool) -> None:
    visit = await environment.visit()

    async def endless() -> AsyncIterator[bytes]:
        for _ in range(4096):
            yield b" " * 65536

    data: Any = b'{"action": "stop", "name": "' + b"a" * (900 << 10) + b'"}' if declared else endless()
    for path in ("/api/actions", "/api/session"):
        headers = {CSRF: visit.csrf, "Content-Type": "application/json"}
        try:
            response = await visit.ask("POST", path, data=data, headers=headers)
            assert response.status == 413
        except (ConnectionError, OSError):
            pass  # hung up on before all of it was sent
        data = data if declared else endless()
    await still_fine(environment)


async def test_a_body_that_never_ends_is_not_waited_for(
    environment: DashboardEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stoker.dashboard.request_body.BODY_SECONDS", 0.2)
    response = await environment.raw(
        b"POST /api/session HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        b'Content-Length: 100\r\n\r\n{"token": "'
    )
    assert response.startswith(b"HTTP/1.1 408")


@pytest.mark.parametrize(
    "path",
    [
        "/static/",
        "/static/../server.py",
        "/static/%2e%2e/server.py",
        "/static/..%2fserver.py",
        "/static/%2e%2e%2fserver.py",
        "/static/..\\server.py",
        "/static//etc/passwd",
        "/static/%00index.html",
        "/static/index.html%00.js",
        "/static/./main.js/../../server.py",
        "/static/static",
        "//static/main.js",
        "/../../etc/passwd",
        "/server.py",
        "/index.html/..",
        "/STATIC/main.js",
    ],
)
async def test_a_path_leads_nowhere_but_to_the_page(environment: DashboardEnvironment, path: str) -> None:
    response = await environment.raw(
        f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode()
    )
    assert response.split(b" ")[1] in (b"404", b"400"), response[:200]
    assert b"root:" not in response
    assert b"import" not in response


@pytest.mark.parametrize(
    "path",
    [
        "/api/gateways/../../picture",
        "/api/gateways/%2e%2e/%2e%2e/x/y",
        "/api/gateways/plant%2FStoker%2Fline-1/a/b/c",
        "/api/gateways/" + "a" * 3000 + "/b/c/d",
        "/api/gateways/%ff/%00/%0d%0a/x",
        "/api/gateways/a/b/c/" + "%F0%9F%92%A9" * 100,
    ],
)
async def test_an_unknown_gateway_is_not_found(environment: DashboardEnvironment, path: str) -> None:
    visit = await environment.visit()
    (cookie,) = visit.client.cookie_jar
    response = await environment.raw(environment.asked(path, cookie, "Connection: close"))
    assert response.split(b" ")[1] in (b"404", b"400"), response[:200]


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://localhost"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image"},
    ],
    ids=str,
)
async def test_another_page_orders_nothing_and_signs_no_user_in_or_out(
    environment: DashboardEnvironment, headers: dict[str, str]
) -> None:
    visit = await environment.visit()
    sent = {CSRF: visit.csrf, **headers}
    assert (await visit.ask("POST", "/api/actions", json={"action": "stop"}, headers=sent)).status == 403
    assert (await visit.ask("POST", "/api/session", json={"token": EDITOR}, headers=sent)).status == 403
    assert (await visit.ask("DELETE", "/api/session", headers=sent)).status == 403
    if headers.get("Sec-Fetch-Site"):
        assert (await visit.ask("GET", "/api/picture", headers=sent)).status == 403
    assert (await visit.ask("OPTIONS", "/api/actions", headers=sent)).status == 405
    await still_fine(environment)


async def test_a_form_of_another_page_is_not_read(environment: DashboardEnvironment) -> None:
    visit = await environment.visit()
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=b"):
        headers = {CSRF: visit.csrf, "Content-Type": kind}
        response = await visit.ask("POST", "/api/actions", data=b'{"action": "stop"}', headers=headers)
        assert response.status == 415
    await still_fine(environment)


@pytest.mark.parametrize(
    "host", ["rebound.example", "rebound.example:8090", "127.0.0.1.rebound.example", "", "a b"]
)
async def test_a_name_that_was_pointed_here_gets_nothing(
    environment: DashboardEnvironment, host: str
) -> None:
    for path in ("/", "/static/main.js", "/api/session"):
        response = await environment.raw(
            f"GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode()
        )
        assert response.split(b" ")[1] in (b"421", b"400")
        assert b"<html" not in response


async def test_a_token_in_an_address_is_refused_and_opens_nothing(environment: DashboardEnvironment) -> None:
    visit = await environment.visit("")
    for path in ("/", "/api/session", "/api/picture", "/api/events", "/static/main.js"):
        for name in ("token", "access_token", "ToKeN"):
            response = await visit.get(f"{path}?{name}={EDITOR}")
            assert response.status == 400
            assert EDITOR.encode() not in response.body
    assert len(environment.dashboard.sessions) == 0


async def test_tokens_that_could_become_headers_are_refused(environment: DashboardEnvironment) -> None:
    visit = await environment.visit("")
    for token in ("a\r\nX-Evil: 1", "a\0", "ü", " ", "", "a" * 20_000):
        response = await visit.sign_in(token)
        assert response.status in (401, 413)
        assert "X-Evil" not in response.headers
    assert "Set-Cookie" not in (await visit.sign_in("x" * 3000)).headers


async def test_broken_http_is_answered_without_a_trace(environment: DashboardEnvironment) -> None:
    for request in (
        b"GET / HTTP/1.1\r\nHost: localhost\r\nX: a\r\n b\r\n\r\n\0\0",
        b"\x16\x03\x01\x02\x00\x01\x00\x01",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n",
        b"POST /api/session HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
        b"GET /" + b"a" * 20_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nCookie: " + b"a=b; " * 4000 + b"\r\n\r\n",
    ):
        response = await environment.raw(request)
        assert b"Traceback" not in response
        assert b"aiohttp" not in response.lower()
        assert b"python" not in response.lower()
    await still_fine(environment)


@pytest.mark.parametrize("cookie", ["", "a", "a" * 4000, '"; drop', "%00", "../../x", "\u00e9"])
async def test_a_made_up_session_is_none(environment: DashboardEnvironment, cookie: str) -> None:
    name = f"stoker-{environment.dashboard.port}"
    head = (
        f"GET /api/picture HTTP/1.1\r\nHost: localhost:{environment.dashboard.port}\r\nConnection: close\r\n"
    )
    assert (await environment.raw(f"{head}Cookie: {name}={cookie}\r\n\r\n".encode())).split(b" ")[1] in (
        b"401",
        b"400",
    )


async def test_thousands_of_sessions_of_one_visitor_push_out_no_other_user(
    environment: DashboardEnvironment,
) -> None:
    quiet = await environment.visit("viewer-token")
    loud = Visitor("loud", (), Secret("t"))
    for _ in range(1000):
        environment.dashboard.sessions.begin(loud)
    assert len(environment.dashboard.sessions) <= sessions.MAX_SESSIONS_PER_USER + 1
    for number in range(sessions.MAX_SESSIONS + 100):
        environment.dashboard.sessions.begin(Visitor(f"v{number}", (), Secret("t")))
    assert len(environment.dashboard.sessions) == sessions.MAX_SESSIONS
    assert (await quiet.get("/api/picture")).status == 401, "the quietest went, and must sign in again"
    await still_fine(environment)


async def test_there_are_so_many_streams_and_no_more(environment: DashboardEnvironment) -> None:
    visit = await environment.visit()
    async with AsyncExitStack() as stack:
        for _ in range(sse.MAX_STREAMS_PER_USER):
            await anext(await stack.enter_async_context(visit.events()))
        with pytest.raises(PermissionError, match="429"):
            await stack.enter_async_context(visit.events())
        assert (await visit.get("/api/picture")).status == 200
    await eventually_async(lambda: environment.dashboard.streams.open == 0)
    async with visit.events() as events:
        await anext(events)


async def test_a_reader_that_is_slow_gets_the_newest_and_costs_one_picture(
    environment: DashboardEnvironment,
) -> None:
    """Everything of a large fleet changes hundreds of times while a client reads nothing."""
    visit = await environment.visit()
    (cookie,) = visit.client.cookie_jar
    reader, writer = await asyncio.open_connection("127.0.0.1", environment.dashboard.port, limit=1 << 14)
    writer.write(environment.asked("/api/events", cookie))
    await writer.drain()
    await eventually_async(lambda: environment.dashboard.streams.open == 1)
    padding = "x" * 20_000
    fleet = [sample_fleets.resource(f"r{number}") for number in range(50)]
    one_round = 50 * 20_000
    rounds = 60
    for turn in range(rounds):
        environment.scene.put(
            *(sample_fleets.resource(one.name, message=f"{turn} {padding}") for one in fleet)
        )
        await asyncio.sleep(0.02)
    got = b""
    last = f'"message":"{rounds - 1} xxx'.encode()
    while got.count(last) < 50:
        chunk = await asyncio.wait_for(reader.read(1 << 16), 20)
        assert chunk, "the stream ended"
        got += chunk
    assert len(got) < 12 * one_round, "it was sent every state in between"
    writer.close()
    await eventually_async(lambda: environment.dashboard.streams.open == 0)


async def test_a_client_that_reads_nothing_is_disconnected(
    environment: DashboardEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sse, "STUCK_SECONDS", 0.3)
    visit = await environment.visit()
    (cookie,) = visit.client.cookie_jar
    _, writer = await asyncio.open_connection("127.0.0.1", environment.dashboard.port, limit=1 << 12)
    writer.write(environment.asked("/api/events", cookie))
    await eventually_async(lambda: environment.dashboard.streams.open == 1)
    turn = 0

    def gone() -> bool:
        nonlocal turn
        turn += 1
        environment.scene.put(
            *(sample_fleets.resource(f"r{n}", message=f"{turn}" + "x" * 100_000) for n in range(100))
        )
        return environment.dashboard.streams.open == 0

    await eventually_async(gone, 20, interval=0.1)
    writer.close()
    await still_fine(environment)


async def test_markup_in_commits_paths_and_names_stays_data(environment: DashboardEnvironment) -> None:
    destination = sample_fleets.destinations()[0]
    evil = msgspec.structs.replace(
        destination, recent=(CommitView(commit="c", author=MARKUP, subject=MARKUP, at=None),), message=MARKUP
    )
    environment.scene.put(evil, sample_fleets.resource("evil", message=MARKUP, ref=MARKUP))
    visit = await environment.visit()
    response = await visit.get("/api/picture")
    assert response.headers["Content-Type"] == "application/json"
    assert response.headers["X-Content-Type-Options"] == "nosniff"
    assert "X-Evil" not in response.headers
    assert response.json["destinations"][0]["recent"][0]["subject"] == MARKUP
    async with visit.events() as events:
        picture = await anext(events)
        assert picture.data["destinations"][0]["message"] == MARKUP
        environment.scene.put(sample_fleets.resource("evil", message=MARKUP + "\n\nevent: bye\ndata: {}\n\n"))
        change = await anext(events)
        assert change.name == "change"
        assert change.data["resources"][0]["message"].endswith("data: {}\n\n")


async def test_nothing_secret_is_logged(
    environment: DashboardEnvironment, capfd: pytest.CaptureFixture[str]
) -> None:
    visit = await environment.visit("")
    await visit.sign_in("a-wrong-token-of-somebody")
    await visit.sign_in(EDITOR)
    await visit.get(f"/api/picture?token={EDITOR}")
    await visit.order(action="stop")
    (cookie,) = visit.client.cookie_jar
    printed = "".join(capfd.readouterr())
    for secret in ("a-wrong-token-of-somebody", EDITOR, cookie.value, visit.csrf):
        assert secret not in printed
    assert "dashboard.login_refused" in printed
