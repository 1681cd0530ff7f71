"""Secrets of a namespace, read from the API server."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from stoker.domain.errors import Stalled
from stoker.domain.intent.source import SecretKey
from stoker.domain.reasons import Reason
from stoker.domain.secrets import Secret
from stoker.kube.client.client import KubeClient
from stoker.kube.client.secret_reader import NamespaceSecretReader
from stoker.kube.config.config import ClusterConfig


@asynccontextmanager
async def reader(
    requests: list[str] | None = None, **secrets: dict[str, str]
) -> AsyncIterator[NamespaceSecretReader]:
    async def answer(request: web.Request) -> web.Response:
        name = request.match_info["name"]
        if requests is not None:
            requests.append(name)
        if name not in secrets:
            return web.json_response({"kind": "Status", "reason": "NotFound", "code": 404}, status=404)
        return web.json_response({"data": secrets[name]})

    app = web.Application()
    app.router.add_get("/api/v1/namespaces/plant/secrets/{name}", answer)
    async with (
        TestServer(app) as server,
        KubeClient(ClusterConfig(str(server.make_url("/")).rstrip("/"))) as client,
    ):
        yield NamespaceSecretReader(client, "plant")


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


async def test_each_secret_is_read_once_and_its_values_are_stripped() -> None:
    requests: list[str] = []
    keys = (SecretKey("git", "username"), SecretKey("ca", "ca.crt"), SecretKey("git", "password"))
    git = {"username": encoded("me\n"), "password": encoded("pw"), "empty": ""}
    async with reader(requests, git=git, ca={"ca.crt": encoded("PEM\n")}) as secrets:
        values = await secrets.values(keys)
        assert await secrets.all_values("git") == {keys[0]: b"me", keys[2]: b"pw"}
    assert values == dict(zip(keys, (b"me", b"PEM", b"pw"), strict=True))
    assert requests == ["git", "ca", "git"]


async def test_the_first_key_that_exists_is_returned() -> None:
    keys = SecretKey("git", "ssh-privatekey"), SecretKey("git", "identity")
    async with reader(git={"identity": encoded("key")}) as secrets:
        assert await secrets.value(*keys) == Secret("key")
        with pytest.raises(Stalled, match=r"has no key 'a' or 'b'$"):
            await secrets.value(SecretKey("git", "a"), SecretKey("git", "b"))


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        (SecretKey("other", "token"), "Secret 'other' does not exist in namespace 'plant'"),
        (SecretKey("git", "token"), "Secret 'git' in namespace 'plant' has no key 'token'"),
        (SecretKey("git", "empty"), "Secret 'git' in namespace 'plant' has no key 'empty'"),
        (SecretKey("broken", "token"), "key 'token' of Secret 'broken' is not base64"),
    ],
)
async def test_a_missing_or_unreadable_key_is_named(wanted: SecretKey, message: str) -> None:
    async with reader(git={"empty": "", "x": encoded("y")}, broken={"token": "a"}) as secrets:
        for request in (secrets.value(wanted), secrets.values([wanted])):
            with pytest.raises(Stalled) as missing:
                await request
            assert (missing.value.message, missing.value.reason) == (message, Reason.SECRET_NOT_FOUND)
