"""What is alike on all forges: find a request among many, open one, or take the one that is there already."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Protocol, TypeVar

from stoker.domain.errors import Retry
from stoker.forges.http import PAGE, ForgeApi
from stoker.forges.types import PullRequest, PullRequestDraft, PullRequestState, choose_request
from stoker.http_client import ServiceResponse

MAX_PAGES = 3
EXISTS = (409, 422)
"""The first from GitLab and Gitea, the second from GitHub, where it means much else too."""


class PullRequestPayload(Protocol):
    """A request as its forge tells of it."""

    def request(self) -> PullRequest: ...


PullRequestPayloadT = TypeVar("PullRequestPayloadT", bound=PullRequestPayload)


class _PullRequestFinder(Protocol):
    async def find(self, branch: str, base: str = "") -> PullRequest | None: ...

    async def update(
        self, number: int, *, title: str, body: str, labels: tuple[str, ...] = ()
    ) -> PullRequest: ...


async def search_request(
    api: ForgeApi,
    path: str,
    shape: type[list[PullRequestPayloadT]],
    query: dict[str, str],
    ours: Callable[[PullRequestPayloadT], bool],
) -> PullRequest | None:
    """The one that is open, else the newest, of those that are ours; the forge lists the newest first."""
    found: list[PullRequest] = []
    for page in range(1, MAX_PAGES + 1):
        paged = query | {"per_page": str(PAGE), "page": str(page)}
        some = await api.ask("GET", path, shape, query=paged)
        found += (one.request() for one in some if ours(one))
        if len(some) < PAGE or any(one.state is PullRequestState.OPEN for one in found):
            break
    return choose_request(found)


async def adopt_request(
    forge: _PullRequestFinder, api: ForgeApi, draft: PullRequestDraft, answer: ServiceResponse
) -> PullRequest:
    """The request that made a forge refuse another one, updated; raises the refusal where there is none."""
    found = await forge.find(draft.branch, draft.base) if answer.status in EXISTS else None
    if found is None or found.state is not PullRequestState.OPEN:
        raise api.refusal(answer)
    return await forge.update(found.number, title=draft.title, body=draft.body, labels=draft.labels)


def without_labels(request: PullRequest, error: Retry) -> PullRequest:
    """A request without its labels is worth more than none."""
    return replace(request, warning=f"the labels could not be set: {error.message}")


def missing_labels(wanted: tuple[str, ...], there: tuple[str, ...]) -> tuple[str, ...]:
    """Which labels are still to be set; forges do not tell them apart by case."""
    known = {name.casefold() for name in there}
    return tuple(name for name in dict.fromkeys(wanted) if name.casefold() not in known)
