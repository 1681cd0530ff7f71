"""GitHub's pull requests and labels, as an Enterprise server has them below `/api/v3`.

Answers in the shapes and with the statuses that GitHub's REST reference documents for
version 2022-11-28, and refuses what that page does not have (`stoker_testkit.forges.forge_double`).
How an app gets its token is elsewhere (`stoker_testkit.forges.github_app_login`).
"""

from __future__ import annotations

import re
from typing import Any

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

_PATH = re.compile(
    r"/api/v3/repos/(?P<project>[^/]+/[^/]+)/(?P<what>pulls|issues)(?:/(?P<number>\d+))?(?P<labels>/labels)?"
)
_LIST = {
    "state": ("open", "closed", "all"),
    "head": (),
    "base": (),
    "sort": ("created", "updated", "popularity", "long-running"),
    "direction": ("asc", "desc"),
    "per_page": (),
    "page": (),
}
MAX_TITLE = 256
MAX_BODY = 65536


class GitHubForgeDouble(ForgeDouble):
    """Repositories of users and organisations with their pull requests."""

    def _refused(self, status: int, message: str) -> web.Response:
        body: dict[str, Any] = {"message": message or "Refused", "documentation_url": f"{self.url}/rest"}
        if status == 422:
            body |= {
                "message": "Validation Failed",
                "errors": [{"resource": "PullRequest", "code": "custom", "message": message}],
            }
        return web.json_response(body, status=status)

    async def _served(self, request: web.Request) -> web.Response:
        if request.headers.get("Accept") != "application/vnd.github+json":
            raise UnknownForgeRequest("Accept is not application/vnd.github+json")
        if request.headers.get("X-GitHub-Api-Version") != "2022-11-28":
            raise UnknownForgeRequest("X-GitHub-Api-Version is not 2022-11-28")
        if not request.headers.get("User-Agent"):
            raise UnknownForgeRequest("there is no User-Agent, which GitHub requires")
        if request.headers.get("Authorization") != f"Bearer {self.token}":
            return self._refused(401, "Bad credentials")
        place = _PATH.fullmatch(request.path)
        if place is None:
            raise UnknownForgeRequest("there is no such path")
        repository = self._repositories.get(place["project"])
        if repository is None:
            return self._refused(404, "Not Found")
        if place["what"] == "issues":
            return await self._labels(request, repository, place)
        if place["labels"]:
            raise UnknownForgeRequest("labels belong to the issue of a pull request")
        if place["number"] is None:
            return await self._many(request, repository)
        return await self._one(request, repository, int(place["number"]))

    async def _many(self, request: web.Request, repository: RepositoryRecord) -> web.Response:
        if request.method == "POST":
            return await self._create(request, repository)
        if request.method != "GET":
            raise UnknownForgeRequest("pull requests are listed or made there")
        query = query_of(request, _LIST)
        owner, _, branch = query.get("head", "").partition(":")
        found = [
            one
            for one in reversed(repository.requests)
            if (not branch or (one.branch == branch and repository.project.startswith(f"{owner}/")))
            and query.get("base", one.base) == one.base
            and query.get("state", "open") in ("all", _state(one))
        ]
        return web.json_response([self._shown(repository, one) for one in page_of(query, found)])

    async def _create(self, request: web.Request, repository: RepositoryRecord) -> web.Response:
        body = await fields_of(
            request,
            {"title": str, "head": str, "base": str},
            {"body": str, "draft": bool, "maintainer_can_modify": bool},
        )
        _within_limits(body)
        for side in ("head", "base"):
            if repository.tip(body[side]) is None:
                return web.json_response(
                    {
                        "message": "Validation Failed",
                        "errors": [{"resource": "PullRequest", "field": side, "code": "invalid"}],
                    },
                    status=422,
                )
        if repository.tip(body["head"]) == repository.tip(body["base"]):
            return self._refused(422, f"No commits between {body['base']} and {body['head']}")
        owner = repository.project.partition("/")[0]
        if any(_is_open(one, body["head"], body["base"]) for one in repository.requests):
            return self._refused(422, f"A pull request already exists for {owner}:{body['head']}.")
        made = self._open(repository, body["head"], body["base"], body["title"], body.get("body", ""))
        return web.json_response(self._shown(repository, made), status=201)

    async def _one(self, request: web.Request, repository: RepositoryRecord, number: int) -> web.Response:
        if not 1 <= number <= len(repository.requests):
            return self._refused(404, "Not Found")
        found = repository.requests[number - 1]
        if request.method == "PATCH":
            body = await fields_of(
                request,
                {},
                {"title": str, "body": str, "state": str, "base": str, "maintainer_can_modify": bool},
            )
            _within_limits(body)
            found.title, found.body = body.get("title", found.title), body.get("body", found.body)
        elif request.method != "GET":
            raise UnknownForgeRequest("a pull request is read or changed there")
        return web.json_response(self._shown(repository, found))

    async def _labels(
        self, request: web.Request, repository: RepositoryRecord, place: re.Match[str]
    ) -> web.Response:
        if place["number"] is None or not place["labels"] or request.method != "POST":
            raise UnknownForgeRequest("only labels are added to issues here")
        body = await fields_of(request, {"labels": list}, {})
        if not all(isinstance(name, str) and name for name in body["labels"]):
            raise UnknownForgeRequest("labels are given by name")
        if not 1 <= int(place["number"]) <= len(repository.requests):
            return self._refused(404, "Not Found")
        found = repository.requests[int(place["number"]) - 1]
        found.labels += [name for name in body["labels"] if name not in found.labels]
        return web.json_response([{"id": 1, "name": name, "color": "ededed"} for name in found.labels])

    def _shown(self, repository: RepositoryRecord, one: RequestRecord) -> dict[str, Any]:
        merged = one.state == "merged"
        owner = repository.project.partition("/")[0]
        return {
            "id": 1000 + one.number,
            "number": one.number,
            "state": _state(one),
            "title": one.title,
            "body": one.body or None,
            "html_url": f"{self.url}/{repository.project}/pull/{one.number}",
            "labels": [{"id": 1, "name": name} for name in one.labels],
            "merged_at": "2026-01-01T00:00:00Z" if merged else None,
            # Before a merge this is a trial merge of GitHub's own.
            "merge_commit_sha": one.merged_commit or "e5bd3914e2e596debea16f433f57875b5b90bcd6",
            "head": {
                "ref": one.branch,
                "sha": self._tip(repository, one),
                "label": f"{owner}:{one.branch}",
                "repo": {"full_name": _repository_of(repository, one)},
            },
            "base": {
                "ref": one.base,
                "sha": repository.tip(one.base),
                "repo": {"full_name": repository.project},
            },
        }


def _repository_of(repository: RepositoryRecord, one: RequestRecord) -> str:
    """An organisation can have a fork of its own repository, under another name."""
    return f"{repository.project}-fork" if one.fork else repository.project


def _state(one: RequestRecord) -> str:
    return "open" if one.state == "open" else "closed"


def _is_open(one: RequestRecord, branch: str, base: str) -> bool:
    return one.state == "open" and not one.fork and (one.branch, one.base) == (branch, base)


def _within_limits(body: dict[str, Any]) -> None:
    if len(body.get("title", "")) > MAX_TITLE or len(body.get("body", "")) > MAX_BODY:
        raise UnknownForgeRequest("title or body is too long")
