"""Logging in as a GitHub App, against a double that checks what GitHub checks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from aiohttp import web

from stoker.domain.errors import InvalidValue, StokerError
from stoker.domain.refs import GitRef, RepoUrl
from stoker.domain.secrets import Secret
from stoker.git.auth.credentials import RepoAccess
from stoker.git.auth.github_app import GitHubApp, GitHubAppTokens, TokenRights, api_url
from stoker.git.errors import SourceAuthFailed, SourceUnreachable
from stoker.git.process.runner import GitRunner
from stoker.git.remote.remote import Remote
from stoker.git.remote.resolve import resolve_ref
from stoker_testkit.certificates import Authority, private_pem
from stoker_testkit.forges.github_app_login import GitHubAppServer
from stoker_testkit.manual_clock import ManualClock
from stoker_testkit.repositories.bare_repository import Repository
from stoker_testkit.secret_leaks.tracked_credentials import planted
from stoker_testkit.services.http_proxy import HttpProxy

MAIN = GitRef("main")
APP, INSTALLATION = 12, 3456


@pytest.fixture
def github(repositories: Path) -> Iterator[GitHubAppServer]:
    with GitHubAppServer.start(repositories) as server:
        yield server


@pytest.fixture
def app(github: GitHubAppServer) -> GitHubApp:
    return GitHubApp(APP, INSTALLATION, Secret(github.register(APP, INSTALLATION)))


@pytest.fixture
def clock(github: GitHubAppServer) -> ManualClock:
    """A clock that begins at the server's time and is then moved by hand."""
    clock = ManualClock()
    github.ahead += clock.now().timestamp() - github.now()
    return clock


@pytest.fixture
def plant(repositories: Path) -> Repository:
    repository = Repository.create(repositories / "plant.git")
    repository.commit({"a": "1"})
    return repository


def remote(tmp_path: Path, github: GitHubAppServer, tokens: GitHubAppTokens, app: GitHubApp) -> Remote:
    url = RepoUrl(github.url("plant.git"))

    async def read() -> RepoAccess:
        return await tokens.access(app, url)

    return Remote(GitRunner(tmp_path / "cache"), url, read)


async def test_an_installed_app_reads_its_repositories_with_one_token(
    tmp_path: Path, github: GitHubAppServer, app: GitHubApp, plant: Repository
) -> None:
    source = remote(tmp_path, github, GitHubAppTokens(), app)
    for _ in range(3):
        assert await resolve_ref(source, MAIN) == plant.tip()
    assert github.statements == 1
    assert {seen.user for seen in github.requests if seen.status == 200} == {"app"}


async def test_a_token_reads_the_one_repository_and_nothing_else_of_the_installation(
    tmp_path: Path, github: GitHubAppServer, app: GitHubApp, plant: Repository, repositories: Path
) -> None:
    other = Repository.create(repositories / "other.git")
    other.commit({"a": "1"})
    tokens, url = GitHubAppTokens(), RepoUrl(github.url("plant.git"))
    access = await tokens.access(app, url)
    assert github.scopes[github.given[0]] == {"repositories": ["plant"], "permissions": {"contents": "read"}}

    async def same() -> RepoAccess:
        return access

    runner = GitRunner(tmp_path / "cache")
    assert await resolve_ref(Remote(runner, url, same), MAIN) == plant.tip()
    with pytest.raises(SourceAuthFailed):
        await resolve_ref(Remote(runner, RepoUrl(github.url("other.git")), same), MAIN)


async def test_a_token_writes_only_where_something_is_pushed(github: GitHubAppServer, app: GitHubApp) -> None:
    tokens, url = GitHubAppTokens(), RepoUrl(github.url("plant.git"))
    for rights, permissions in (
        (TokenRights.READ, {"contents": "read"}),
        (TokenRights.PUSH, {"contents": "write"}),
        (TokenRights.PROPOSE, {"contents": "write", "pull_requests": "write"}),
    ):
        await tokens.access(app, url, rights)
        await tokens.access(app, url, rights)
        assert github.scopes[github.given[-1]]["permissions"] == permissions
    assert github.statements == 3, "a token is kept for its rights alone"


