"""The port itself: what is refused before anybody reads it, and what a stranger can make of it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime, timedelta

import aiohttp
import pytest

from stoker.domain.errors import InvalidValue, Retry
from stoker.http_server.review_server import ReviewLimits, ReviewServer
from stoker.http_server.tls.certificate_authority import new_material
from stoker.http_server.tls.context import ServerTlsContext
from stoker_testkit.wait_until import eventually_async

MATERIAL = new_material(("127.0.0.1",), datetime.now(UTC), timedelta(days=2), timedelta(days=1))
SMALL = ReviewLimits(body=1000, held=1500, at_once=2)

Serve = Callable[..., Awaitable["Served"]]


class Served:
    def __init__(
        self, server: ReviewServer, presented: ServerTlsContext, session: aiohttp.ClientSession
    ) -> None:
        self.server = server
        self.presented = presented
        self.session = session

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.server.port}"

    async def post(self, path: str = "/echo", body: object = b"{}", **options: object) -> tuple[int, str]:
        headers = options.pop("headers", {"Content-Type": "application/json"})
        async with self.session.post(self.url + path, data=body, headers=headers) as answer:  # type: ignore[arg-type]
            return answer.status, await answer.text()


@pytest.fixture
async def serve() -> AsyncIterator[Serve]:
    gate = asyncio.Event()
    running: list[tuple[asyncio.Task[None], ReviewServer, aiohttp.ClientSession]] = []

    async def echo(body: bytes) -> bytes:
        return body

    async def broken(body: bytes) -> bytes:
        raise RuntimeError("a secret inside")

    async def refused(body: bytes) -> bytes:
        raise InvalidValue("this is no review")

    async def away(body: bytes) -> bytes:
        raise Retry("the API server is away")

    async def slow(body: bytes) -> bytes:
        await gate.wait()
        return b"{}"

    async def start(limits: ReviewLimits | None = None) -> Served:
        presented = ServerTlsContext()
        presented.show(MATERIAL.chain, MATERIAL.key)
        routes = {"/echo": echo, "/broken": broken, "/refused": refused, "/away": away, "/slow": slow}
        server = ReviewServer("127.0.0.1:0", presented.context, routes, limits=limits)
        task = asyncio.create_task(server.run())
        await eventually_async(lambda: server.port, 10, "it listens")
        trust = ssl.create_default_context(cadata=MATERIAL.bundle.decode())
        session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=trust, limit=0))
        running.append((task, server, session))
        return Served(server, presented, session)

    yield start
    gate.set()
    for task, server, session in running:
        await session.close()
        await server.stop()
        await task
    await asyncio.sleep(0)


async def test_a_review_is_answered_over_tls(serve: Serve) -> None:
    served = await serve()
    assert await served.post(body=b'{"a": 1}') == (200, '{"a": 1}')


async def test_what_is_not_a_review_is_turned_away_by_its_head(serve: Serve) -> None:
    served = await serve(SMALL)
    assert (await served.post("/nowhere"))[0] == 404
    assert (await served.post("/echo", headers={"Content-Type": "text/plain"}))[0] == 415
    async with served.session.get(served.url + "/echo") as answer:
        assert (answer.status, answer.headers["Allow"]) == (405, "POST")
        assert answer.headers["Server"] == "stoker"
    assert (await served.post(body=b"x" * 1001))[0] == 413

    async def endless() -> AsyncIterator[bytes]:
        while True:
            yield b"x" * 400

    with contextlib.suppress(aiohttp.ClientError):  # it may hang up while we are still sending
        assert (await served.post(body=endless()))[0] == 413
    assert (await served.post(body=b"fine"))[0] == 200


async def test_what_fails_is_a_status_and_no_verdict(serve: Serve) -> None:
    served = await serve()
    assert await served.post("/refused") == (400, "this is no review\n")
    assert await served.post("/away") == (500, "TransientError\n")
    status, text = await served.post("/broken")
    assert (status, text) == (500, "the review failed\n")
    assert await served.post(body=b"still here") == (200, "still here")


@pytest.mark.parametrize("asked", ["300ms", "0.3s"])
async def test_an_answer_that_takes_longer_than_it_may_is_given_up(serve: Serve, asked: str) -> None:
    served = await serve()
    assert (await served.post(f"/slow?timeout={asked}"))[0] == 504


async def test_so_many_at_once_and_the_rest_wait_in_line(serve: Serve) -> None:
    served = await serve(SMALL)
    waiting = [asyncio.create_task(served.post("/slow?timeout=1s")) for _ in range(2)]
    last = asyncio.create_task(served.post("/echo?timeout=20s"))
    assert {status for status, _ in await asyncio.gather(*waiting)} == {504}
    assert (await last)[0] == 200


async def test_all_bodies_together_hold_no_more_than_they_may(serve: Serve) -> None:
    served = await serve(SMALL)
    opened = asyncio.Event()

    async def never_ending() -> AsyncIterator[bytes]:
        yield b"x" * 900
        opened.set()
        await asyncio.Event().wait()

    hanging = asyncio.create_task(served.post("/echo?timeout=20s", body=never_ending()))
    await opened.wait()

    async def refused() -> bool:
        return (await served.post(body=b"y" * 900))[0] == 503

    await eventually_async(refused, 10, "the second is too much")
    assert (await served.post(body=b"small"))[0] == 200
    hanging.cancel()
    await asyncio.wait([hanging])

    async def taken() -> bool:
        return (await served.post(body=b"y" * 900))[0] == 200

    await eventually_async(taken, 10, "what hung up holds nothing any more")


async def test_a_body_that_would_take_too_much_memory_is_refused_undecoded(serve: Serve) -> None:
    served = await serve(ReviewLimits(decoded=1 << 20, work=1 << 20))
    status, text = await served.post(body=b"[" + b"{}," * 5000 + b"{}]")
    assert (status, text) == (413, "too large: decoded it would take more than 1048576 bytes\n")
    assert (await served.post(body=b'"' + b"{}," * 5000 + b'"'))[0] == 200, "a text is one value"
    handlers_own = await serve(ReviewLimits(decoded=None))
    assert (await handlers_own.post(body=b"[" + b"{}," * 5000 + b"{}]"))[0] == 200


async def test_what_is_refused_for_want_of_memory_says_so_and_when_to_try_again(serve: Serve) -> None:
    served = await serve(ReviewLimits(body=100, held=10))
    headers = {"Content-Type": "application/json"}
    async with served.session.post(served.url + "/echo", data=b"x" * 50, headers=headers) as answer:
        assert (answer.status, answer.headers["Retry-After"]) == (503, "1")
        assert await answer.text() == "too many reviews at once; try again\n"
    assert await served.post(body=b"x" * 101) == (413, "too large: a body has at most 100 bytes\n")


async def test_a_certificate_is_replaced_under_open_connections(serve: Serve) -> None:
    served = await serve()
    reader, writer = await asyncio.open_connection(
        "127.0.0.1", served.server.port, ssl=ssl.create_default_context(cadata=MATERIAL.bundle.decode())
    )
    other = new_material(("127.0.0.1",), datetime.now(UTC), timedelta(days=2), timedelta(days=1))
    from_now_on = ssl.create_default_context(cadata=other.bundle.decode())
    with pytest.raises(ssl.SSLError):
        await asyncio.open_connection("127.0.0.1", served.server.port, ssl=from_now_on)
    assert served.presented.show(other.chain, other.key)
    body = json.dumps({"a": 1})
    writer.write(
        f"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n{body}".encode()
    )
    assert b"200 OK" in await reader.readline()
    writer.close()
    _, fresh = await asyncio.open_connection("127.0.0.1", served.server.port, ssl=from_now_on)
    fresh.close()
