"""Requests of a fetch: one commit first, then what is new, and no more than that."""

from __future__ import annotations

import os
import secrets
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web

from stoker.domain.git_objects import BlobId, blob_of
from stoker.domain.refs import CommitId, GitRef, RepoUrl
from stoker.git.auth.credentials import RepoAccess, fixed_access
from stoker.git.errors import GitFailed, RefNotFound, SourceTooLarge, SourceUnreachable
from stoker.git.mirror.layout import STALE_REFS, TIPS
from stoker.git.mirror.mirror import Mirror
from stoker.git.mirror.tree import read_tree
from stoker.git.process.runner import GitRunner
from stoker.git.remote.fetch import MAX_TIPS, FetchLimits
from stoker.git.remote.remote import Remote
from stoker_testkit.repositories.bare_repository import Repository
from stoker_testkit.repositories.git_http_server import GitHttpServer

MAIN = GitRef("main")


class OldServer(GitHttpServer):
    """Speaks version 0 of the protocol, in which only what is advertised is given out."""

    def _environment(self, request: web.Request, user: str) -> dict[str, str]:
        return super()._environment(request, user) | {"GIT_PROTOCOL": ""}


@pytest.fixture
def old_server(repositories: Path) -> Iterator[OldServer]:
    with OldServer.start(repositories) as server:
        yield server


@pytest.fixture
def plant(repositories: Path) -> Repository:
    return Repository.create(repositories / "plant.git")


@pytest.fixture
def strict(plant: Repository) -> Repository:
    """Gives out no ids and leaves nothing out."""
    plant.git("config", "uploadpack.allowAnySHA1InWant", "false")
    plant.git("config", "uploadpack.allowFilter", "false")
    return plant


@asynccontextmanager
async def mirror_of(url: str, tmp_path: Path, limits: FetchLimits | None = None) -> AsyncIterator[Mirror]:
    cache = tmp_path / "cache"
    remote = Remote(GitRunner(cache), RepoUrl(url), fixed_access(RepoAccess()))
    mirror = Mirror(remote, cache, limits=limits or FetchLimits())
    async with mirror.held():
        yield mirror


async def names(mirror: Mirror, tmp_path: Path, commit: CommitId) -> list[str]:
    return list((await read_tree(GitRunner(tmp_path / "cache"), mirror.path, commit)).files)


def posts(server: GitHttpServer) -> int:
    return sum(request.method == "POST" for request in server.requests)


def packs(mirror: Mirror) -> list[int]:
    return sorted(pack.stat().st_size for pack in mirror.path.rglob("*.pack"))


def tips(mirror: Mirror) -> list[str]:
    return [path.read_text().strip() for path in (mirror.path / TIPS).iterdir()]


async def test_the_first_fetch_brings_one_commit_and_no_history(
    git_http: GitHttpServer, plant: Repository, tmp_path: Path
) -> None:
    plant.commit({"old": "1"})
    commit = plant.commit({"a": "1"})
    async with mirror_of(git_http.url("plant.git"), tmp_path) as mirror:
        await mirror.fetch(commit, MAIN)
        assert (mirror.path / "shallow").read_text().strip() == commit
        assert await names(mirror, tmp_path, commit) == ["a", "old"]
        assert tips(mirror) == [commit]
        files = {path.name for path in mirror.path.rglob("*") if path.is_file() and "pack-" not in path.name}
        assert files == {"HEAD", "config", "shallow", *(path.name for path in (mirror.path / TIPS).iterdir())}
    assert posts(git_http) == 1


async def test_the_next_one_brings_what_is_new_in_one_round_trip(
    git_http: GitHttpServer, plant: Repository, tmp_path: Path
) -> None:
    first = plant.commit({f"f{n}": secrets.token_bytes(1000) for n in range(200)})
    async with mirror_of(git_http.url("plant.git"), tmp_path) as mirror:
        await mirror.fetch(first, MAIN)
        plant.commit({"f0": "between"})
        second = plant.commit({"f0": "changed"})
        git_http.requests.clear()
        await mirror.fetch(second, MAIN)
        assert posts(git_http) == 1
        assert (mirror.path / "shallow").read_text().strip() == first, "it was not cut off anew"
        assert packs(mirror)[0] < 20_000
        assert packs(mirror)[1] > 200_000
        assert len(await names(mirror, tmp_path, second)) == 200
        assert await mirror.objects.has(first)


