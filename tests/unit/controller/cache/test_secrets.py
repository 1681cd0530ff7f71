"""Secrets that a resource names, as credentials for git."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from stoker.controller.cache.secrets import NamespaceSecretReader
from stoker.domain.errors import Stalled
from stoker.domain.intent.source import GitAuthKind, GitAuthPolicy, SecretKey, SourceIntent
from stoker.domain.reasons import Reason
from stoker.domain.refs import GitRef, RepoUrl
from stoker.domain.secrets import Secret
from stoker.git.auth.credentials import GitPassword, GitSshKey, RepoAccess
from stoker.git.auth.github_app import GitHubAppTokens
from stoker.kube.client.client import KubeClient
from stoker.kube.config.config import ClusterConfig
from stoker_testkit.forges.github_app_login import GitHubAppServer

SOURCE = SourceIntent(RepoUrl("https://git.test/r.git"), GitRef("main"))


@asynccontextmanager
async def reader(**data: bytes) -> AsyncIterator[NamespaceSecretReader]:
    """Reads a namespace with one Secret that holds this."""

    async def secret(_: web.Request) -> web.Response:
        encoded = {key: base64.b64encode(value).decode() for key, value in data.items()}
        return web.json_response({"data": encoded})

    app = web.Application()
    app.router.add_get("/api/v1/namespaces/plant/secrets/git", secret)
    async with (
        TestServer(app) as server,
        KubeClient(ClusterConfig(str(server.make_url("/")).rstrip("/"))) as client,
    ):
        yield NamespaceSecretReader(client, "plant")


async def access(source: SourceIntent, **data: bytes) -> RepoAccess:
    async with reader(**data) as secrets:
        return await secrets.access(source, GitHubAppTokens())


async def credentials(kind: GitAuthKind, **data: bytes) -> tuple[str, str]:
    """What git would be handed of a Secret that holds this."""
    given = await access(SOURCE._replace(auth=GitAuthPolicy(kind, SecretKey("git", "token"))), **data)
    assert isinstance(given.login, GitPassword)
    return given.login.username, given.login.password.reveal()


async def test_a_line_of_text_opens_the_repository() -> None:
    assert await credentials(GitAuthKind.TOKEN, token=b"abc\n") == ("x-access-token", "abc")
    assert await credentials(GitAuthKind.BASIC, username=b"me", password=b"p w") == ("me", "p w")


@pytest.mark.parametrize("canary", [b"\xffcanary", b"canary\0", b"canary\nmore"])
async def test_what_git_cannot_be_handed_asks_for_a_human_and_is_not_shown(canary: bytes) -> None:
    for kind, data in (
        (GitAuthKind.TOKEN, {"token": canary}),
        (GitAuthKind.BASIC, {"username": canary, "password": b"x"}),
        (GitAuthKind.BASIC, {"username": b"x", "password": canary}),
    ):
        with pytest.raises(Stalled, match="Secret 'git' in namespace 'plant'") as refused:
            await credentials(kind, **data)
        assert refused.value.reason is Reason.INVALID_VALUE
        assert "canary" not in refused.value.message


async def test_no_login_needs_no_secret() -> None:
    assert await access(SOURCE) == RepoAccess()


async def test_an_ssh_key_comes_with_its_known_hosts_or_without() -> None:
    auth = GitAuthPolicy(GitAuthKind.SSH, SecretKey("git", "ssh-privatekey"), SecretKey("git", "known_hosts"))
    data = {"ssh-privatekey": b"key\n", "known_hosts": b"one\ntwo\n"}
    given = await access(SOURCE._replace(auth=auth), **data)
    assert given.login == GitSshKey(Secret("key"), b"one\ntwo")
    given = await access(SOURCE._replace(auth=auth._replace(known_hosts=None)), **data)
    assert given.login == GitSshKey(Secret("key"), None)
    with pytest.raises(Stalled, match="no key 'known_hosts'"):
        await access(SOURCE._replace(auth=auth), **{"ssh-privatekey": b"key"})


async def test_certificates_and_proxy_of_the_source_go_with_it() -> None:
    source = SOURCE._replace(ca=SecretKey("git", "ca.crt"), proxy="http://proxy.test:3128")
    given = await access(source, **{"ca.crt": b"PEM"})
    assert (given.ca, given.proxy) == (b"PEM", "http://proxy.test:3128")


async def test_known_hosts_are_demanded_where_the_installation_says_so() -> None:
    async with reader() as secrets:
        given = await secrets.access(SOURCE, GitHubAppTokens(), require_known_hosts=True)
    assert given.require_known_hosts


async def test_an_app_gets_a_token_of_its_installation(tmp_path: Path) -> None:
    with GitHubAppServer.start(tmp_path) as github:
        auth = GitAuthPolicy(GitAuthKind.GITHUB_APP, SecretKey("git", "pem"), app_id=1, installation_id=2)
        source = SOURCE._replace(url=RepoUrl(github.url("r.git")), auth=auth)
        given = await access(source, pem=github.register(1, 2))
        assert given.login == GitPassword("x-access-token", Secret(github.given[0]))
        assert given.subject == "app/1/2"
