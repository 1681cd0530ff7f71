"""Merge requests on GitLab, gitlab.com or self-hosted; projects may be nested in groups of any depth."""

from __future__ import annotations

from urllib.parse import quote

import msgspec

from stoker.domain.intent.policies import ForgeKind
from stoker.domain.secrets import Secret
from stoker.forges.common import adopt_request, search_request
from stoker.forges.detect import ForgeRepository
from stoker.forges.http import ForgeApi, ForgeHttpOptions
from stoker.forges.types import (
    PullRequest,
    PullRequestDraft,
    PullRequestState,
    commit_or_none,
    displayable_url,
    short_body,
    short_title,
)

_STATES = {
    "opened": PullRequestState.OPEN,
    "locked": PullRequestState.OPEN,  # while GitLab merges it
    "merged": PullRequestState.MERGED,
    "closed": PullRequestState.CLOSED,
}


class _GitLabMergeRequest(msgspec.Struct):
    iid: int
    state: str
    source_branch: str
    target_branch: str
    source_project_id: int | None = None
    """None: the fork was deleted."""
    target_project_id: int | None = None
    web_url: str = ""
    title: str = ""
    sha: str | None = None
    merge_commit_sha: str | None = None
    squash_commit_sha: str | None = None

    def request(self) -> PullRequest:
        state = _STATES.get(self.state, PullRequestState.CLOSED)
        # A fast-forward merge has neither a merge nor a squash commit: the branch's tip is part of the base.
        merged = self.merge_commit_sha or self.squash_commit_sha or self.sha
        return PullRequest(
            self.iid,
            displayable_url(self.web_url),
            state,
            self.source_branch,
            self.target_branch,
            title=self.title[:1024],
            head=commit_or_none(self.sha),
            merged_commit=commit_or_none(merged) if state is PullRequestState.MERGED else None,
        )


class GitLabForge:
    """The merge requests of one GitLab project."""

    kind = ForgeKind.GITLAB

    def __init__(self, place: ForgeRepository, token: Secret, reach: ForgeHttpOptions) -> None:
        self.host = place.host
        self._api = ForgeApi(place, {"PRIVATE-TOKEN": token.reveal()}, reach)
        self._path = f"/projects/{quote(place.project, safe='')}/merge_requests"

    async def find(self, branch: str, base: str = "") -> PullRequest | None:
        query = {"state": "all", "source_branch": branch, "order_by": "created_at", "sort": "desc"}
        query |= {"target_branch": base} if base else {}
        return await search_request(
            self._api,
            self._path,
            list[_GitLabMergeRequest],
            query,
            lambda one: _is_own_request(one, branch, base),
        )

    async def create(self, draft: PullRequestDraft) -> PullRequest:
        body = {
            "source_branch": draft.branch,
            "target_branch": draft.base,
            "title": short_title(draft.title),
            "description": short_body(draft.body),
        }
        body |= {"labels": _join_labels(draft.labels)} if draft.labels else {}
        answer = await self._api.answer("POST", self._path, body=body)
        if not answer.ok:
            return await adopt_request(self, self._api, draft, answer)
        return self._api.read(answer, _GitLabMergeRequest).request()

    async def update(
        self, number: int, *, title: str, body: str, labels: tuple[str, ...] = ()
    ) -> PullRequest:
        said = {"title": short_title(title), "description": short_body(body)}
        said |= {"add_labels": _join_labels(labels)} if labels else {}
        return (
            await self._api.ask("PUT", f"{self._path}/{number}", _GitLabMergeRequest, body=said)
        ).request()

    async def state(self, number: int) -> PullRequest:
        return (await self._api.ask("GET", f"{self._path}/{number}", _GitLabMergeRequest)).request()


def _join_labels(labels: tuple[str, ...]) -> str:
    """Join labels with commas; a comma inside of a label becomes a space, because GitLab splits there."""
    return ",".join(label.replace(",", " ") for label in labels)


def _is_own_request(merge: _GitLabMergeRequest, branch: str, base: str) -> bool:
    own = merge.source_project_id is not None and merge.source_project_id == merge.target_project_id
    return own and merge.source_branch == branch and base in ("", merge.target_branch)
