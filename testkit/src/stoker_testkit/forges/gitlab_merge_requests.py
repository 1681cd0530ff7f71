"""GitLab's merge requests, below `/api/v4`.

Answers in the shapes and with the statuses that GitLab's API page of merge requests
documents, and refuses what that page does not have (`stoker_testkit.forges.forge_double`).
"""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import unquote

from aiohttp import web

from stoker_testkit.forges.forge_double import (
    ForgeDouble,
    RepositoryRecord,
    RequestRecord,
    UnknownForgeRequest,
    fields_of,
    page_of,
    query_of,
)

# The project's path is one part of the address, with its slashes escaped.
_PATH = re.compile(r"/api/v4/projects/(?P<project>[^/?]+)/merge_requests(?:/(?P<number>\d+))?")
_LIST = {
    "state": ("opened", "closed", "locked", "merged", "all"),
    "source_branch": (),
    "target_branch": (),
    "order_by": ("created_at", "updated_at", "title"),
    "sort": ("asc", "desc"),
    "per_page": (),
    "page": (),
}
_STATES = {"open": "opened", "closed": "closed", "merged": "merged"}
MAX_TITLE = 255
MAX_BODY = 1_048_576
_FORK = 999


class GitLabForgeDouble(ForgeDouble):
    """Projects in groups, with their merge requests."""

    def __init__(self, token: str) -> None:
        super().__init__(token)
        self.fast_forward = False
        """Whether a merge makes no commit of its own."""

    def merge(self, project: str, number: int) -> str:
        if not self.fast_forward:
            return super().merge(project, number)
        repository, request = self._repositories[project], self._request(project, number)
        repository.branches[request.base] = self._tip(repository, request)
        request.state = "merged"
        return request.head

    def _refused(self, status: int, message: str) -> web.Response:
        body: dict[str, Any] = {"message": [message] if status in (409, 422) else message or "Refused"}
        if status == 403:
            body = {"error": "insufficient_scope", "error_description": message, "scope": "api"}
        return web.json_response(body, status=status)

    async def _served(self, request: web.Request) -> web.Response:
        if request.headers.get("PRIVATE-TOKEN") != self.token:
            if "Authorization" in request.headers or "PRIVATE-TOKEN" not in request.headers:
                raise UnknownForgeRequest("the token is not in PRIVATE-TOKEN")
            return self._refused(401, "401 Unauthorized")
        place = _PATH.fullmatch(request.raw_path.partition("?")[0])
        if place is None:
            raise UnknownForgeRequest("there is no such path")
        repository = self._repositories.get(unquote(place["project"]))
        if repository is None:
            return self._refused(404, "404 Project Not Found")
        if place["number"] is None:
            return await self._many(request, repository)
        return await self._one(request, repository, int(place["number"]))

    async def _many(self, request: web.Request, repository: RepositoryRecord) -> web.Response:
        if request.method == "POST":
            return await self._create(request, repository)
        if request.method != "GET":
            raise UnknownForgeRequest("merge requests are listed or made there")
        query = query_of(request, _LIST)
        found = [
            one
            for one in reversed(repository.requests)
            if query.get("source_branch", one.branch) == one.branch
            and query.get("target_branch", one.base) == one.base
            and query.get("state", "all") in ("all", _STATES[one.state])
        ]
        return web.json_response([self._shown(repository, one) for one in page_of(query, found)])

    async def _create(self, request: web.Request, repository: RepositoryRecord) -> web.Response:
        body = await fields_of(
            request,
            {"source_branch": str, "target_branch": str, "title": str},
            {"description": str, "labels": str, "remove_source_branch": bool, "squash": bool},
        )
        _within_limits(body)
        if repository.tip(body["source_branch"]) is None:
            return self._refused(422, "Source branch does not exist")
        exists = next(
            (
                one
                for one in repository.requests
                if one.state == "open"
                and not one.fork
                and (one.branch, one.base) == (body["source_branch"], body["target_branch"])
            ),
            None,
        )
        if exists is not None:
            return self._refused(
                409, f"Another open merge request already exists for this source branch: !{exists.number}"
            )
        made = self._open(
            repository,
            body["source_branch"],
            body["target_branch"],
            body["title"],
            body.get("description", ""),
        )
        made.labels = _names(body.get("labels", ""))
        return web.json_response(self._shown(repository, made), status=201)

    async def _one(self, request: web.Request, repository: RepositoryRecord, number: int) -> web.Response:
        if not 1 <= number <= len(repository.requests):
            return self._refused(404, "404 Not found")
        found = repository.requests[number - 1]
        if request.method == "PUT":
            known = ("title", "description", "labels", "add_labels", "remove_labels", "state_event")
            body = await fields_of(request, {}, dict.fromkeys(known, str))
            if not body:
                raise UnknownForgeRequest("at least one field must be changed")
            _within_limits(body)
            found.title, found.body = body.get("title", found.title), body.get("description", found.body)
            found.labels = _names(body["labels"]) if "labels" in body else found.labels
            found.labels += [name for name in _names(body.get("add_labels", "")) if name not in found.labels]
        elif request.method != "GET":
            raise UnknownForgeRequest("a merge request is read or changed there")
        return web.json_response(self._shown(repository, found))

    def _shown(self, repository: RepositoryRecord, one: RequestRecord) -> dict[str, Any]:
        return {
            "id": 1000 + one.number,
            "iid": one.number,
            "project_id": repository.number,
            "source_project_id": _FORK if one.fork else repository.number,
            "target_project_id": repository.number,
            "state": _STATES[one.state],
            "title": one.title,
            "description": one.body,
            "labels": one.labels,
            "source_branch": one.branch,
            "target_branch": one.base,
            "sha": self._tip(repository, one),
            "merge_commit_sha": one.merged_commit or None,
            "squash_commit_sha": None,
            "web_url": f"{self.url}/{repository.project}/-/merge_requests/{one.number}",
        }


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _within_limits(body: dict[str, Any]) -> None:
    if len(body.get("title", "")) > MAX_TITLE or len(body.get("description", "")) > MAX_BODY:
        raise UnknownForgeRequest("title or description is too long")
