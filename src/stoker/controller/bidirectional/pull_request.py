"""Opens and updates the pull request of a branch, and finds out when it is merged or closed.

The forge is asked each time, so that a new leader needs no state. A merged or closed pull request is over
only while the branch is what it was then: later commits need a new pull request. The caller retries when the
forge refuses; the branch is already pushed, so no change waits for a forge.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from stoker.domain.errors import StokerError
from stoker.forges import Forge, PullRequest, PullRequestDraft, PullRequestState
from stoker.git.commit.proposal_branch import ProposalBase


class ProposalState(Enum):
    """The state of a proposal."""

    OPEN = "open"
    MERGED = "merged"
    CLOSED = "closed"
    WANTED = "wanted"
    """There are commits without a pull request."""


@dataclass(frozen=True, slots=True)
class BranchPullRequests:
    """The pull requests of one branch into the followed branch."""

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
        """Whether the proposal on the branch is merged or closed; False if the forge cannot be read."""
        try:
            course, _ = await self.course(ground)
        except StokerError:
            return False
        return course in (ProposalState.MERGED, ProposalState.CLOSED)

    async def put(
        self, title: str, body: str, labels: tuple[str, ...], *, fresh: bool
    ) -> tuple[PullRequest, bool]:
        """Open or update the pull request; return whether it is new. `fresh`: there can be none yet."""
        found = None if fresh else await self.forge.find(self.branch, self.base)
        if found is not None and found.state is PullRequestState.OPEN:
            return await self.forge.update(found.number, title=title, body=body, labels=labels), False
        draft = PullRequestDraft(self.branch, self.base, title, body, labels)
        return await self.forge.create(draft), True
