"""What is alike on all forges: open a request, or take the one that is there already."""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

from stoker.calling import Answer
from stoker.domain.errors import Retry
from stoker.forges.asking import Api
from stoker.forges.values import PullRequest, PullRequestDraft, RequestState

EXISTS = (409, 422)
"""The first from GitLab and Gitea, the second from GitHub, where it means much else too."""


class _Finds(Protocol):
    async def find(self, branch: str, base: str = "") -> PullRequest | None: ...

    async def update(
        self, number: int, *, title: str, body: str, labels: tuple[str, ...] = ()
    ) -> PullRequest: ...


async def taken_over(forge: _Finds, api: Api, draft: PullRequestDraft, answer: Answer) -> PullRequest:
    """The request that made a forge refuse another one, updated; raises the refusal where there is none."""
    found = await forge.find(draft.branch, draft.base) if answer.status in EXISTS else None
    if found is None or found.state is not RequestState.OPEN:
        raise api.refusal(answer)
    return await forge.update(found.number, title=draft.title, body=draft.body, labels=draft.labels)


def unlabelled(request: PullRequest, error: Retry) -> PullRequest:
    """A request without its labels is worth more than none."""
    return replace(request, warning=f"the labels could not be set: {error.message}")


def missing(wanted: tuple[str, ...], there: tuple[str, ...]) -> tuple[str, ...]:
    """Which labels are still to be set; forges do not tell them apart by case."""
    known = {name.casefold() for name in there}
    return tuple(name for name in dict.fromkeys(wanted) if name.casefold() not in known)
