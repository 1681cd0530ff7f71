"""A source over real servers: http, ssh and a local mirror, with and without what they may refuse."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest
from aiohttp import web

from stoker.domain.git_objects import FileVersion, blob_of
from stoker.domain.refs import CommitId, GitRef, RepoUrl
from stoker.domain.secrets import Secret
from stoker.git.auth.credentials import GitLogin, GitPassword, GitSshKey, RepoAccess, fixed_access
from stoker.git.errors import RefNotFound, SourceUnreachable
from stoker.git.private_files import remove_tree
from stoker.git.process.runner import GitRunner
from stoker.git.remote.fetch import FetchLimits
from stoker.git.remote.remote import Remote
from stoker.git.source.git import GitSource
from stoker_testkit.repositories.bare_repository import Repository
from stoker_testkit.repositories.git_http_server import GitHttpServer
from stoker_testkit.repositories.git_ssh_server import GitSshServer
from stoker_testkit.secret_leaks.tracked_credentials import planted

MAIN = GitRef("main")


@pytest.fixture
def plant(repositories: Path) -> Repository:
    return Repository.create(repositories / "plant.git")


class OldHttpServer(GitHttpServer):
    """Speaks version 0 of the protocol, in which only what is advertised is given out."""

    def _environment(self, request: web.Request, user: str) -> dict[str, str]:
        return super()._environment(request, user) | {"GIT_PROTOCOL": ""}


class OldSshServer(GitSshServer):
    """The same over ssh: what version the client wants does not reach git."""

    def _settings(self) -> Sequence[str]:
        return [line for line in super()._settings() if not line.startswith("AcceptEnv")]


Address = tuple[str, GitLogin | None]


@pytest.fixture
def address(
    request: pytest.FixtureRequest, plant: Repository, repositories: Path, tmp_path: Path
) -> Iterator[Address]:
    """The repository over a transport, at a server that refuses something."""
    transport, refuses = request.param
    if refuses != "nothing":
        plant.git("config", "uploadpack.allowFilter", "false")
    if refuses == "ids":
        plant.git("config", "uploadpack.allowAnySHA1InWant", "false")
    if transport == "file":
        yield plant.path.as_uri(), None
    elif transport == "http":
        kind = OldHttpServer if refuses == "ids" else GitHttpServer
        with kind.start(repositories, users={"alice": planted("git-password")}) as http:
            yield http.url("plant.git"), GitPassword("alice", Secret(planted("git-password")))
    else:
        daemon = OldSshServer if refuses == "ids" else GitSshServer
        with daemon.start(repositories, tmp_path / "sshd") as ssh:
            key = Secret(ssh.authorized_key().read_bytes())
            yield ssh.url("plant.git"), GitSshKey(key, ssh.known_hosts.read_bytes())


SERVERS = [
    (transport, refuses)
    for transport in ("http", "ssh", "file")
    for refuses in ("nothing", "filters", "ids")
    if (transport, refuses) != ("file", "ids")  # git itself is the server there, and gives out every id
]


def source_of(address: Address, tmp_path: Path) -> GitSource:
    url, login = address
    cache = tmp_path / "cache"
    return GitSource(Remote(GitRunner(cache), RepoUrl(url), fixed_access(RepoAccess(login))), cache)


@pytest.mark.parametrize("address", SERVERS, indirect=True, ids="-".join)
async def test_follows_a_branch_whatever_the_server_refuses(
    address: Address, plant: Repository, tmp_path: Path
) -> None:
    source = source_of(address, tmp_path)
    first = plant.commit({f"f{n}": secrets.token_bytes(1000) for n in range(100)})
    assert await source.resolve(MAIN) == first
    async with source.held():
        await source.fetch(first, MAIN)
        assert len((await source.tree(first)).files) == 100
        second = plant.commit({"f0": "changed", "f1": None, "new": "1"})
        await source.fetch(await source.resolve(MAIN), MAIN)
        changes = await source.changes(first, second)
        assert changes is not None
        assert {change.path for change in changes} == {"f0", "f1", "new"}
        rewritten = plant.commit({"f0": "rewritten"}, onto=first)
        await source.fetch(rewritten, MAIN)
        await source.complete([blob_of(b"rewritten")])
        blobs = await asyncio.to_thread(lambda: list(map(bytes, _contents(source, b"rewritten"))))
        assert blobs == [b"rewritten"]
        sizes = sorted(pack.stat().st_size for pack in source.repository.rglob("*.pack"))
        assert sizes[-1] > 100_000
        assert sum(sizes[:-1]) < 20_000, "what was here was not sent again"


def _contents(source: GitSource, content: bytes) -> list[bytes]:
    return [b"".join(blob.chunks) for blob in source.contents([blob_of(content)])]


@pytest.mark.parametrize("address", SERVERS, indirect=True, ids="-".join)
async def test_a_branch_that_moves_is_had_as_soon_as_it_is_resolved(
    address: Address, plant: Repository, tmp_path: Path
) -> None:
    source = source_of(address, tmp_path)
    first = plant.commit({"a": "1", "b": "1"})
    await fetched(source, first)
    moved = plant.commit({"a": "2"})
    assert await source.resolve(MAIN) == moved
    assert await source.resolve(MAIN) == moved, "nothing is new"
    plant.path.rename(plant.path.with_suffix(".away"))
    await fetched(source, moved)  # no server is asked
    plant.path.with_suffix(".away").rename(plant.path)
    rewritten = plant.commit({"a": "3"}, onto=first)
    assert await source.resolve(MAIN) == rewritten
    assert (await fetched(source, rewritten))["a"].blob == blob_of(b"3")
    tagged = plant.commit({"a": "4"}, branch="releases")
    plant.tag("main", tagged, message="Pinned")
    for asked in (source, source_of(address, tmp_path)):
        assert await asked.resolve(MAIN) == rewritten, "a branch comes before a tag"
    assert await source.resolve(GitRef("refs/tags/main")) == tagged
    assert await source.resolve(GitRef("refs/heads/main")) == rewritten
    plant.git("update-ref", "refs/main", tagged)
    for _ in range(2):
        assert await source.resolve(MAIN) == rewritten, "which is no branch"
    plant.git("update-ref", "-d", "refs/heads/main")
    assert await source.resolve(MAIN) == tagged, "there is no such branch any more"
    plant.delete_tag("main")
    with pytest.raises(RefNotFound, match="ref 'main' is not in repository"):
        await source.resolve(MAIN)
    again = plant.commit({"a": "5"})
    assert await source.resolve(MAIN) == again


async def fetched(source: GitSource, commit: str) -> Mapping[str, FileVersion]:
    """What `commit` holds, once it is here, as the branch means it."""
    async with source.held():
        await source.fetch(CommitId(commit), MAIN)
        return (await source.tree(CommitId(commit))).files


async def test_a_branch_that_moved_costs_one_conversation(
    git_http: GitHttpServer, plant: Repository, tmp_path: Path
) -> None:
    source = source_of((git_http.url("plant.git"), None), tmp_path)
    plant.commit({"a": "1"})
    await fetched(source, await source.resolve(MAIN))
    moved = plant.commit({"a": "2"})
    git_http.requests.clear()
    await fetched(source, await source.resolve(MAIN))
    assert [request.method for request in git_http.requests] == ["GET", "POST", "POST"]
    git_http.requests.clear()
    assert await source.resolve(MAIN) == moved
    assert [request.method for request in git_http.requests] == ["GET", "POST"]


async def test_a_source_that_was_away_is_asked_once_and_sends_nothing_again(
    git_http: GitHttpServer, plant: Repository, tmp_path: Path
) -> None:
    source = source_of((git_http.url("plant.git"), None), tmp_path)
    plant.commit({f"f{n}": secrets.token_bytes(1000) for n in range(100)})
    await fetched(source, await source.resolve(MAIN))
    plant.path.rename(plant.path.with_suffix(".away"))
    for _ in range(2):
        git_http.requests.clear()
        with pytest.raises(SourceUnreachable):
            await source.resolve(MAIN)
        assert len(git_http.requests) == 1
    plant.path.with_suffix(".away").rename(plant.path)
    plant.commit({"f0": "changed"})
    await fetched(source, await source.resolve(MAIN))
    async with source.held():
        sizes = sorted(pack.stat().st_size for pack in source.repository.rglob("*.pack"))
    assert sum(sizes[:-1]) < 20_000


async def test_a_branch_is_asked_for_where_its_mirror_cannot_be_used(
    plant: Repository, tmp_path: Path
) -> None:
    source = source_of((plant.path.as_uri(), None), tmp_path)
    await fetched(source, plant.commit({"a": "1"}))
    assert await source.resolve(MAIN)
    async with source.held():  # by us as well as by another process
        moved = plant.commit({"a": "2"})
        assert await source.resolve(MAIN) == moved
        repository = source.repository
    packs = list(repository.glob("objects/pack/*.pack"))
    for pack in packs:
        pack.chmod(0o600)
        pack.write_bytes(b"torn")
    moved = plant.commit({"a": "3"})
    assert await source.resolve(MAIN) == moved
    assert (await fetched(source, moved))["a"].blob == blob_of(b"3")
    remove_tree(repository)
    assert await source.resolve(MAIN) == moved
    moved = plant.commit({"a": "4"})
    assert (await fetched(source, await source.resolve(MAIN)))["a"].blob == blob_of(b"4")


async def test_a_mirror_that_follows_is_built_anew_before_it_grows_without_end(
    plant: Repository, tmp_path: Path
) -> None:
    cache = tmp_path / "cache"
    remote = Remote(GitRunner(cache), RepoUrl(plant.path.as_uri()), fixed_access(RepoAccess()))
    source = GitSource(remote, cache, limits=FetchLimits(packs=3))
    for number in range(12):
        commit = plant.commit({"a": str(number)})
        assert (await fetched(source, await source.resolve(MAIN)))["a"].blob == blob_of(str(number).encode())
        assert await source.resolve(MAIN) == commit
        async with source.held():
            assert len(list(source.repository.glob("objects/pack/*.pack"))) <= 4
            assert not (source.repository / "FETCH_HEAD").exists()


async def test_each_new_commit_costs_one_round_trip(
    git_http: GitHttpServer, plant: Repository, tmp_path: Path
) -> None:
    source = source_of((git_http.url("plant.git"), None), tmp_path)
    commits = [plant.commit({"a": str(number)}) for number in range(2)]
    for commit in commits:
        git_http.requests.clear()
        async with source.held():
            await source.fetch(commit, MAIN)
            await source.tree(commit)
            await source.complete([blob_of(b"0")])
        assert [request.method for request in git_http.requests if request.status == 200] == ["GET", "POST"]


async def test_writes_nowhere_but_into_its_cache(
    plant: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HOME", "TMPDIR", "TMP", "TEMP", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, "/nowhere")
    monkeypatch.setattr("tempfile.tempdir", "/nowhere")
    commit = plant.commit({"a": "1"})
    remote = Remote(GitRunner(tmp_path / "cache"), RepoUrl(plant.path.as_uri()), fixed_access(RepoAccess()))
    source = GitSource(remote, tmp_path / "cache")
    async with source.held():
        await source.fetch(await source.resolve(MAIN), MAIN)
        assert (await source.tree(commit)).files["a"].blob == blob_of(b"1")
        assert source.repository.is_relative_to(tmp_path / "cache")
    assert names_in(tmp_path) == ["cache", "repositories"]


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())
