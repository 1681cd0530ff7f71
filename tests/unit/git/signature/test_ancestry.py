"""Ancestry of two commits, decided with as little history as possible and never guessed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from aiohttp import web

from stoker.domain.errors import Retry, Stalled
from stoker.domain.reasons import Reason
from stoker.domain.refs import CommitId, GitRef, RepoUrl
from stoker.git.auth.credentials import RepoAccess
from stoker.git.errors import SourceTooLarge, SourceUnreachable
from stoker.git.process.runner import GitRunner
from stoker.git.remote.remote import Remote
from stoker.git.signature import ancestry
from stoker.git.signature.ancestry import check_descent, is_descendant
from stoker_testkit.repositories.bare_repository import Repository
from stoker_testkit.repositories.git_http_server import GitHttpServer

MAIN = GitRef("main")


async def nothing_needed() -> RepoAccess:
    return RepoAccess()


class CommitGraph:
    """A repository behind a server, and a mirror that fetches from it as mirrors do."""

    def __init__(self, folder: Path, server: GitHttpServer, object_format: str = "sha1") -> None:
        self.server = server
        self.repository = Repository.create(server.root / "r.git", object_format=object_format)
        self.mirror = Repository.create(folder / "mirrors" / "m.git", object_format=object_format)
        self.remote = Remote(GitRunner(folder / "cache"), RepoUrl(server.url("r.git")), nothing_needed)

    def line(self, count: int, *, branch: str = "main", onto: str | None = None) -> list[CommitId]:
        """That many commits in a row."""
        first = self.repository.commit({"a": f"{branch} 0"}, branch=branch, onto=onto)
        later = range(1, count)
        return [first, *(self.repository.commit({"a": f"{branch} {n}"}, branch=branch) for n in later)]

    def first_fetch(self, commit: str) -> None:
        self.mirror.git("fetch", "-q", "--depth=1", self.remote.url, f"+{commit}:refs/stoker/wanted")

    def later_fetch(self, commit: str) -> None:
        self.mirror.git("fetch", "-q", self.remote.url, f"+{commit}:refs/stoker/wanted")

    async def descends(self, ancestor: str, commit: str, ref: GitRef = MAIN) -> bool:
        """The answer; the mirror is as it was, and there is nothing beside it."""
        before = self._state()
        self.server.requests.clear()
        try:
            return await is_descendant(
                self.remote, self.mirror.path, ancestor=CommitId(ancestor), commit=CommitId(commit), ref=ref
            )
        finally:
            assert self._state() == before
            assert list(self.mirror.path.parent.iterdir()) == [self.mirror.path]

    @property
    def asked(self) -> bool:
        return bool(self.server.requests)

    def _state(self) -> tuple[bytes, ...]:
        shallow = self.mirror.path / "shallow"
        return (
            self.mirror.git("for-each-ref"),
            self.mirror.git("cat-file", "--batch-all-objects", "--batch-check"),
            (self.mirror.path / "config").read_bytes(),
            shallow.read_bytes() if shallow.exists() else b"",
        )


@pytest.fixture
def graph(tmp_path: Path, git_http: GitHttpServer) -> CommitGraph:
    return CommitGraph(tmp_path, git_http)


async def test_a_commit_continues_itself(graph: CommitGraph) -> None:
    commit = graph.repository.commit({"a": "1"})
    assert await graph.descends(commit, commit)
    assert not graph.asked


@pytest.mark.parametrize("object_format", ["sha1", "sha256"])
async def test_a_branch_that_moved_forward_is_known_from_the_mirror_alone(
    tmp_path: Path, git_http: GitHttpServer, object_format: str
) -> None:
    graph = CommitGraph(tmp_path, git_http, object_format)
    commits = graph.line(5)
    graph.first_fetch(commits[1])
    graph.later_fetch(commits[4])
    assert (graph.mirror.path / "shallow").read_text().split() == [commits[1]]
    assert await graph.descends(commits[1], commits[4])
    assert await graph.descends(commits[3], commits[4])
    assert not graph.asked


async def test_a_mirror_with_all_history_says_no_by_itself(graph: CommitGraph) -> None:
    old = graph.line(3)
    graph.mirror.git("fetch", "-q", graph.remote.url, f"+{old[-1]}:refs/stoker/old")
    new = graph.line(2, branch="new", onto=old[0])
    graph.later_fetch(new[-1])
    assert not await graph.descends(old[-1], new[-1])
    assert not await graph.descends(new[-1], old[-1]), "backwards is a rewrite too"
    assert not graph.asked


@pytest.mark.parametrize("object_format", ["sha1", "sha256"])
async def test_the_end_of_a_shallow_history_is_not_taken_for_a_no(
    tmp_path: Path, git_http: GitHttpServer, object_format: str
) -> None:
    """git itself says "not an ancestor" here, which is wrong."""
    graph = CommitGraph(tmp_path, git_http, object_format)
    commits = graph.line(4)
    graph.first_fetch(commits[3])  # a mirror that was built anew
    assert await graph.descends(commits[0], commits[3])
    assert graph.asked
    graph.first_fetch(commits[0])  # now both are here, each cut off
    assert await graph.descends(commits[0], commits[3])
    assert graph.asked


@pytest.mark.parametrize("object_format", ["sha1", "sha256"])
async def test_a_forced_push_is_distinguished_from_a_shallow_mirror(
    tmp_path: Path, git_http: GitHttpServer, object_format: str
) -> None:
    graph = CommitGraph(tmp_path, git_http, object_format)
    old = graph.line(3)
    graph.first_fetch(old[-1])
    new = graph.line(3, onto=old[0])
    graph.first_fetch(new[-1])
    assert not await graph.descends(old[-1], new[-1])


async def test_unrelated_history_is_reported(graph: CommitGraph) -> None:
    old = graph.line(2)
    graph.first_fetch(old[-1])
    graph.repository.delete_branch("main")
    stranger = graph.repository.commit({"b": "1"})
    graph.first_fetch(stranger)
    assert not await graph.descends(old[-1], stranger)


async def test_a_merge_continues_both_of_its_sides(graph: CommitGraph) -> None:
    base, left = graph.line(2)
    right = graph.line(1, branch="right", onto=base)[0]
    tree = graph.repository.git("rev-parse", f"{left}^{{tree}}").decode().strip()
    who = {
        f"GIT_{role}_{part}": "x@example.test"
        for role in ("AUTHOR", "COMMITTER")
        for part in ("NAME", "EMAIL")
    }
    arguments = ("commit-tree", "-p", left, "-p", right, "-m", "Merge", tree)
    merge = graph.repository.git(*arguments, env=who).decode().strip()
    graph.repository.set_branch("main", merge)
    graph.first_fetch(merge)
    for side in (base, left, right):
        assert await graph.descends(side, merge)


@pytest.mark.parametrize("message", [None, "Release"], ids=["lightweight", "annotated"])
async def test_a_moved_tag_is_a_rewrite_unless_it_moved_forward(
    graph: CommitGraph, message: str | None
) -> None:
    commits = graph.line(3)
    tag = GitRef("v1")
    graph.repository.tag("v1", commits[1], message=message)
    graph.first_fetch(commits[1])
    for target, forward in ((commits[2], True), (commits[0], False)):
        graph.repository.tag("v1", target, message=message)
        graph.first_fetch(graph.repository.tip("refs/tags/v1"))
        assert await graph.descends(commits[1], target, tag) is forward


async def test_only_commits_are_fetched_where_the_server_filters(
    graph: CommitGraph, monkeypatch: pytest.MonkeyPatch
) -> None:
    commits = graph.line(6)
    graph.first_fetch(commits[-1])
    kinds: list[bytes] = []
    known = ancestry._is_descendant_here

    async def looking(*args: object) -> bool | None:
        place = args[1]
        assert isinstance(place, Path)
        if place != graph.mirror.path:
            every = ("cat-file", "--batch-all-objects", "--batch-check=%(objecttype)")
            kinds.extend(Repository(place).git(*every).split())
        return await known(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(ancestry, "_is_descendant_here", looking)
    assert await graph.descends(commits[0], commits[-1])
    assert kinds == [b"commit"] * 6


async def test_history_is_deepened_step_by_step(graph: CommitGraph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ancestry, "FETCH_DEPTHS", (2, 4, 2**31 - 1))
    commits = graph.line(12)
    graph.first_fetch(commits[-1])
    steps = []
    for ancestor in (commits[-2], commits[-4], commits[0]):
        assert await graph.descends(ancestor, commits[-1])
        steps.append(sum(request.method == "POST" for request in graph.server.requests))
    assert steps == sorted(set(steps)), "the nearer, the fewer requests"
    other = graph.line(9, branch="other", onto=commits[0])
    graph.first_fetch(other[-1])
    assert not await graph.descends(commits[-1], other[-1])


@pytest.mark.parametrize(
    "settings",
    [
        {"uploadpack.allowFilter": "false"},
        {"uploadpackfilter.tree.allow": "false"},
        {"uploadpackfilter.allow": "false"},
    ],
    ids=["ignored", "no trees", "none"],
)
async def test_a_server_that_does_not_filter_is_asked_without(
    graph: CommitGraph, settings: dict[str, str]
) -> None:
    for key, value in settings.items():
        graph.repository.git("config", key, value)
    commits = graph.line(4)
    graph.first_fetch(commits[-1])
    assert await graph.descends(commits[0], commits[-1])
    rewritten = graph.line(2, onto=commits[0])
    graph.first_fetch(rewritten[-1])
    assert not await graph.descends(commits[-1], rewritten[-1])


class OldServer(GitHttpServer):
    """Speaks version 0 of the protocol, in which only what is advertised is given out."""

    def _environment(self, request: web.Request, user: str) -> dict[str, str]:
        return super()._environment(request, user) | {"GIT_PROTOCOL": ""}


@pytest.fixture
def old_world(tmp_path: Path, repositories: Path) -> Iterator[CommitGraph]:
    with OldServer.start(repositories) as server:
        graph = CommitGraph(tmp_path, server)
        graph.repository.git("config", "uploadpack.allowAnySHA1InWant", "false")
        yield graph


async def test_a_server_that_gives_out_no_ids_is_asked_for_the_ref(old_world: CommitGraph) -> None:
    graph = old_world
    commits = graph.line(4)
    graph.first_fetch("refs/heads/main")
    graph.repository.commit({"a": "newer"})  # the ref has moved on since it was resolved
    assert await graph.descends(commits[0], commits[-1])
    other = graph.line(2, branch="other", onto=commits[0])
    graph.first_fetch("refs/heads/other")
    assert not await graph.descends(commits[-1], other[-1], GitRef("other"))
    with pytest.raises(Stalled, match=commits[-2]):
        await graph.descends(commits[-1], commits[-2], GitRef(str(commits[-2])))


async def test_a_server_that_is_cut_off_itself_gives_no_answer(graph: CommitGraph, tmp_path: Path) -> None:
    """Its history ends before its time; whether the older commit lay behind that is not known."""
    commits = graph.line(4)
    shallow = Repository.create(graph.server.root / "shallow.git")
    shallow.git("fetch", "-q", "--depth=2", graph.remote.url, "+refs/heads/main:refs/heads/main")
    graph.remote = Remote(
        GitRunner(tmp_path / "cache"), RepoUrl(graph.server.url("shallow.git")), nothing_needed
    )
    graph.first_fetch(commits[-1])
    assert await graph.descends(commits[-2], commits[-1])
    with pytest.raises(Stalled, match="cannot be shown") as refused:
        await graph.descends(commits[0], commits[-1])
    assert refused.value.reason is Reason.HISTORY_REWRITTEN


async def test_a_replacement_in_the_mirror_decides_nothing(graph: CommitGraph) -> None:
    commits = graph.line(3)
    new = graph.line(2, branch="new", onto=commits[0])
    graph.mirror.git("fetch", "-q", graph.remote.url, f"+{commits[-1]}:refs/a", f"+{new[-1]}:refs/b")
    body = graph.mirror.git("cat-file", "commit", new[-1]).replace(new[0].encode(), commits[-1].encode())
    false = graph.mirror.git("hash-object", "-t", "commit", "-w", "--stdin", stdin=body).decode().strip()
    graph.mirror.git("update-ref", f"refs/replace/{new[-1]}", false)
    graph.mirror.git("merge-base", "--is-ancestor", commits[-1], new[-1])  # git believes it
    assert not await graph.descends(commits[-1], new[-1])


async def test_a_graft_in_the_mirror_decides_nothing(graph: CommitGraph) -> None:
    commits = graph.line(3)
    new = graph.line(2, branch="new", onto=commits[0])
    graph.mirror.git("fetch", "-q", graph.remote.url, f"+{commits[-1]}:refs/a", f"+{new[-1]}:refs/b")
    (graph.mirror.path / "info").mkdir(exist_ok=True)
    (graph.mirror.path / "info/grafts").write_text(f"{new[-1]} {commits[-1]}\n")
    graph.mirror.git("merge-base", "--is-ancestor", commits[-1], new[-1])  # git believes it
    assert not await graph.descends(commits[-1], new[-1])


async def test_a_mirror_that_lost_a_parent_or_its_mark_decides_nothing(graph: CommitGraph) -> None:
    commits = graph.line(4)
    graph.first_fetch(commits[-1])
    (graph.mirror.path / "shallow").unlink()  # git then misses the parent and fails
    assert await graph.descends(commits[0], commits[-1])
    assert graph.asked


async def test_a_mirror_that_has_vanished_decides_nothing(graph: CommitGraph, tmp_path: Path) -> None:
    commits = graph.line(3)
    gone = tmp_path / "mirrors" / "gone.git"
    assert await is_descendant(graph.remote, gone, ancestor=commits[0], commit=commits[-1], ref=MAIN)


async def test_a_repository_with_other_ids_is_a_rewrite(graph: CommitGraph) -> None:
    commit = graph.repository.commit({"a": "1"})
    assert not await graph.descends("1" * 64, commit)
    assert not graph.asked


async def test_a_rewrite_is_refused_with_both_commits_by_name(graph: CommitGraph) -> None:
    old = graph.line(2)
    graph.first_fetch(old[-1])
    new = graph.line(2, onto=old[0])
    graph.first_fetch(new[-1])
    place = graph.mirror.path
    with pytest.raises(Stalled, match=f"'main'.*{new[-1]}.*{old[-1]}") as refused:
        await check_descent(graph.remote, place, ancestor=old[-1], commit=new[-1], ref=MAIN)
    assert refused.value.reason is Reason.HISTORY_REWRITTEN
    await check_descent(graph.remote, place, ancestor=old[0], commit=new[-1], ref=MAIN)


async def test_an_answer_that_does_not_come_is_no_answer(
    graph: CommitGraph, monkeypatch: pytest.MonkeyPatch
) -> None:
    commits = graph.line(3)
    graph.first_fetch(commits[-1])
    monkeypatch.setattr(ancestry, "MAX_SECONDS", 0.01)
    with pytest.raises(SourceUnreachable, match="did not give out the history"):
        await graph.descends(commits[0], commits[-1])


async def test_without_the_server_nothing_is_guessed(graph: CommitGraph, tmp_path: Path) -> None:
    commits = graph.line(3)
    graph.first_fetch(commits[-1])
    runner = GitRunner(tmp_path / "cache")
    graph.remote = Remote(runner, RepoUrl("http://127.0.0.1:9/r.git"), nothing_needed)
    with pytest.raises(Retry):
        await graph.descends(commits[0], commits[-1])


async def test_a_history_beyond_the_bound_is_refused(
    graph: CommitGraph, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ancestry, "MAX_HISTORY_BYTES", 4096)
    messages = "".join(f"{number} {number * 7919}\n" for number in range(20_000))
    first = graph.repository.commit({"a": "1"}, message=messages)
    last = graph.repository.commit({"a": "2"})
    graph.first_fetch(last)
    with pytest.raises(SourceTooLarge):
        await graph.descends(first, last)