async def test_concurrent_requests_wait_for_one_token(github: GitHubAppServer, app: GitHubApp) -> None:
    tokens, url = GitHubAppTokens(), RepoUrl(github.url("plant.git"))
    accesses = await asyncio.gather(*(tokens.access(app, url) for _ in range(10)))
    assert github.statements == 1
    assert all(access == accesses[0] for access in accesses)


async def test_a_token_is_renewed_before_it_expires(
    github: GitHubAppServer, app: GitHubApp, clock: ManualClock
) -> None:
    tokens, url = GitHubAppTokens(clock), RepoUrl(github.url("plant.git"))
    first = await tokens.access(app, url)
    await clock.advance(54 * 60)
    assert await tokens.access(app, url) == first
    await clock.advance(2 * 60)
    github.ahead += 56 * 60
    assert await tokens.access(app, url) != first
    assert github.statements == 2


@pytest.mark.parametrize("wrong", [-3600.0, -50.0, 50.0, 86_400.0], ids=lambda seconds: f"{seconds:g} s")
async def test_a_clock_that_is_wrong_does_not_keep_an_app_out(
    github: GitHubAppServer, app: GitHubApp, clock: ManualClock, wrong: float
) -> None:
    github.ahead -= wrong
    tokens, url = GitHubAppTokens(clock), RepoUrl(github.url("plant.git"))
    first = await tokens.access(app, url)
    assert github.statements == (2 if abs(wrong) > 60 else 1)
    await clock.advance(50 * 60)
    assert await tokens.access(app, url) == first, "its lifetime is measured by GitHub's clock, not by ours"


async def test_a_jump_of_the_wall_clock_does_not_make_a_token_outlive_itself(
    github: GitHubAppServer, app: GitHubApp, clock: ManualClock
) -> None:
    tokens, url = GitHubAppTokens(clock), RepoUrl(github.url("plant.git"))
    await tokens.access(app, url)
    clock.jump(-365 * 86_400.0)
    await clock.advance(58 * 60)
    github.ahead += 58 * 60
    await tokens.access(app, url)
    assert len(github.given) == 2


async def test_a_revoked_token_is_replaced_at_once(
    tmp_path: Path, github: GitHubAppServer, app: GitHubApp, plant: Repository
) -> None:
    source = remote(tmp_path, github, GitHubAppTokens(), app)
    await resolve_ref(source, MAIN)
    github.revoke_all()
    assert await resolve_ref(source, MAIN) == plant.tip()
    assert len(github.given) == 2


async def test_the_mirror_stays_the_same_when_the_token_changes(
    tmp_path: Path, github: GitHubAppServer, app: GitHubApp
) -> None:
    tokens = GitHubAppTokens()
    source = remote(tmp_path, github, tokens, app)
    before = await source.identity(b"key")
    access = await tokens.access(app, source.url)
    assert access.refused is not None
    access.refused()
    assert await source.identity(b"key") == before
    assert len(github.given) == 2
    assert access != await tokens.access(app, source.url)


async def test_an_app_id_without_its_key_gets_no_token_of_another_resource(
    github: GitHubAppServer, app: GitHubApp
) -> None:
    tokens, url = GitHubAppTokens(), RepoUrl(github.url("plant.git"))
    await tokens.access(app, url)
    thief = GitHubApp(APP, INSTALLATION, Secret(github.register(99, 98)))
    with pytest.raises(SourceAuthFailed, match="refused the app id or its private key"):
        await tokens.access(thief, url)


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        (
            lambda app: GitHubApp(13, app.installation_id, app.key),
            SourceAuthFailed,
            "app id or its private key",
        ),
        (lambda app: GitHubApp(app.app_id, 1, app.key), SourceAuthFailed, "no such installation"),
        (
            lambda app: GitHubApp(app.app_id, 1, Secret("canary")),
            InvalidValue,
            "not an unencrypted private key",
        ),
        (lambda app: GitHubApp(app.app_id, 1, Secret(private_pem())), InvalidValue, "not an RSA key"),
    ],
    ids=["wrong app", "wrong installation", "no key", "another kind of key"],
)
async def test_errors_are_described_in_words(
    github: GitHubAppServer,
    app: GitHubApp,
    change: Callable[[GitHubApp], GitHubApp],
    error: type[StokerError],
    words: str,
) -> None:
    with pytest.raises(error, match=words) as refused:
        await GitHubAppTokens().access(change(app), RepoUrl(github.url("plant.git")))
    assert "canary" not in refused.value.message
    assert "GitHub App" in refused.value.message


