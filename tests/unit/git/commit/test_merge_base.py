"""The merge base of two branches, never taken from too little history."""

from __future__ import annotations

from pathlib import Path

import pytest

from stoker.domain.refs import CommitId, GitRef, RepoUrl
from stoker.git.auth.credentials import RepoAccess
from stoker.git.commit.merge_base import merge_base
from stoker.git.process.runner import GitRunner
from stoker.git.remote.remote import Remote
from stoker.git.signature.ancestry import FETCH_DEPTHS
from stoker_testkit.repositories.bare_repository import Repository
from stoker_testkit.repositories.git_http_server import GitHttpServer

MAIN, OURS = GitRef("main"), GitRef("refs/heads/ours")
WHO = {
    f"GIT_{role}_{key}": value
    for role in ("AUTHOR", "COMMITTER")
    for key, value in (("NAME", "a"), ("EMAIL", "a@example.test"), ("DATE", "1767225600 +0000"))
}


async def nothing_needed() -> RepoAccess:
    return RepoAccess()


class ServedRepository:
    """A repository behind a server."""

    def __init__(self, folder: Path, server: GitHttpServer) -> None:
        self.server = server
        self.repository = Repository.create(server.root / "r.git")
        self.remote = Remote(GitRunner(folder / "cache"), RepoUrl(server.url("r.git")), nothing_needed)

    def line(self, count: int) -> CommitId:
        """That many commits more on the ref, in one go."""
        began = f"from {self.repository.tip()}\n" if self.repository.has_branch("main") else ""
        head = "commit refs/heads/main\ncommitter a <a@example.test> 1767225600 +0000\ndata 1\nx\n"
        commits = [
            f"{head}{began if not at else ''}M 100644 inline a\ndata 4\n{at:04}\n" for at in range(count)
        ]
        self.repository.git("fast-import", "--quiet", stdin="".join(commits).encode())
        return self.repository.tip()

    def join(self, branch: str, other: str) -> CommitId:
        """A commit with two parents, which has the tree of the first."""
        parents = ["-p", branch, "-p", other]
        made = self.repository.git("commit-tree", f"{branch}^{{tree}}", *parents, "-m", "join", env=WHO)
        self.repository.set_branch(branch, made.decode().strip())
        return self.repository.tip(branch)

    async def fork(self) -> CommitId | None:
        main, ours = self.repository.tip("main"), self.repository.tip("ours")
        return await merge_base(self.remote, main, MAIN, ours, OURS)


@pytest.fixture
def served(tmp_path: Path, git_http: GitHttpServer) -> ServedRepository:
    return ServedRepository(tmp_path, git_http)


async def test_an_old_branch_that_was_merged_late_hides_no_later_meeting(served: ServedRepository) -> None:
    began = served.repository.commit({"a": "0"})
    served.repository.commit({"ours": "1"}, branch="ours", onto=began)
    served.repository.commit({"feature": "1"}, branch="feature", onto=began)
    caught_up = served.repository.commit({"a": "1"})
    served.join("ours", caught_up)
    served.line(FETCH_DEPTHS[0] + 10)
    served.join("main", "feature")
    assert await served.fork() == caught_up


async def test_what_is_near_is_known_without_the_whole_history(served: ServedRepository) -> None:
    began = served.line(FETCH_DEPTHS[0] + 10)
    served.repository.commit({"ours": "1"}, branch="ours", onto=began)
    served.repository.commit({"a": "later"})
    served.server.requests.clear()
    assert await served.fork() == began
    near = len(served.server.requests)
    served.line(FETCH_DEPTHS[0] + 10)
    served.server.requests.clear()
    assert await served.fork() == began
    assert len(served.server.requests) > near


async def test_lines_that_never_met_have_no_fork(served: ServedRepository) -> None:
    served.repository.commit({"a": "0"})
    served.repository.commit({"ours": "1"}, branch="ours")
    assert await served.fork() is None