async def test_a_commit_that_is_here_is_not_asked_for_again(
    git_http: GitHttpServer, plant: Repository, tmp_path: Path
) -> None:
    first = plant.commit({"a": "1"})
    second = plant.commit({"a": "2"})
    async with mirror_of(git_http.url("plant.git"), tmp_path) as mirror:
        await mirror.fetch(first, MAIN)
        await mirror.fetch(second, MAIN)
        git_http.requests.clear()
        for commit in (first, second):
            await mirror.fetch(commit, MAIN)
    assert git_http.requests == []


async def test_missing_contents_come_in_one_request(
    git_http: GitHttpServer, plant: Repository, tmp_path: Path
) -> None:
    contents = [b"content %d" % n for n in range(100)]
    commit = plant.commit({f"f{n}": content for n, content in enumerate(contents)} | {"other": "x"})
    async with mirror_of(git_http.url("plant.git"), tmp_path, FetchLimits(left_out="blob:none")) as mirror:
        await mirror.fetch(commit, MAIN)
        blobs = [blob_of(content) for content in contents]
        assert await mirror.objects.sizes(blobs) == [None] * 100
        git_http.requests.clear()
        await mirror.complete(blobs)
        assert posts(git_http) == 1
        assert [b"".join(blob.chunks) for blob in mirror.objects.contents(blobs)] == contents
        assert await mirror.objects.sizes([blob_of(b"x")]) == [None], "what was not asked for stays away"
        git_http.requests.clear()
        await mirror.complete(blobs)
        assert git_http.requests == []


async def test_reading_missing_content_asks_no_server(
    git_http: GitHttpServer, plant: Repository, tmp_path: Path
) -> None:
    commit = plant.commit({f"f{n}": str(n) for n in range(50)})
    later = plant.commit({"f0": "changed"})
    async with mirror_of(git_http.url("plant.git"), tmp_path, FetchLimits(left_out="blob:none")) as mirror:
        await mirror.fetch(commit, MAIN)
        await mirror.fetch(later, MAIN)
        git_http.requests.clear()
        runner = GitRunner(tmp_path / "cache")
        for command in (["cat-file", "-e"], ["cat-file", "-p"], ["rev-parse", "--verify"]):
            with pytest.raises(GitFailed):
                await runner.run(command, [f"{commit}:f0^{{blob}}"], repository=mirror.path)
        await runner.run(["diff-tree", "-r", "-p", "--raw"], [commit, commit], repository=mirror.path)
        with pytest.raises(GitFailed, match="not in the mirror"):
            list(mirror.objects.contents([blob_of(b"1")]))
        assert "promisor" not in (mirror.path / "config").read_text()
    assert git_http.requests == []


async def test_another_ref_is_taken_without_its_history(
    git_http: GitHttpServer, plant: Repository, tmp_path: Path
) -> None:
    noise = secrets.token_bytes(300_000)
    plant.commit({"history": noise, "same": secrets.token_bytes(50_000)}, branch="release")
    plant.commit({"history": None}, branch="release")
    release = plant.commit({"r": "1"}, branch="release")
    first = plant.commit({"a": "1"}, onto=release)
    async with mirror_of(git_http.url("plant.git"), tmp_path) as mirror:
        await mirror.fetch(first, MAIN)
        await mirror.fetch(release, GitRef("release"))
        assert sorted(tips(mirror)) == sorted([first, release])
        assert packs(mirror)[0] < 10_000, "what main has is not sent again"
        assert sum(packs(mirror)) < 200_000, "what only the history has is not sent at all"


