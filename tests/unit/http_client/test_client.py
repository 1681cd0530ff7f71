"""Requests to other services are bounded, and errors show no more than a host's name."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from stoker.domain.errors import InvalidValue
from stoker.http_client import ServiceRequest, ServiceUnreachable, send_request


@pytest.fixture
async def service() -> AsyncIterator[TestServer]:
    async def answer(request: web.Request) -> web.StreamResponse:
        if request.path == "/large":
            return web.Response(body=b"x" * 100)
        if request.path == "/away":
            raise web.HTTPFound("/large")
        if request.path == "/slow":
            await request.content.read()
            await forever.wait()
        return web.json_response({"said": (await request.read()).decode()}, headers={"Retry-After": "7"})

    forever = asyncio.Event()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    server = TestServer(app)
    await server.start_server()
    try:
        yield server
    finally:
        forever.set()
        await server.close()


async def test_the_answer_comes_with_its_status_its_body_and_how_long_to_stay_away(
    service: TestServer,
) -> None:
    answer = await send_request(ServiceRequest(str(service.make_url("/x")), "POST", body=b"hello"))
    assert (answer.status, answer.body, answer.wait, answer.ok) == (200, b'{"said": "hello"}', 7.0, True)


async def test_a_redirect_is_an_answer_and_not_followed(service: TestServer) -> None:
    assert (await send_request(ServiceRequest(str(service.make_url("/away"))))).status == 302


async def test_too_much_is_refused(service: TestServer) -> None:
    with pytest.raises(ServiceUnreachable, match="more than 99 bytes"):
        await send_request(ServiceRequest(str(service.make_url("/large")), max_reply=99))
    assert (
        len((await send_request(ServiceRequest(str(service.make_url("/large")), max_reply=100))).body) == 100
    )


async def test_silence_ends(service: TestServer) -> None:
    with pytest.raises(ServiceUnreachable, match=r"did not answer within 0\.2 s"):
        await send_request(ServiceRequest(str(service.make_url("/slow")), timeout=0.2))


async def test_the_path_of_an_address_is_a_secret(unused_tcp_port: int) -> None:
    with pytest.raises(ServiceUnreachable) as caught:
        await send_request(
            ServiceRequest(f"http://127.0.0.1:{unused_tcp_port}/services/T0/secret?key=hidden")
        )
    assert "127.0.0.1" in caught.value.message
    assert not {"secret", "hidden", "T0"} & set(caught.value.message.replace("/", " ").split())


async def test_other_schemes_are_refused() -> None:
    with pytest.raises(InvalidValue, match="neither http nor https"):
        await send_request(ServiceRequest("file:///etc/passwd"))
