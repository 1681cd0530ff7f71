"""The pull request of a branch: opened, brought up to date, and over when somebody has decided.

The forge is asked each time, so that a new leader needs to know nothing. A request that
was merged or closed is over only as long as the branch is what it was then: commits
that came later want a request of their own. What a forge refuses is the caller's to try
again; the branch is pushed, and no change waits for a forge.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from stoker.domain.errors import StokerError
from stoker.forges import Forge, PullRequest, PullRequestDraft, PullRequestState
from stoker.git.commit.proposal_branch import ProposalBase


class ProposalState(Enum):
    """Where a proposal stands."""

    OPEN = "open"
    MERGED = "merged"
    CLOSED = "closed"
    WANTED = "wanted"
    """There are commits for which there is no request."""


@dataclass(frozen=True, slots=True)
class BranchPullRequests:
    """The requests of one branch into the branch that is followed."""

    forge: Forge
    branch: str
    base: str

    async def course(self, ground: ProposalBase) -> tuple[ProposalState, PullRequest | None]:
        found = await self.forge.find(self.branch, self.base)
        if found is not None and found.state is PullRequestState.OPEN:
            return ProposalState.OPEN, found
        over = found is not None and (ground.branch is None or found.head == ground.branch)
        if found is None or not over:
            return (ProposalState.CLOSED if ground.branch is None else ProposalState.WANTED), None
        return (
            ProposalState.MERGED if found.state is PullRequestState.MERGED else ProposalState.CLOSED
        ), found

    async def decided(self, ground: ProposalBase) -> bool:
        """Whether what stands on the branch is over; where nobody can say, it is not."""
        try:
            course, _ = await self.course(ground)
        except StokerError:
            return False
        return course in (ProposalState.MERGED, ProposalState.CLOSED)

    async def put(
        self, title: str, body: str, labels: tuple[str, ...], *, fresh: bool
    ) -> tuple[PullRequest, bool]:
        """Have one open that says this; whether it is new. The branch is `fresh`: there can be none yet."""
        found = None if fresh else await self.forge.find(self.branch, self.base)
        if found is not None and found.state is PullRequestState.OPEN:
            return await self.forge.update(found.number, title=title, body=body, labels=labels), False
        draft = PullRequestDraft(self.branch, self.base, title, body, labels)
        return await self.forge.create(draft), True
