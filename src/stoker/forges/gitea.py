"""Pull requests on Gitea.

Gitea's list has no filter by branch, so `find` reads pages: first the open requests, of which a repository
has few, then the most recently closed ones. Gitea sets labels by their id, so their ids are looked up, and
missing labels are created.
"""

from __future__ import annotations

import msgspec

from stoker.domain.errors import Retry
from stoker.domain.intent.policies import ForgeKind
from stoker.domain.secrets import Secret
from stoker.forges.common import missing_labels, without_labels
from stoker.forges.detect import ForgeRepository
from stoker.forges.http import PAGE, ForgeApi, ForgeHttpOptions
from stoker.forges.pulls_api import PullsApi
from stoker.forges.types import PullRequest, PullRequestState, choose_request, commit_or_none, displayable_url

MAX_PAGES = {"open": 25, "closed": 10}
MAX_LABEL_PAGES = 25
COLOR = "#8a6d3b"


class _GiteaBranch(msgspec.Struct):
    ref: str
    sha: str = ""
    repo_id: int = 0


class _GiteaLabel(msgspec.Struct):
    id: int
    name: str = ""


class _GiteaPull(msgspec.Struct):
    number: int
    state: str
    head: _GiteaBranch
    base: _GiteaBranch
    html_url: str = ""
    title: str = ""
    merged: bool = False
    merge_commit_sha: str | None = None
    labels: list[_GiteaLabel] | None = None

    def request(self) -> PullRequest:
        ended = PullRequestState.MERGED if self.merged else PullRequestState.CLOSED
        return PullRequest(
            self.number,
            displayable_url(self.html_url),
            PullRequestState.OPEN if self.state == "open" else ended,
            self.head.ref,
            self.base.ref,
            title=self.title[:1024],
            head=commit_or_none(self.head.sha),
            merged_commit=commit_or_none(self.merge_commit_sha) if self.merged else None,
        )


class GiteaForge(PullsApi[_GiteaPull]):
    """The pull requests of one Gitea repository."""

    kind = ForgeKind.GITEA

    def __init__(self, place: ForgeRepository, token: Secret, reach: ForgeHttpOptions) -> None:
        headers = {"Accept": "application/json", "Authorization": f"token {token.reveal()}"}
        super().__init__(place, ForgeApi(place, headers, reach), _GiteaPull)
        self._owner = place.quoted.partition("/")[0]

    async def find(self, branch: str, base: str = "") -> PullRequest | None:
        return await self._among("open", branch, base) or await self._among("closed", branch, base)

    async def _among(self, state: str, branch: str, base: str) -> PullRequest | None:
        for page in range(1, MAX_PAGES[state] + 1):
            query = {"state": state, "sort": "recentupdate", "limit": str(PAGE), "page": str(page)}
            pulls = await self._api.ask("GET", f"{self._path}/pulls", list[_GiteaPull], query=query)
            if (
                found := choose_request(one.request() for one in pulls if _is_own_request(one, branch, base))
            ) is not None:
                return found
            if not pulls:  # a server may return smaller pages than requested
                break
        return None

    async def _labelled(self, pull: _GiteaPull, wanted: tuple[str, ...]) -> PullRequest:
        request = pull.request()
        names = missing_labels(wanted, tuple(label.name for label in pull.labels or ()))
        if not names:
            return request
        try:
            ids = await self._label_ids(names)
            path = f"{self._path}/issues/{pull.number}/labels"
            await self._api.ask("POST", path, list[_GiteaLabel], body={"labels": ids})
        except Retry as error:
            return without_labels(request, error)
        return request

    async def _label_ids(self, names: tuple[str, ...]) -> list[int]:
        known = await self._labels(f"/orgs/{self._owner}/labels", may_miss=True)
        known |= await self._labels(f"{self._path}/labels")
        for name in missing_labels(names, tuple(known)):
            made = await self._api.ask(
                "POST", f"{self._path}/labels", _GiteaLabel, body={"name": name, "color": COLOR}
            )
            known[name.casefold()] = made.id
        return [known[name.casefold()] for name in names]

    async def _labels(self, path: str, *, may_miss: bool = False) -> dict[str, int]:
        """Label ids by name; with `may_miss` 403 and 404 mean none, as for an owner who is a person."""
        known: dict[str, int] = {}
        for page in range(1, MAX_LABEL_PAGES + 1):
            query = {"limit": str(PAGE), "page": str(page)}
            answer = await self._api.answer("GET", path, query=query)
            if may_miss and answer.status in (403, 404):
                break
            labels = self._api.read(answer, list[_GiteaLabel])
            known |= {label.name.casefold(): label.id for label in labels}
            if not labels:
                break
        return known


def _is_own_request(pull: _GiteaPull, branch: str, base: str) -> bool:
    own = pull.head.repo_id == pull.base.repo_id
    return own and pull.head.ref == branch and base in ("", pull.base.ref)