async def test_after_a_rewrite_one_commit_alone_is_taken(
    git_http: GitHttpServer, plant: Repository, tmp_path: Path
) -> None:
    root = plant.commit({"history": secrets.token_bytes(300_000)})
    plant.commit({"history": None, "a": "0"})
    first = plant.commit({"a": "1"})
    async with mirror_of(git_http.url("plant.git"), tmp_path, FetchLimits(news=100_000)) as mirror:
        await mirror.fetch(first, MAIN)
        rewritten = plant.commit({"history": None, "a": "2"}, onto=root)
        await mirror.fetch(rewritten, MAIN)
        assert rewritten in (mirror.path / "shallow").read_text().split()
        assert await names(mirror, tmp_path, rewritten) == ["a"]
        assert sum(packs(mirror)) < 100_000
        assert not list(mirror.path.rglob("tmp_*"))
        following = plant.commit({"b": "1"})
        git_http.requests.clear()
        await mirror.fetch(following, MAIN)
        assert posts(git_http) == 1
        assert following not in (mirror.path / "shallow").read_text().split()


async def test_more_than_the_bound_is_refused_by_name_and_the_mirror_stays(
    git_http: GitHttpServer, plant: Repository, tmp_path: Path
) -> None:
    first = plant.commit({"a": "1"})
    limits = FetchLimits(fetch=100_000, news=100_000)
    async with mirror_of(git_http.url("plant.git"), tmp_path, limits) as mirror:
        await mirror.fetch(first, MAIN)
        large = plant.commit({"large": secrets.token_bytes(300_000)})
        with pytest.raises(SourceTooLarge, match=r"plant.git sends more than the 100000 bytes"):
            await mirror.fetch(large, MAIN)
        assert not list(mirror.path.rglob("tmp_*"))
        assert await names(mirror, tmp_path, first) == ["a"]
        small = plant.commit({"large": None, "b": "1"}, onto=first)
        await mirror.fetch(small, MAIN)
        assert await names(mirror, tmp_path, small) == ["a", "b"]


async def test_a_content_above_the_bound_is_refused_by_name(
    git_http: GitHttpServer, plant: Repository, tmp_path: Path
) -> None:
    noise = secrets.token_bytes(300_000)
    commit = plant.commit({"large": noise, "a": "1"})
    async with mirror_of(
        git_http.url("plant.git"), tmp_path, FetchLimits(fetch=100_000, left_out="blob:limit=1k")
    ) as mirror:
        await mirror.fetch(commit, MAIN)
        with pytest.raises(SourceTooLarge):
            await mirror.complete([blob_of(noise)])
        await mirror.complete([blob_of(b"1")])


async def test_a_server_that_gives_out_no_ids_is_asked_for_the_ref(
    old_server: OldServer, strict: Repository, tmp_path: Path
) -> None:
    tagged = strict.commit({"a": "1"})
    strict.tag("v1", tagged, message="Release")
    strict.commit({"a": "2"})
    async with mirror_of(old_server.url("plant.git"), tmp_path) as mirror:
        await mirror.fetch(tagged, GitRef("v1"))
        assert await names(mirror, tmp_path, tagged) == ["a"]
        assert (mirror.path / "shallow").read_text().strip() == tagged
        await mirror.complete([blob_of(b"1")])


async def test_such_a_server_sends_what_is_new_too(
    old_server: OldServer, strict: Repository, tmp_path: Path
) -> None:
    first = strict.commit({f"f{n}": secrets.token_bytes(1000) for n in range(100)})
    async with mirror_of(old_server.url("plant.git"), tmp_path) as mirror:
        await mirror.fetch(first, MAIN)
        second = strict.commit({"f0": "1"})
        strict.commit({"f0": "2"})  # the ref has moved on
        await mirror.fetch(second, MAIN)
        assert len(await names(mirror, tmp_path, second)) == 100
        assert packs(mirror)[0] < 20_000


