"""A ref means one commit, the same one for everybody who asks."""

from pathlib import Path

import pytest

from stoker.domain.reasons import Reason
from stoker.domain.refs import GitRef, RepoUrl
from stoker.git.errors import RefNotFound, SourceUnreachable
from stoker.git.resolving import resolve
from stoker.git.runner import GitRunner
from stoker.testing.repositories import Repository


@pytest.fixture
def runner(tmp_path: Path) -> GitRunner:
    return GitRunner(tmp_path / "cache")


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository.create(tmp_path / "r.git")


def url(repository: Repository) -> RepoUrl:
    return RepoUrl(repository.path.as_uri())


async def test_a_branch_means_its_tip(runner: GitRunner, repository: Repository) -> None:
    repository.commit({"a": "1"})
    second = repository.commit({"a": "2"})
    assert await resolve(runner, url(repository), GitRef("main")) == second
    assert await resolve(runner, url(repository), GitRef("HEAD")) == second


async def test_a_tag_wins_over_a_branch_of_its_name(runner: GitRunner, repository: Repository) -> None:
    tagged = repository.commit({"a": "1"})
    repository.tag("v1", tagged)
    branch = repository.commit({"a": "2"}, branch="v1")
    assert await resolve(runner, url(repository), GitRef("v1")) == tagged
    assert await resolve(runner, url(repository), GitRef("refs/heads/v1")) == branch
    assert await resolve(runner, url(repository), GitRef("refs/tags/v1")) == tagged


async def test_an_annotated_tag_means_its_commit(runner: GitRunner, repository: Repository) -> None:
    commit = repository.commit({"a": "1"})
    repository.tag("v1", commit, message="Release")
    repository.tag("v1-nested", repository.git("rev-parse", "refs/tags/v1").decode().strip(), message="Again")
    for ref in ("v1", "refs/tags/v1", "v1-nested"):
        assert await resolve(runner, url(repository), GitRef(ref)) == commit


async def test_a_full_commit_id_is_taken_as_it_is_without_asking_anybody(runner: GitRunner) -> None:
    for digits in (40, 64):
        ref = GitRef("a" * digits)
        assert await resolve(runner, RepoUrl("file:///nowhere"), ref) == "a" * digits


async def test_a_name_that_only_ends_like_the_ref_is_not_meant(
    runner: GitRunner, repository: Repository
) -> None:
    repository.commit({"a": "1"}, branch="feature/main")
    with pytest.raises(RefNotFound):
        await resolve(runner, url(repository), GitRef("main"))


async def test_a_missing_ref_is_named_with_its_repository(runner: GitRunner, repository: Repository) -> None:
    repository.commit({"a": "1"})
    with pytest.raises(RefNotFound, match=r"'nope'.*r\.git") as missing:
        await resolve(runner, url(repository), GitRef("nope"))
    assert missing.value.reason is Reason.REF_NOT_FOUND


async def test_a_shortened_commit_id_gets_a_hint(runner: GitRunner, repository: Repository) -> None:
    commit = repository.commit({"a": "1"})
    with pytest.raises(RefNotFound, match="written in full"):
        await resolve(runner, url(repository), GitRef(commit[:10]))


async def test_a_missing_repository_is_unreachable(runner: GitRunner) -> None:
    with pytest.raises(SourceUnreachable, match="file:///nowhere"):
        await resolve(runner, RepoUrl("file:///nowhere"), GitRef("main"))


async def test_a_repository_with_sha256_ids_is_read_too(runner: GitRunner, tmp_path: Path) -> None:
    repository = Repository.create(tmp_path / "256.git", object_format="sha256")
    commit = repository.commit({"a": "1"})
    assert len(commit) == 64
    assert await resolve(runner, url(repository), GitRef("main")) == commit
