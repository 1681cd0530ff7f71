"""Secrets that a resource names, as credentials for git."""

from __future__ import annotations

import base64

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from stoker.controller.secrets import SecretReader
from stoker.domain.errors import Stalled
from stoker.domain.intent.source import AuthKind, GitAuth, SecretKey
from stoker.domain.reasons import Reason
from stoker.kube.client import Client
from stoker.kube.config import ClusterConfig


async def credentials(kind: AuthKind, **data: bytes) -> tuple[str, str]:
    """What git would be handed of a Secret that holds this."""

    async def secret(_: web.Request) -> web.Response:
        encoded = {key: base64.b64encode(value).decode() for key, value in data.items()}
        return web.json_response({"data": encoded})

    app = web.Application()
    app.router.add_get("/api/v1/namespaces/plant/secrets/git", secret)
    async with (
        TestServer(app) as server,
        Client(ClusterConfig(str(server.make_url("/")).rstrip("/"))) as client,
    ):
        given = await SecretReader(client, "plant").credentials(GitAuth(kind, SecretKey("git", "token")))
    assert given is not None
    return given.username, given.password.reveal()


async def test_a_line_of_text_opens_the_repository() -> None:
    assert await credentials(AuthKind.TOKEN, token=b"abc\n") == ("x-access-token", "abc")
    assert await credentials(AuthKind.BASIC, username=b"me", password=b"p w") == ("me", "p w")


@pytest.mark.parametrize("canary", [b"\xffcanary", b"canary\0", b"canary\nmore"])
async def test_what_git_cannot_be_handed_asks_for_a_human_and_is_not_shown(canary: bytes) -> None:
    for kind, data in (
        (AuthKind.TOKEN, {"token": canary}),
        (AuthKind.BASIC, {"username": canary, "password": b"x"}),
        (AuthKind.BASIC, {"username": b"x", "password": canary}),
    ):
        with pytest.raises(Stalled, match="Secret 'git' in namespace 'plant'") as refused:
            await credentials(kind, **data)
        assert refused.value.reason is Reason.INVALID_VALUE
        assert "canary" not in refused.value.message
