"""Create, update and read pull requests with GitHub's API, which Gitea's API follows.

The two differ in how a request is found and how labels are set; subclasses implement those.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Generic

from stoker.forges.common import PullRequestPayloadT, adopt_request
from stoker.forges.detect import ForgeRepository
from stoker.forges.http import ForgeApi
from stoker.forges.types import PullRequest, PullRequestDraft, short_body, short_title


class PullsApi(ABC, Generic[PullRequestPayloadT]):
    """The pull requests of one repository."""

    def __init__(self, place: ForgeRepository, api: ForgeApi, shape: type[PullRequestPayloadT]) -> None:
        self.host = place.host
        self._api = api
        self._path = f"/repos/{place.quoted}"
        self._shape = shape

    @abstractmethod
    async def find(self, branch: str, base: str = "") -> PullRequest | None: ...

    @abstractmethod
    async def _labelled(self, pull: PullRequestPayloadT, wanted: tuple[str, ...]) -> PullRequest: ...

    async def create(self, draft: PullRequestDraft) -> PullRequest:
        body = {
            "title": short_title(draft.title),
            "head": draft.branch,
            "base": draft.base,
            "body": short_body(draft.body),
        }
        answer = await self._api.answer("POST", f"{self._path}/pulls", body=body)
        if not answer.ok:
            return await adopt_request(self, self._api, draft, answer)
        return await self._labelled(self._api.read(answer, self._shape), draft.labels)

    async def update(
        self, number: int, *, title: str, body: str, labels: tuple[str, ...] = ()
    ) -> PullRequest:
        said = {"title": short_title(title), "body": short_body(body)}
        pull = await self._api.ask("PATCH", f"{self._path}/pulls/{number}", self._shape, body=said)
        return await self._labelled(pull, labels)

    async def state(self, number: int) -> PullRequest:
        return (await self._api.ask("GET", f"{self._path}/pulls/{number}", self._shape)).request()
