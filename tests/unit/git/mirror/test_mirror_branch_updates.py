"""Mirrors that follow a branch: what they take, when they do not, and whose they are."""

from __future__ import annotations

import secrets
from pathlib import Path

import pytest

from stoker.domain.refs import GitRef, RepoUrl
from stoker.git.auth.credentials import RepoAccess, fixed_access
from stoker.git.mirror.mirror import Mirror
from stoker.git.process.runner import GitRunner
from stoker.git.remote.fetch import FetchLimits
from stoker.git.remote.remote import Remote
from stoker.git.source.git import GitSource
from stoker_testkit.repositories.bare_repository import Repository

MAIN = GitRef("main")


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository.create(tmp_path / "r.git")


def remote_of(repository: Repository, cache: Path) -> Remote:
    return Remote(GitRunner(cache), RepoUrl(repository.path.as_uri()), fixed_access(RepoAccess()))


def mirror_of(
    repository: Repository, tmp_path: Path, limits: FetchLimits | None = None, purpose: str = ""
) -> Mirror:
    cache = tmp_path / "cache"
    return Mirror(remote_of(repository, cache), cache, limits=limits or FetchLimits(), purpose=purpose)


async def test_following_a_branch_takes_no_more_than_may_be_new(
    repository: Repository, tmp_path: Path
) -> None:
    mirror = mirror_of(repository, tmp_path, FetchLimits(news=100_000))
    first = repository.commit({"a": "1"})
    async with mirror.held():
        await mirror.fetch(first, MAIN)
    small = repository.commit({"a": "2"})
    assert await mirror.follow(MAIN, "refs/heads/main", 40) == small
    repository.commit({"large": secrets.token_bytes(300_000)})
    assert await mirror.follow(MAIN, "refs/heads/main", 40) is None
    assert not list(mirror.path.rglob("tmp_*"))


async def test_a_mirror_that_takes_too_much_room_is_not_followed_any_more(
    repository: Repository, tmp_path: Path
) -> None:
    commit = repository.commit({"a": "1"})
    mirror = mirror_of(repository, tmp_path)
    async with mirror.held():
        await mirror.fetch(commit, MAIN)
    assert await mirror.follow(MAIN, "refs/heads/main", 40) == commit
    assert (
        await mirror_of(repository, tmp_path, FetchLimits(mirror=100)).follow(MAIN, "refs/heads/main", 40)
        is None
    )


async def test_what_is_known_of_one_branch_does_not_answer_for_another(
    repository: Repository, tmp_path: Path
) -> None:
    cache = tmp_path / "cache"
    source = GitSource(remote_of(repository, cache), cache)
    first = repository.commit({"a": "1"})
    release = repository.commit({"a": "2"}, branch="release", onto=first)
    for _ in range(2):
        assert await source.resolve(MAIN) == first
        async with source.held():
            await source.fetch(first, MAIN)
        assert await source.resolve(GitRef("release")) == release


async def test_another_purpose_has_a_mirror_of_its_own(repository: Repository, tmp_path: Path) -> None:
    reading, writing = mirror_of(repository, tmp_path), mirror_of(repository, tmp_path, purpose="main")
    for mirror in (reading, writing):
        async with mirror.held():
            pass
    assert reading.path != writing.path
