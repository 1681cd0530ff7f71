"""Probes over real HTTP: checks are answered, a failed one is named, nothing else is shown."""

from __future__ import annotations

import asyncio
import io
import socket
import struct
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import pytest
from aiohttp import web

from stoker.domain.errors import Misconfigured
from stoker.telemetry import logs
from stoker.telemetry.health import Heartbeat, ProcessHealth
from stoker.telemetry.metrics import MetricReading, Metrics
from stoker.telemetry.probes import ListenAddress, ProbeServer, QuietHandler, parse_address
from stoker_testkit.manual_clock import ManualClock
from stoker_testkit.wait_until import eventually_async

ANY = "127.0.0.1:0"


@asynccontextmanager
async def serving(
    health: ProcessHealth | None = None,
    metrics: Metrics | None = None,
    *,
    health_address: str = ANY,
    metrics_address: str = ANY,
) -> AsyncIterator[ProbeServer]:
    server = ProbeServer(
        health or ProcessHealth(),
        metrics or Metrics(),
        health_address=health_address,
        metrics_address=metrics_address,
    )
    async with server:
        yield server


async def ask(port: int | None, path: str, method: str = "GET") -> tuple[int, str, dict[str, str]]:
    async with (
        aiohttp.ClientSession() as session,
        session.request(method, f"http://127.0.0.1:{port}{path}") as response,
    ):
        return response.status, await response.text(), dict(response.headers)


