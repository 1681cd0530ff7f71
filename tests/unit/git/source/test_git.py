"""A git repository as a source: everything that a pass asks of it."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from stoker.domain.errors import Stalled
from stoker.domain.git_objects import FileVersion, TreeChange, blob_of
from stoker.domain.refs import CommitId, GitRef, RepoUrl
from stoker.engine.source_protocol import SourceReader
from stoker.git.auth.credentials import RepoAccess, fixed_access
from stoker.git.errors import GitFailed, RefNotFound, SourceTooLarge
from stoker.git.process.runner import GitRunner
from stoker.git.remote.fetch import FetchLimits
from stoker.git.remote.remote import Remote
from stoker.git.source.git import GitSource
from stoker_testkit.repositories.bare_repository import WHEN, Repository

MAIN = GitRef("main")
POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0" * 64 + b"\nsize 1\n"


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository.create(tmp_path / "r.git")


@pytest.fixture
def source(repository: Repository, tmp_path: Path) -> GitSource:
    return source_of(repository, tmp_path)


def source_of(repository: Repository, tmp_path: Path, limits: FetchLimits | None = None) -> GitSource:
    cache = tmp_path / "cache"
    remote = Remote(GitRunner(cache), RepoUrl(repository.path.as_uri()), fixed_access(RepoAccess()))
    return GitSource(remote, cache, limits=limits or FetchLimits())


async def test_it_is_all_that_a_sync_needs(repository: Repository, source: GitSource) -> None:
    reader: SourceReader = source
    first = repository.commit({"a": "1", "d/b": "2"})
    assert await reader.resolve(MAIN) == first
    async with reader.held():
        await reader.fetch(first, MAIN)
        tree = await reader.tree(first)
        assert tree.files == {"a": FileVersion(blob_of(b"1")), "d/b": FileVersion(blob_of(b"2"))}
        assert await reader.committed_at(first) == WHEN
    second = repository.commit({"a": "new"}, when=WHEN + 5)
    async with reader.held():
        await reader.fetch(second, MAIN)
        change = TreeChange("a", FileVersion(blob_of(b"1")), FileVersion(blob_of(b"new")))
        assert await reader.changes(first, second) == (change,)
        assert await reader.look_up(second, ["a", "d", "x"]) == {"a": FileVersion(blob_of(b"new"))}
        assert await reader.committed_at(second) == WHEN + 5
        await reader.complete([blob_of(b"new"), blob_of(b"2")])
        blobs = [blob_of(b"2"), blob_of(b"new")]
        got = await asyncio.to_thread(lambda: [b"".join(blob.chunks) for blob in reader.contents(blobs)])
        assert got == [b"2", b"new"]


async def test_a_tag_that_names_no_commit_is_refused_by_its_name(
    repository: Repository, source: GitSource
) -> None:
    repository.commit({"a": "1"})
    repository.tag("release", repository.git("rev-parse", "main^{tree}").decode().strip())
    ref = GitRef("release")
    async with source.held():
        with pytest.raises(RefNotFound, match=r"is no commit with a tree .*\(ref 'release'\)"):
            await source.fetch(await source.resolve(ref), ref)


async def test_the_commit_that_was_applied_stays_known_over_many_others(
    repository: Repository, source: GitSource
) -> None:
    first = repository.commit({"a": "1"})
    async with source.held():
        await source.fetch(first, MAIN)
        for number in range(12):
            latest = repository.commit({"a": f"{number}", f"f{number}": "1"}, branch=f"b{number}", onto=first)
            await source.fetch(latest, GitRef(f"b{number}"))
        changes = await source.changes(first, latest)
    assert changes is not None
    assert [change.path for change in changes] == ["a", "f11"]


async def test_after_the_mirror_was_rebuilt_changes_are_not_reported(
    repository: Repository, source: GitSource
) -> None:
    first = repository.commit({"a": "1"})
    async with source.held():
        await source.fetch(first, MAIN)
        second = repository.commit({"a": "2"})
        source.discard()
        await source.fetch(second, MAIN)
        assert await source.changes(first, second) is None
        assert (await source.tree(second)).files.keys() == {"a"}


async def test_recovers_when_the_mirror_vanishes_between_two_calls(
    repository: Repository, source: GitSource, tmp_path: Path
) -> None:
    commit = repository.commit({"a": "1"})
    async with source.held():
        await source.fetch(commit, MAIN)
        source.repository.rename(tmp_path / "gone")
        with pytest.raises(GitFailed):
            await source.tree(commit)
        source.discard()
        await source.fetch(commit, MAIN)
        assert (await source.tree(commit)).files.keys() == {"a"}


async def test_every_rule_is_asked_about_the_commit_that_is_here(
    repository: Repository, tmp_path: Path
) -> None:
    asked: list[tuple[str, str | None]] = []

    async def note(
        remote: Remote, mirror: Path, commit: CommitId, ref: GitRef, before: CommitId | None
    ) -> None:
        await remote.runner.run(["cat-file", "-e"], [commit], repository=mirror)
        asked.append((commit, before))

    async def refuse(*_: object) -> None:
        raise Stalled("not signed")

    cache = tmp_path / "cache"
    remote = Remote(GitRunner(cache), RepoUrl(repository.path.as_uri()), fixed_access(RepoAccess()))
    source = GitSource(remote, cache, rules=[note, refuse])
    first = repository.commit({"a": "1"})
    second = repository.commit({"a": "2"})
    async with source.held():
        await source.fetch(second, MAIN)
        with pytest.raises(Stalled, match="not signed"):
            await source.vouch(second, MAIN, first)
    assert asked == [(second, first)]


async def test_limits_reach_the_mirror(repository: Repository, tmp_path: Path) -> None:
    commit = repository.commit({"a": os.urandom(200_000)})
    source = source_of(repository, tmp_path, FetchLimits(fetch=100_000))
    async with source.held():
        with pytest.raises(SourceTooLarge):
            await source.fetch(commit, MAIN)


async def test_using_it_cleans_up_once_a_day(
    repository: Repository, source: GitSource, tmp_path: Path
) -> None:
    old = tmp_path / "cache/mirrors" / ("0" * 40)
    async with source.held():
        old.mkdir()
    assert not old.exists()
    async with source.held():
        old.mkdir()
    assert old.exists()