@pytest.mark.parametrize(
    ("answer", "error", "words", "after"),
    [
        (web.Response(status=429, headers={"Retry-After": "77"}), SourceUnreachable, "too often", 77.0),
        (
            web.Response(status=403, headers={"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "1"}),
            SourceUnreachable,
            "too often",
            1.0,
        ),
        (
            web.json_response({"message": "This installation has been suspended\n\x1b[31m"}, status=403),
            SourceAuthFailed,
            r"is suspended \(status 403\)$",
            None,
        ),
        (web.Response(status=502, text="<html>"), SourceUnreachable, "status 502", None),
        (
            web.Response(status=302, headers={"Location": "http://127.0.0.1:1/"}),
            SourceUnreachable,
            "redirect",
            None,
        ),
        (web.Response(status=201, text="nonsense"), SourceUnreachable, "no token", None),
        (web.Response(status=201, text='{"token": 7, "expires_at": 8}'), SourceUnreachable, "no token", None),
        (web.Response(status=201, body=b"x" * 100_000), SourceUnreachable, "more than 65536 bytes", None),
    ],
    ids=["busy", "rate limit", "suspended", "down", "redirect", "nonsense", "wrong types", "too long"],
)
async def test_bad_responses_are_bounded_and_described_in_words(
    github: GitHubAppServer,
    app: GitHubApp,
    answer: web.Response,
    error: type[StokerError],
    words: str,
    after: float | None,
) -> None:
    github.answer = answer
    with pytest.raises(error, match=words) as refused:
        await GitHubAppTokens().access(app, RepoUrl(github.url("plant.git")))
    assert refused.value.message.isprintable()
    assert "has been" not in refused.value.message, "nothing of an answer is quoted"
    assert getattr(refused.value, "after", None) == after


async def test_an_api_that_is_not_there_is_unreachable(app: GitHubApp) -> None:
    with pytest.raises(SourceUnreachable, match="cannot be reached"):
        await GitHubAppTokens().access(app, RepoUrl("http://127.0.0.1:1/plant.git"))


async def test_an_authority_of_ones_own_and_a_proxy_hold_for_the_api_too(
    repositories: Path, tmp_path: Path
) -> None:
    authority = Authority()
    with (
        GitHubAppServer.start(repositories, tls=authority.server().save(tmp_path, "github")) as github,
        HttpProxy.start({"me": planted("proxy")}) as proxy,
    ):
        app = GitHubApp(APP, INSTALLATION, Secret(github.register(APP, INSTALLATION)))
        url = RepoUrl(github.url("plant.git"))
        with pytest.raises(SourceUnreachable, match="certificate that is not trusted"):
            await GitHubAppTokens().access(app, url)
        through = proxy.address.replace("://", f"://me:{planted('proxy')}@")
        access = await GitHubAppTokens().access(app, url, ca=authority.pem, proxy=through)
        assert access.proxy == through
        assert len(github.given) == 1
        assert [passage.method for passage in proxy.passages] == ["CONNECT"]


@pytest.mark.parametrize(
    ("url", "api"),
    [
        ("https://github.com/o/r.git", "https://api.github.com"),
        ("https://GitHub.com/o/r", "https://api.github.com"),
        ("https://octo.ghe.com/o/r", "https://api.octo.ghe.com"),
        ("https://git.company.test:8443/o/r", "https://git.company.test:8443/api/v3"),
        ("https://github.com.evil.test/o/r", "https://github.com.evil.test/api/v3"),
    ],
)
def test_the_api_belongs_to_the_repositorys_host(url: str, api: str) -> None:
    assert api_url(RepoUrl(url)) == api


@pytest.mark.parametrize("url", ["git@github.com:o/r.git", "ssh://git@github.com/o/r", "file:///srv/r"])
def test_an_app_needs_an_https_address(url: str) -> None:
    with pytest.raises(InvalidValue, match="https"):
        api_url(RepoUrl(url))
