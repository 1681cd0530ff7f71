"""A forge in memory over a bare repository: requests are opened by the code under test, decided by the test.

It does what the forges do with branches: a merge is a merge commit or a squashed one,
and the branch goes or stays. What the clients of the real forges say over the wire has
tests of its own.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from stoker.domain.errors import StokerError
from stoker.domain.intent.policies import ForgeKind
from stoker.domain.refs import CommitId
from stoker.forges import PullRequest, PullRequestDraft, PullRequestState
from stoker_testkit.repositories.bare_repository import WHEN, GitCommandFailed, Repository

_WHO = {
    f"GIT_{who}_{what}": value
    for who in ("AUTHOR", "COMMITTER")
    for what, value in (("NAME", "Reviewer"), ("EMAIL", "reviewer@example.test"), ("DATE", f"{WHEN} +0000"))
}


@dataclass
class InMemoryForge:
    """`stoker.forges.Forge` for one repository."""

    repository: Repository
    requests: list[PullRequest] = field(default_factory=list)
    bodies: dict[int, str] = field(default_factory=dict)
    labels: dict[int, tuple[str, ...]] = field(default_factory=dict)
    error: StokerError | None = None
    """The error of every request, while it is set."""
    kind: ForgeKind = ForgeKind.GITEA
    host: str = "forge.test"

    async def find(self, branch: str, base: str = "") -> PullRequest | None:
        self._refuse()
        fitting = [one for one in self.requests if one.branch == branch and base in ("", one.base)]
        found = max(fitting, key=lambda one: (one.state is PullRequestState.OPEN, one.number), default=None)
        return None if found is None else self._now(found)

    async def create(self, draft: PullRequestDraft) -> PullRequest:
        self._refuse()
        if not self.repository.has_branch(draft.branch):
            raise AssertionError(f"a request for branch {draft.branch}, which is not there")
        for one in self.requests:
            if (one.branch, one.base, one.state) == (draft.branch, draft.base, PullRequestState.OPEN):
                return await self.update(one.number, title=draft.title, body=draft.body, labels=draft.labels)
        number = len(self.requests) + 1
        made = PullRequest(
            number,
            f"https://{self.host}/pulls/{number}",
            PullRequestState.OPEN,
            draft.branch,
            draft.base,
            draft.title,
        )
        self.requests.append(made)
        self.bodies[number], self.labels[number] = draft.body, draft.labels
        return self._now(made)

    async def update(
        self, number: int, *, title: str, body: str, labels: tuple[str, ...] = ()
    ) -> PullRequest:
        self._refuse()
        self.requests[number - 1] = replace(self.requests[number - 1], title=title)
        self.bodies[number], self.labels[number] = body, labels
        return self._now(self.requests[number - 1])

    async def state(self, number: int) -> PullRequest:
        self._refuse()
        return self._now(self.requests[number - 1])

    @property
    def open(self) -> list[PullRequest]:
        return [one for one in self.requests if one.state is PullRequestState.OPEN]

    def merge(self, number: int, *, squash: bool = False, keep_branch: bool = False) -> CommitId:
        """As a reviewer does; where both sides touch, the branch's files are taken."""
        request = self.requests[number - 1]
        head = self.repository.tip(f"refs/heads/{request.branch}")
        base = self.repository.tip(f"refs/heads/{request.base}")
        parents = [base] if squash else [base, head]
        options = [word for parent in parents for word in ("-p", str(parent))]
        tree = self._merged(base, head)
        merged = self.repository.git("commit-tree", tree, *options, "-m", f"Merge {number}", env=_WHO)
        commit = CommitId(merged.decode().strip())
        self.repository.set_branch(request.base, commit)
        self._decide(request, PullRequestState.MERGED, head, commit)
        if not keep_branch:
            self.repository.delete_branch(request.branch)
        return commit

    def close(self, number: int, *, keep_branch: bool = True) -> None:
        request = self.requests[number - 1]
        head = self.repository.tip(f"refs/heads/{request.branch}")
        self._decide(request, PullRequestState.CLOSED, head, None)
        if not keep_branch:
            self.repository.delete_branch(request.branch)

    def _merged(self, base: CommitId, head: CommitId) -> str:
        try:
            return self.repository.git("merge-tree", "--write-tree", base, head).decode().split()[0]
        except GitCommandFailed:
            fork = self.repository.git("merge-base", base, head).decode().strip()
        # Of a rename only the new name would be listed, and the old file would stay.
        listed = self.repository.git("diff", "--no-renames", "--name-only", "-z", fork, head)
        names = listed.decode().split("\0")
        theirs = self.repository.files(head)
        scratch = "resolved"
        self.repository.commit({name: theirs.get(name) for name in names if name}, branch=scratch, onto=base)
        tree = self.repository.git("rev-parse", f"refs/heads/{scratch}^{{tree}}").decode().strip()
        self.repository.delete_branch(scratch)
        return tree

    def _decide(
        self, request: PullRequest, state: PullRequestState, head: CommitId, commit: CommitId | None
    ) -> None:
        self.requests[request.number - 1] = replace(request, state=state, head=head, merged_commit=commit)

    def _now(self, request: PullRequest) -> PullRequest:
        if request.state is not PullRequestState.OPEN:
            return request
        return replace(request, head=self.repository.tip(f"refs/heads/{request.branch}"))

    def _refuse(self) -> None:
        if self.error is not None:
            raise self.error