async def send_raw(port: int | None, request: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    async with asyncio.timeout(10):
        answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    return answer


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/startupz"])
async def test_without_a_complaint_the_answer_is_ok(path: str) -> None:
    async with serving() as server:
        assert (await ask(server.health_port, path))[:2] == (200, "ok\n")


async def test_each_question_has_its_own_checks_and_names_what_fails() -> None:
    health, trouble = ProcessHealth(), {"why": "the first list is not in"}
    health.live.add("worker", lambda: None)
    health.ready.add("caches", lambda: trouble.get("why"))
    health.ready.add("lease", lambda: "another replica leads")
    async with serving(health) as server:
        assert (await ask(server.health_port, "/healthz"))[0] == 200
        status, text, _ = await ask(server.health_port, "/readyz")
        assert status == 503
        assert text == "caches: the first list is not in\nlease: another replica leads\n"
        trouble.clear()
        health.ready.remove("lease")
        assert (await ask(server.health_port, "/readyz"))[:2] == (200, "ok\n")


async def test_a_check_that_raises_fails_without_details() -> None:
    def broken() -> str | None:
        raise RuntimeError("c4n4ry")

    health = ProcessHealth()
    health.live.add("worker", broken)
    health.live.add("other", lambda: "cannot reach https://user:c4n4ry@host")
    async with serving(health) as server:
        status, text, _ = await ask(server.health_port, "/healthz")
    assert status == 503
    assert text == "worker: the check itself failed\nother: cannot reach https://<secret>@host\n"


async def test_liveness_fails_when_a_worker_gives_no_sign_of_life_and_recovers_with_it() -> None:
    clock, health = ManualClock(), ProcessHealth()
    heart = Heartbeat(clock, limit=60)
    health.live.add("worker 1", heart.check)
    async with serving(health) as server:
        await clock.advance(60)
        assert (await ask(server.health_port, "/healthz"))[0] == 200
        await clock.advance(30)
        status, text, _ = await ask(server.health_port, "/healthz")
        assert (status, text) == (503, "worker 1: no sign of life for 90 s, allowed are 60 s\n")
        heart.beat()
        assert (await ask(server.health_port, "/healthz"))[0] == 200


async def test_metrics_are_served_in_prometheus_text_form() -> None:
    metrics = Metrics()
    metrics.counter("ignition_sync_reconcile_total", "Passes.", ("cr",)).inc(cr="site")
    loop_thread, asked_in = threading.get_ident(), set[int]()

    def reading() -> list[MetricReading]:
        asked_in.add(threading.get_ident())
        return [MetricReading("depth", "Depth.", 3)]

    metrics.collect_from(reading)
    async with serving(metrics=metrics) as server:
        status, text, headers = await ask(server.metrics_port, "/metrics")
        assert (await ask(server.health_port, "/metrics"))[0] == 404
        assert (await ask(server.metrics_port, "/healthz"))[0] == 404
    assert status == 200
    assert headers["Content-Type"].startswith("text/plain; version=0.0.4")
    assert 'ignition_sync_reconcile_total{cr="site"} 1.0\n' in text
    assert "depth 3.0\n" in text
    assert asked_in == {loop_thread}


async def test_one_address_can_serve_both() -> None:
    address = f"127.0.0.1:{free_port()}"
    async with serving(health_address=address, metrics_address=address) as server:
        assert server.health_port == server.metrics_port
        assert (await ask(server.health_port, "/healthz"))[0] == 200
        assert (await ask(server.health_port, "/metrics"))[0] == 200


@pytest.mark.parametrize("off", ["0", "", " "])
async def test_an_address_can_be_off(off: str) -> None:
    async with serving(health_address=off, metrics_address=off) as server:
        assert (server.health_port, server.metrics_port) == (None, None)


async def test_an_empty_host_listens_on_every_interface() -> None:
    port = free_port()
    async with serving(health_address=f":{port}", metrics_address="0") as server:
        assert server.health_port == port
        assert (await ask(port, "/healthz"))[0] == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
async def test_only_get_and_head_are_answered(method: str) -> None:
    async with serving() as server:
        status, _, headers = await ask(server.health_port, "/healthz", method)
        assert status == 405
        assert headers["Allow"] == "GET, HEAD"
        head_status, text, _ = await ask(server.health_port, "/healthz", "HEAD")
        assert (head_status, text) == (200, "")


async def test_no_answer_shows_a_version() -> None:
    async with serving() as server:
        answers = [
            await send_raw(server.health_port, request)
            for request in (
                b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
                b"GET /nothing HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
                b"POST /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
                b"\x16\x03\x01 this is no HTTP\r\n\r\n",
                b"GET /healthz HTTP/1.1\r\nbroken header\r\n\r\n",
            )
        ]
        metrics = await send_raw(
            server.metrics_port, b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
        )
    statuses = [answer.split(b" ", 2)[1] for answer in answers]
    assert statuses == [b"200", b"404", b"405", b"400", b"400"]
    for answer in (*answers, metrics):
        head = answer.partition(b"\r\n\r\n")[0].lower()
        assert b"server: stoker\r\n" in head + b"\r\n"
        assert b"python" not in head
        assert b"aiohttp" not in head


async def test_a_page_that_cannot_be_made_is_a_plain_500() -> None:
    class Broken(Metrics):
        def page(self, readings: object) -> bytes:
            raise RuntimeError("c4n4ry")

    async with serving(metrics=Broken()) as server:
        status, text, headers = await ask(server.metrics_port, "/metrics")
    assert (status, text) == (500, "the request failed\n")
    assert headers["Server"] == "stoker"


async def test_a_port_in_use_is_named() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(
            Misconfigured, match=f"cannot listen on 127.0.0.1:{port}: port {port} is already in use"
        ):
            async with serving(metrics_address=f"127.0.0.1:{port}"):
                pass


async def test_when_the_second_port_fails_the_first_is_closed_again() -> None:
    first = free_port()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(Misconfigured):
            async with serving(
                health_address=f"127.0.0.1:{first}", metrics_address=f"127.0.0.1:{taken.getsockname()[1]}"
            ):
                pass
    async with serving(health_address=f"127.0.0.1:{first}") as server:
        assert server.health_port == first


async def test_an_address_of_another_machine_is_named() -> None:
    with pytest.raises(Misconfigured, match=r"cannot listen on 192.0.2.1:8081: .*port 8081"):
        async with serving(health_address="192.0.2.1:8081"):
            pass


async def test_after_the_stop_no_probe_is_answered() -> None:
    async with serving() as server:
        port = server.health_port
        await ask(port, "/healthz")
    with pytest.raises(aiohttp.ClientConnectionError):
        await ask(port, "/healthz")
    assert server.health_port is None


async def test_what_has_begun_is_answered_before_the_stop() -> None:
    release = threading.Event()

    class Slow(Metrics):
        def page(self, readings: object) -> bytes:
            release.wait(10)
            return b"slow page"

    server = ProbeServer(ProcessHealth(), Slow(), health_address="0", metrics_address=ANY)
    begun = asyncio.Event()
    async with server:
        server._metrics.collect_from(lambda: begun.set() or [])  # type: ignore[func-returns-value]
        begun.clear()
        asking = asyncio.create_task(ask(server.metrics_port, "/metrics"))
        async with asyncio.timeout(10):
            await begun.wait()
        stopping = asyncio.create_task(server.stop())
        release.set()
        assert (await asking)[:2] == (200, "slow page")
        await stopping


class _Reader(web.Server):
    """A server of another room: it reads what it is sent, and has a mistake in it."""

    def __init__(self) -> None:
        super().__init__(self._answer)

    def __call__(self) -> web.RequestHandler:
        return QuietHandler.for_connection(self)

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.path == "/elsewhere":
            raise ConnectionResetError("what was asked on the way is gone")
        await request.read()
        return web.Response(text="read")


@pytest.mark.parametrize("reset", [True, False], ids=["reset", "closed"])
async def test_a_caller_that_hangs_up_is_no_error_and_a_mistake_is_one(reset: bool) -> None:
    lines = io.StringIO()
    logs.configure_logging(level="debug", log_format="json", stream=lines)
    reader = _Reader()
    server = await asyncio.get_running_loop().create_server(reader, "127.0.0.1", 0)
    async with server:
        port: int = server.sockets[0].getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)) as caller:
            caller.sendall(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nhalf")
            await eventually_async(lambda: reader.requests_count, message="the request has begun")
            if reset:
                caller.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        await eventually_async(lambda: "caller.gone" in lines.getvalue(), message="the end is noticed")
        assert "probe.failed" not in lines.getvalue()
        assert b" 500 " in await send_raw(port, b"GET /elsewhere HTTP/1.1\r\nHost: a\r\n\r\n")
        assert '"error","logger"' in lines.getvalue().partition("probe.failed")[0]


@pytest.mark.parametrize(
    ("text", "address"),
    [
        (":8081", ListenAddress("", 8081)),
        ("127.0.0.1:8081", ListenAddress("127.0.0.1", 8081)),
        ("0.0.0.0:65535", ListenAddress("0.0.0.0", 65535)),  # noqa: S104  # text, nothing listens
        ("[::1]:8082", ListenAddress("::1", 8082)),
        ("localhost:1", ListenAddress("localhost", 1)),
        ("0", None),
        ("", None),
    ],
)
def test_addresses_are_read_as_operators_write_them(text: str, address: ListenAddress | None) -> None:
    assert parse_address(text) == address
    if address is not None:
        assert str(address) == text


@pytest.mark.parametrize(
    "text", ["8081", "host", ":", ":65536", ":-1", "a:b:1", "::1:8081", "http://x:1", ":80 81"]
)
def test_an_address_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(Misconfigured, match="bind address"):
        parse_address(text)
