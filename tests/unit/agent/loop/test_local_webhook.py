"""The local webhook: who is believed, what is read of them, and what it causes."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import aiohttp
import pytest
import pytest_asyncio

from stoker.agent.loop.local_webhook import MAX_FAILURES, LocalWebhookServer
from stoker.domain.errors import Misconfigured
from stoker.domain.secrets import Secret
from stoker.http_server.request_signatures import MAX_BODY

SECRET = Secret("s3cret")
BODY = b'{"ref": "refs/heads/main"}'


def signature(body: bytes = BODY, key: bytes = b"s3cret") -> str:
    return hmac.new(key, body, hashlib.sha256).hexdigest()


@dataclass
class Listening:
    """A server, and what it caused."""

    server: LocalWebhookServer
    session: aiohttp.ClientSession
    secrets: list[Secret]
    nudges: list[str] = field(default_factory=list)

    async def post(self, body: bytes = BODY, path: str = "/webhook", **headers: str) -> int:
        url = f"http://127.0.0.1:{self.server.port}{path}"
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        async with self.session.post(url, data=body, headers=named) as answer:
            await answer.read()
            return answer.status


@pytest_asyncio.fixture
async def listening() -> AsyncIterator[Listening]:
    nudges: list[str] = []
    secrets = [SECRET]
    async with (
        LocalWebhookServer("127.0.0.1:0", lambda: secrets, nudges.append) as server,
        aiohttp.ClientSession() as session,
    ):
        yield Listening(server, session, secrets, nudges)


async def test_a_signed_request_is_accepted_and_only_nudges(listening: Listening) -> None:
    assert await listening.post(X_Hub_Signature_256=f"sha256={signature()}") == 202
    assert listening.nudges == ["webhook"]


async def test_an_unsigned_one_causes_nothing(listening: Listening) -> None:
    assert await listening.post() == 401
    assert await listening.post(X_Hub_Signature_256=f"sha256={signature(b'x')}") == 401
    assert listening.nudges == []


async def test_the_secret_is_read_for_every_request(listening: Listening) -> None:
    listening.secrets[:] = [Secret("rotated")]
    assert await listening.post(X_Gitlab_Token="s3cret") == 401
    assert await listening.post(X_Gitlab_Token="rotated") == 202
    listening.secrets[:] = [Secret("")]
    assert await listening.post(X_Gitlab_Token="") == 401


async def test_with_an_unreadable_secret_no_caller_is_accepted() -> None:
    def unreadable() -> list[Secret]:
        raise Misconfigured("the file is gone")

    nudges: list[str] = []
    async with (
        LocalWebhookServer("127.0.0.1:0", unreadable, nudges.append) as server,
        aiohttp.ClientSession() as session,
    ):
        assert await Listening(server, session, []).post(X_Gitlab_Token="") == 401
    assert nudges == []


async def test_a_large_body_is_refused_before_it_is_read(listening: Listening) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", listening.server.port)
    writer.write(b"POST /webhook HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % (MAX_BODY + 1))
    try:
        answer = await asyncio.wait_for(reader.read(), 5)  # not one byte of the body was sent
    finally:
        writer.close()
        await writer.wait_closed()
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert b"Server: stoker" in answer


async def test_a_body_of_unknown_length_is_capped(listening: Listening) -> None:
    async def endless() -> AsyncIterator[bytes]:
        for _ in range(40):
            yield b"x" * (64 * 1024)

    url = f"http://127.0.0.1:{listening.server.port}/webhook"
    try:
        async with listening.session.post(url, data=endless()) as answer:
            assert answer.status == 413
    except aiohttp.ClientError:
        pass  # it hung up while we were still sending
    assert listening.nudges == []


@pytest.mark.parametrize("path", ["/", "/webhook/", "/healthz", "/webhook/default/line-1"])
async def test_there_is_nothing_else(listening: Listening, path: str) -> None:
    assert await listening.post(path=path, X_Gitlab_Token="s3cret") == 404


async def test_a_get_is_not_an_order(listening: Listening) -> None:
    url = f"http://127.0.0.1:{listening.server.port}/webhook"
    async with listening.session.get(url, headers={"X-Gitlab-Token": "s3cret"}) as answer:
        assert answer.status == 404
    assert listening.nudges == []


async def test_who_fails_too_often_is_not_listened_to(listening: Listening) -> None:
    for _ in range(MAX_FAILURES):
        assert await listening.post() == 401
    assert await listening.post(X_Gitlab_Token="s3cret") == 429
    assert listening.nudges == []


async def test_a_port_in_use_is_named(listening: Listening) -> None:
    with pytest.raises(Misconfigured, match=str(listening.server.port)):
        async with LocalWebhookServer(f"127.0.0.1:{listening.server.port}", list, print):
            pass