async def test_a_commit_in_the_history_is_found_as_a_last_resort(
    old_server: OldServer, strict: Repository, tmp_path: Path
) -> None:
    old = strict.commit({"old": "1"})
    strict.commit({"new": "1"})
    async with mirror_of(old_server.url("plant.git"), tmp_path) as mirror:
        await mirror.fetch(old, MAIN)
        assert await names(mirror, tmp_path, old) == ["old"]
        assert tips(mirror) == [old]
        later = strict.commit({"later": "1"})
        await mirror.fetch(later, MAIN)
        assert await names(mirror, tmp_path, later) == ["later", "new", "old"]


async def test_a_commit_that_is_nowhere_is_named(
    old_server: OldServer, strict: Repository, tmp_path: Path
) -> None:
    strict.commit({"a": "1"})
    missing = CommitId("1" * 40)
    for url in (old_server.url("plant.git"), strict.path.as_uri()):
        async with mirror_of(url, tmp_path) as mirror:
            with pytest.raises(RefNotFound, match=missing):
                await mirror.fetch(missing, MAIN)


async def test_an_id_that_is_no_commit_is_named(
    git_http: GitHttpServer, plant: Repository, tmp_path: Path
) -> None:
    plant.commit({"a": "1"})
    async with mirror_of(git_http.url("plant.git"), tmp_path) as mirror:
        blob = CommitId(blob_of(b"1"))
        with pytest.raises(RefNotFound, match=f"{blob} is no commit"):
            await mirror.fetch(blob, MAIN)


async def test_a_server_that_refuses_this_filter_is_asked_without_one(
    git_http: GitHttpServer, plant: Repository, tmp_path: Path
) -> None:
    plant.git("config", "uploadpackfilter.allow", "false")
    first = plant.commit({"a": "1"})
    async with mirror_of(git_http.url("plant.git"), tmp_path) as mirror:
        await mirror.fetch(first, MAIN)
        second = plant.commit({"b": "1"})
        await mirror.fetch(second, MAIN)
        assert await names(mirror, tmp_path, second) == ["a", "b"]
        await mirror.complete([blob_of(b"1")])


async def test_a_content_that_neither_side_has_is_a_damaged_mirror(
    git_http: GitHttpServer, plant: Repository, tmp_path: Path
) -> None:
    commit = plant.commit({"a": "1"})
    missing = BlobId("1" * 40)
    async with mirror_of(git_http.url("plant.git"), tmp_path) as mirror:
        await mirror.fetch(commit, MAIN)
        with pytest.raises(GitFailed, match=missing):
            await mirror.complete([missing])


async def test_only_the_latest_refs_are_sent_to_the_source(plant: Repository, tmp_path: Path) -> None:
    async with mirror_of(plant.path.as_uri(), tmp_path) as mirror:
        for number in range(MAX_TIPS + 3):
            commit = plant.commit({f"f{number}": "1"})
            await mirror.fetch(commit, GitRef(commit))
            for age, path in enumerate((mirror.path / TIPS).iterdir()):
                os.utime(path, (age, age))
        assert len(tips(mirror)) == MAX_TIPS + 1


async def test_when_the_way_from_the_last_commit_fails_the_next_attempt_takes_the_other(
    git_http: GitHttpServer, plant: Repository, tmp_path: Path
) -> None:
    first = plant.commit({"a": "1"})
    async with mirror_of(git_http.url("plant.git"), tmp_path) as mirror:
        await mirror.fetch(first, MAIN)
        second = plant.commit({"b": "1"})
        plant.path.rename(plant.path.with_name("away"))
        with pytest.raises(SourceUnreachable):
            await mirror.fetch(second, MAIN)
        assert [path.read_text().strip() for path in (mirror.path / STALE_REFS).iterdir()] == [first]
        plant.path.with_name("away").rename(plant.path)
        await mirror.fetch(second, MAIN)
        assert second in (mirror.path / "shallow").read_text().split()
        assert tips(mirror) == [second]
        assert not list((mirror.path / STALE_REFS).iterdir())
        assert packs(mirror)[0] < 1_000
