"""A ref means one commit, the same one for everybody who asks."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from stoker.domain.reasons import Reason
from stoker.domain.refs import CommitId, GitRef, RepoUrl
from stoker.git.auth.credentials import RepoAccess, fixed_access
from stoker.git.errors import RefAmbiguous, RefNotFound, SourceTooLarge, SourceUnreachable
from stoker.git.process.runner import GitRunner
from stoker.git.remote import probe
from stoker.git.remote.remote import Remote
from stoker.git.remote.resolve import find_ref, locate_ref, resolve_ref
from stoker_testkit.faults.stream_faults import Direction
from stoker_testkit.faults.tcp_fault_proxy import FaultProxy
from stoker_testkit.repositories.bare_repository import Repository
from stoker_testkit.repositories.git_http_server import GitHttpServer

Opener = Callable[[str], Remote]


@pytest.fixture
def opened(tmp_path: Path) -> Opener:
    runner = GitRunner(tmp_path / "cache")
    return lambda url: Remote(runner, RepoUrl(url), fixed_access(RepoAccess()))


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository.create(tmp_path / "r.git")


@pytest.fixture
def remote(opened: Opener, repository: Repository) -> Remote:
    return opened(repository.path.as_uri())


async def test_a_branch_means_its_tip(remote: Remote, repository: Repository) -> None:
    repository.commit({"a": "1"})
    second = repository.commit({"a": "2"})
    assert await resolve_ref(remote, GitRef("main")) == second
    assert await resolve_ref(remote, GitRef("HEAD")) == second


@pytest.mark.parametrize("message", [None, "Pinned"], ids=["lightweight", "annotated"])
async def test_a_branch_wins_over_a_tag_of_its_name(
    remote: Remote, repository: Repository, message: str | None
) -> None:
    tagged = repository.commit({"a": "1"})
    repository.tag("main", tagged, message=message)
    branch = repository.commit({"a": "2"})
    assert await resolve_ref(remote, GitRef("main")) == branch
    assert await resolve_ref(remote, GitRef("refs/heads/main")) == branch
    assert await resolve_ref(remote, GitRef("refs/tags/main")) == tagged
    assert await find_ref(remote, GitRef("main")) == ("refs/heads/main", branch)
    assert await locate_ref(remote, GitRef("main"), GitRef("refs/heads/x")) == (
        "refs/heads/main",
        branch,
        None,
    )


async def test_an_annotated_tag_means_its_commit(remote: Remote, repository: Repository) -> None:
    commit = repository.commit({"a": "1"})
    repository.tag("v1", commit, message="Release")
    repository.tag("v1-nested", repository.git("rev-parse", "refs/tags/v1").decode().strip(), message="Again")
    for ref in ("v1", "refs/tags/v1", "v1-nested"):
        assert await resolve_ref(remote, GitRef(ref)) == commit
        assert (await find_ref(remote, GitRef(ref)))[1] == commit


async def test_any_other_ref_can_be_named_in_full(remote: Remote, repository: Repository) -> None:
    commit = repository.commit({"a": "1"})
    repository.git("update-ref", "refs/pull/7/head", commit)
    assert await resolve_ref(remote, GitRef("refs/pull/7/head")) == commit
    with pytest.raises(RefNotFound):
        await resolve_ref(remote, GitRef("pull/7/head"))


async def test_a_full_commit_id_is_used_as_it_is_without_a_request(opened: Opener) -> None:
    nowhere = opened("file:///nowhere")
    for digits in (40, 64):
        assert await resolve_ref(nowhere, GitRef("a" * digits)) == "a" * digits
        assert await resolve_ref(nowhere, GitRef("A" * digits)) == "a" * digits


async def test_a_name_that_only_ends_like_the_ref_is_not_meant(
    remote: Remote, repository: Repository
) -> None:
    repository.commit({"a": "1"}, branch="feature/main")
    with pytest.raises(RefNotFound):
        await resolve_ref(remote, GitRef("main"))


async def test_a_missing_ref_is_named_with_its_repository(remote: Remote, repository: Repository) -> None:
    repository.commit({"a": "1"})
    with pytest.raises(RefNotFound, match=r"'nope'.*r\.git") as missing:
        await resolve_ref(remote, GitRef("nope"))
    assert missing.value.reason is Reason.REF_NOT_FOUND


async def test_a_missing_repository_is_unreachable(opened: Opener) -> None:
    with pytest.raises(SourceUnreachable, match="file:///nowhere"):
        await resolve_ref(opened("file:///nowhere"), GitRef("main"))


async def test_a_repository_with_sha256_ids_is_read_too(opened: Opener, tmp_path: Path) -> None:
    repository = Repository.create(tmp_path / "256.git", object_format="sha256")
    first = repository.commit({"a": "1"})
    commit = repository.commit({"a": "2"})
    repository.tag("v1", commit, message="Release")
    remote = opened(repository.path.as_uri())
    assert len(commit) == 64
    for ref in ("main", "v1"):
        assert await resolve_ref(remote, GitRef(ref)) == commit
    assert await resolve_ref(remote, GitRef(first[:12])) == first


@pytest.mark.parametrize("kind", ["blob", "tree"])
async def test_a_tag_that_names_no_commit_is_refused_in_words(
    remote: Remote, repository: Repository, kind: str
) -> None:
    repository.commit({"a": f"this is a {kind}"})
    target = repository.git("rev-parse", "main:a" if kind == "blob" else "main^{tree}").decode().strip()
    repository.tag("light", target)
    repository.tag("annotated", target, message="Not a release")
    for ref in ("light", "annotated", "refs/tags/light"):
        with pytest.raises(RefNotFound, match=f"names a {kind}, not a commit"):
            await resolve_ref(remote, GitRef(ref))


async def test_resolving_a_branch_asks_the_server_once_and_a_tag_again_only_for_what_is_new(
    opened: Opener, git_http: GitHttpServer, repositories: Path
) -> None:
    repository = Repository.create(repositories / "r.git")
    commit = repository.commit({"a": "asked for once"})
    repository.tag("v1", commit)
    remote = opened(git_http.url("r.git"))
    asked = []
    for ref in ("main", "v1", "v1"):
        git_http.requests.clear()
        await resolve_ref(remote, GitRef(ref))
        asked.append(len([seen for seen in git_http.requests if seen.method == "GET"]))
    assert asked == [1, 2, 1]


async def test_refs_of_pull_requests_are_not_sent_for_a_branch(
    opened: Opener, git_http: GitHttpServer, repositories: Path
) -> None:
    """A forge has tens of thousands of them."""
    repository = Repository.create(repositories / "r.git")
    commit = repository.commit({"a": "1"})
    updates = "".join(f"create refs/pull/{n}/head {commit}\n" for n in range(3000))
    repository.git("update-ref", "--stdin", stdin=updates.encode())
    with FaultProxy.start(git_http.url("")) as line:
        remote = opened(f"http://{line.address}/r.git")
        assert await resolve_ref(remote, GitRef("main")) == commit
        assert line.bytes[Direction.TO_CLIENT] < 5000


# Shortened commit ids.


async def test_a_shortened_id_means_the_commit_that_begins_with_it(
    remote: Remote, repository: Repository
) -> None:
    old, middle, tip = (repository.commit({"a": str(n)}) for n in range(3))
    repository.tag("v1", middle, message="Release")
    for commit in (old, middle, tip):
        for ref in (commit[:7], commit[:12].upper(), commit[:39]):
            assert await resolve_ref(remote, GitRef(ref)) == commit


async def test_the_shortened_id_of_a_tag_object_means_its_commit(
    remote: Remote, repository: Repository
) -> None:
    commit = repository.commit({"a": "1"})
    repository.tag("v1", commit, message="Release")
    tag = repository.git("rev-parse", "refs/tags/v1").decode().strip()
    assert await resolve_ref(remote, GitRef(tag[:10])) == commit


async def test_a_branch_or_tag_of_that_name_wins(remote: Remote, repository: Repository) -> None:
    commit = repository.commit({"a": "1"})
    other = repository.commit({"a": "2"}, branch=commit[:8])
    assert await resolve_ref(remote, GitRef(commit[:8])) == other
    repository.tag(commit[:8], repository.commit({"a": "3"}))
    assert await resolve_ref(remote, GitRef(commit[:8])) == other


async def test_six_digits_are_a_name(remote: Remote, repository: Repository) -> None:
    commit = repository.commit({"a": "1"})
    with pytest.raises(RefNotFound):
        await resolve_ref(remote, GitRef(commit[:6]))


def alike(repository: Repository) -> tuple[CommitId, CommitId, str]:
    """Two commits whose ids begin with the same seven digits, found by trying; and those digits."""
    tree = repository.git("mktree").decode().strip()
    seen: dict[str, str] = {}
    body = f"tree {tree}\nauthor T <t@example.test> 1 +0000\ncommitter T <t@example.test> 1 +0000\n\n"
    number = 0
    while True:
        raw = f"{body}{number}\n".encode()
        digest = hashlib.sha1(b"commit %d\0" % len(raw) + raw, usedforsecurity=False).hexdigest()
        if digest[:7] in seen:
            texts = (seen[digest[:7]], raw.decode())
            ids = [
                repository.git("hash-object", "-t", "commit", "-w", "--stdin", stdin=text.encode())
                for text in texts
            ]
            first, second = (CommitId(id_.decode().strip()) for id_ in ids)
            return first, second, digest[:7]
        seen[digest[:7]] = raw.decode()
        number += 1


@pytest.mark.parametrize("named", [True, False], ids=["branches", "history"])
async def test_a_shortened_id_that_fits_two_commits_is_refused_with_both(
    remote: Remote, repository: Repository, named: bool
) -> None:
    first, second, start = alike(repository)
    for branch, commit in (("one", first), ("two", second)):
        repository.set_branch(branch, commit)
        if not named:
            repository.commit({"a": branch}, branch=branch)
    with pytest.raises(RefAmbiguous, match=first) as refused:
        await resolve_ref(remote, GitRef(start))
    assert second in refused.value.message
    assert refused.value.reason is Reason.REF_AMBIGUOUS
    longer = next(n for n in range(7, 40) if first[:n] != second[:n])
    assert await resolve_ref(remote, GitRef(first[:longer])) == first


async def test_a_shortened_id_of_nothing_is_not_found(remote: Remote, repository: Repository) -> None:
    with pytest.raises(RefNotFound):  # in an empty repository
        await resolve_ref(remote, GitRef("abcdef1"))
    repository.commit({"a": "1"})
    repository.commit({"a": "2"})
    with pytest.raises(RefNotFound, match="'abcdef1'"):
        await resolve_ref(remote, GitRef("abcdef1"))


async def test_the_shortened_id_of_a_file_or_folder_is_not_found(
    remote: Remote, repository: Repository
) -> None:
    repository.git("config", "uploadpack.allowFilter", "false")
    repository.commit({"a": "1"})
    for name in ("main:a", "main^{tree}"):
        with pytest.raises(RefNotFound):
            await resolve_ref(remote, GitRef(repository.git("rev-parse", name).decode()[:10]))


@pytest.mark.parametrize(
    "setting", ["uploadpack.allowFilter", "uploadpackfilter.tree.allow", "uploadpackfilter.allow"]
)
async def test_a_server_without_filters_is_searched_too(
    opened: Opener, git_http: GitHttpServer, repositories: Path, setting: str
) -> None:
    repository = Repository.create(repositories / "r.git")
    repository.git("config", setting, "false")
    old = repository.commit({"a": "1"})
    repository.commit({"a": "2"})
    repository.tag("v1", repository.tip())
    remote = opened(git_http.url("r.git"))
    assert await resolve_ref(remote, GitRef(old[:8])) == old
    assert await resolve_ref(remote, GitRef("v1")) == repository.tip()


async def test_only_commits_are_fetched_for_a_shortened_id_and_nothing_stays(
    remote: Remote, repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probe, "MAX_HISTORY", 20_000)
    old = repository.commit({f"f{n}": f"{n}" for n in range(2000)} | {"big": os.urandom(300_000)})
    repository.commit({"a": "2"})
    assert await resolve_ref(remote, GitRef(old[:9])) == old
    assert not list(remote.runner.home.glob("call-*"))


async def test_a_history_beyond_the_limit_is_refused(
    remote: Remote, repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probe, "MAX_HISTORY", 50_000)
    repository.git("config", "uploadpack.allowFilter", "false")
    old = repository.commit({"big": os.urandom(300_000)})
    repository.commit({"a": "2"})
    with pytest.raises(SourceTooLarge, match="50000 bytes"):
        await resolve_ref(remote, GitRef(old[:9]))
    assert not list(remote.runner.home.glob("call-*"))


async def test_the_history_is_searched_once_for_each_shortened_id(
    opened: Opener, git_http: GitHttpServer, repositories: Path
) -> None:
    repository = Repository.create(repositories / "r.git")
    old = repository.commit({"a": "searched for once"})
    repository.commit({"a": "2"})
    remote = opened(git_http.url("r.git"))
    await resolve_ref(remote, GitRef(old[:8]))
    git_http.requests.clear()
    assert await resolve_ref(remote, GitRef(old[:8])) == old
    assert len(git_http.requests) == 2  # the refs, since one of that name may have been made
