"""Shared by all forges: search a pull request, adopt an existing one, compare labels."""

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
"""Status of "already exists": 409 from GitLab and Gitea, 422 from GitHub, where it has other meanings too."""


class PullRequestPayload(Protocol):
    """A pull request in the JSON form of its forge."""

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
    """Return the open request, else the newest, among those that `ours` accepts.

    The forge must list the newest first; at most `MAX_PAGES` pages are read.
    """
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
    """Update and return the open request because of which the forge refused to create another.

    Raises the forge's refusal if there is no such request.
    """
    found = await forge.find(draft.branch, draft.base) if answer.status in EXISTS else None
    if found is None or found.state is not PullRequestState.OPEN:
        raise api.refusal(answer)
    return await forge.update(found.number, title=draft.title, body=draft.body, labels=draft.labels)


def without_labels(request: PullRequest, error: Retry) -> PullRequest:
    """The request with a warning: failing to set labels does not fail the request itself."""
    return replace(request, warning=f"the labels could not be set: {error.message}")


def missing_labels(wanted: tuple[str, ...], there: tuple[str, ...]) -> tuple[str, ...]:
    """Return the labels still to be set; forges ignore case in label names."""
    known = {name.casefold() for name in there}
    return tuple(name for name in dict.fromkeys(wanted) if name.casefold() not in known)
