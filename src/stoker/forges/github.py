"""Pull requests on GitHub: github.com, Enterprise servers, and tenants below ghe.com.

Tokens of a person, of a machine user and of an app's installation are sent in the same way. Every pull
request is also an issue, and its labels belong to that issue; GitHub creates a missing label when it is set.
"""

from __future__ import annotations

import msgspec

from stoker.domain.errors import Retry
from stoker.domain.intent.policies import ForgeKind
from stoker.domain.secrets import Secret
from stoker.forges.common import missing_labels, search_request, without_labels
from stoker.forges.detect import ForgeRepository
from stoker.forges.http import ForgeApi, ForgeHttpOptions
from stoker.forges.pulls_api import PullsApi
from stoker.forges.types import PullRequest, PullRequestState, commit_or_none, displayable_url


class _GitHubRepository(msgspec.Struct):
    full_name: str = ""


class _GitHubBranch(msgspec.Struct):
    ref: str
    sha: str = ""
    repo: _GitHubRepository | None = None
    """None: the fork was deleted."""


class _GitHubLabel(msgspec.Struct):
    name: str = ""


class _GitHubPull(msgspec.Struct):
    number: int
    state: str
    head: _GitHubBranch
    base: _GitHubBranch
    html_url: str = ""
    title: str = ""
    merged_at: str | None = None
    merge_commit_sha: str | None = None
    labels: list[_GitHubLabel] = []

    def request(self) -> PullRequest:
        merged = self.merged_at is not None
        state = PullRequestState.MERGED if merged else PullRequestState.CLOSED
        return PullRequest(
            self.number,
            displayable_url(self.html_url),
            PullRequestState.OPEN if self.state == "open" else state,
            self.head.ref,
            self.base.ref,
            title=self.title[:1024],
            head=commit_or_none(self.head.sha),
            merged_commit=commit_or_none(self.merge_commit_sha) if merged else None,
        )


class GitHubForge(PullsApi[_GitHubPull]):
    """The pull requests of one GitHub repository."""

    kind = ForgeKind.GITHUB

    def __init__(self, place: ForgeRepository, token: Secret, reach: ForgeHttpOptions) -> None:
        headers = {
            "Accept": "application/vnd.github+json",
            "Authorization": f"Bearer {token.reveal()}",
            "X-GitHub-Api-Version": "2022-11-28",
        }
        super().__init__(place, ForgeApi(place, headers, reach), _GitHubPull)
        self._place = place

    async def find(self, branch: str, base: str = "") -> PullRequest | None:
        owner, _, _ = self._place.project.partition("/")
        query = {"state": "all", "head": f"{owner}:{branch}", "sort": "created", "direction": "desc"}
        query |= {"base": base} if base else {}
        return await search_request(
            self._api,
            f"{self._path}/pulls",
            list[_GitHubPull],
            query,
            lambda one: self._ours(one, branch, base),
        )

    async def _labelled(self, pull: _GitHubPull, wanted: tuple[str, ...]) -> PullRequest:
        request = pull.request()
        names = missing_labels(wanted, tuple(label.name for label in pull.labels))
        if not names:
            return request
        path = f"{self._path}/issues/{pull.number}/labels"
        try:
            await self._api.ask("POST", path, list[_GitHubLabel], body={"labels": list(names)})
        except Retry as error:
            return without_labels(request, error)
        return request

    def _ours(self, pull: _GitHubPull, branch: str, base: str) -> bool:
        """Exclude forks: a fork by the same owner may have a branch of the same name."""
        of = pull.head.repo.full_name if pull.head.repo is not None else ""
        own = of.casefold() == self._place.project.casefold()
        return own and pull.head.ref == branch and base in ("", pull.base.ref)
