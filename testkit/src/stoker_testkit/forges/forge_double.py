"""The common part of the forge doubles: recorded requests, repositories, and errors on demand.

A double checks each request against what the forge documents (method, path, headers,
fields and their types). What does not fit is answered with 400 and kept in
`complaints`, so that a test may see that there were none.

A repository is either described (`push` names a branch and its commit) or a real bare
one on disk, whose branches are read, and in which `merge` makes a real merge commit.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import subprocess
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from aiohttp import web

from stoker_testkit.event_loop_thread import LoopThread
from stoker_testkit.http_listener import WebListener
from stoker_testkit.repositories.bare_repository import git_environment
from stoker_testkit.secret_leaks.tracked_credentials import planted
from stoker_testkit.stoppable import Stoppable


class UnknownForgeRequest(Exception):
    """A request that the documentation does not have."""


@dataclass(slots=True)
class RequestRecord:
    """One pull request, as the forge keeps it."""

    number: int
    branch: str
    base: str
    title: str
    body: str
    head: str
    labels: list[str] = field(default_factory=list)
    state: str = "open"
    merged_commit: str = ""
    fork: bool = False


@dataclass(slots=True)
class RepositoryRecord:
    """One repository; a branch that has not moved away from another has nothing to be pulled."""

    project: str
    number: int
    git: Path | None = None
    branches: dict[str, str] = field(default_factory=dict)
    requests: list[RequestRecord] = field(default_factory=list)

    def tip(self, branch: str) -> str | None:
        if self.git is None:
            return self.branches.get(branch)
        return _git(self.git, "rev-parse", "--verify", "--quiet", f"refs/heads/{branch}") or None


@dataclass(slots=True)
class _Trouble:
    status: int  # 0: silence
    message: str = ""
    retry_after: int | None = None
    path: str = ""


class ForgeDouble(Stoppable):
    """A forge on a free port of 127.0.0.1, served from a thread of its own."""

    def __init__(self, token: str) -> None:
        self.token = token
        self.url = ""
        self.asked: list[tuple[str, str]] = []
        """Method and path, with the query, of each request, in order."""
        self.complaints: list[str] = []
        self._repositories: dict[str, RepositoryRecord] = {}
        self._troubles: list[_Trouble] = []
        self._loop = LoopThread("forge")
        self._listener = WebListener()

    @classmethod
    def start(cls, token: str = "") -> Self:
        forge = cls(token or planted("forge-token"))
        forge._loop.run(forge._listen())
        return forge

    def stop(self) -> None:
        self._loop.run(self._listener.close())
        self._loop.stop()

    def repo_url(self, project: str) -> str:
        return f"{self.url}/{project}.git"

    def add_repository(
        self, project: str, *, branches: Sequence[str] = ("main",), git: Path | None = None
    ) -> None:
        tips = {} if git is not None else {branch: secrets.token_hex(20) for branch in branches}
        self._repositories[project] = RepositoryRecord(project, len(self._repositories) + 1, git, tips)

    def push(self, project: str, branch: str, commit: str = "") -> str:
        """Set the commit of a branch; return the commit."""
        self._repositories[project].branches[branch] = commit or secrets.token_hex(20)
        return self._repositories[project].branches[branch]

    def requests(self, project: str) -> list[RequestRecord]:
        return self._repositories[project].requests

    def merge(self, project: str, number: int) -> str:
        """As a person would with the green button; the commit."""
        repository, request = self._repositories[project], self._request(project, number)
        if repository.git is not None:
            commit = _merged(repository.git, request.base, request.branch)
        else:
            commit = repository.branches[request.base] = secrets.token_hex(20)
        request.state, request.merged_commit = "merged", commit
        return commit

    def close(self, project: str, number: int) -> None:
        self._request(project, number).state = "closed"

    def fork_request(self, project: str, branch: str, base: str = "main") -> int:
        """A user opens one from a fork, with a branch of this name; return its number."""
        return self._open(self._repositories[project], branch, base, "From a fork", "", fork=True).number

    def fail_next(
        self,
        status: int,
        message: str = "",
        *,
        retry_after: int | None = None,
        times: int = 1,
        path: str = "",
    ) -> None:
        """Answer the next requests (whose path holds `path`) badly."""
        self._troubles += [_Trouble(status, message, retry_after, path) for _ in range(times)]

    def silent(self, times: int = 1) -> None:
        """Take the next requests and never answer."""
        self.fail_next(0, times=times)

    @abstractmethod
    async def _served(self, request: web.Request) -> web.Response:
        """The answer of the documented API; raises Complaint."""

    @abstractmethod
    def _refused(self, status: int, message: str) -> web.Response:
        """A refusal in the forge's own form."""

    def _open(
        self,
        repository: RepositoryRecord,
        branch: str,
        base: str,
        title: str,
        body: str,
        *,
        fork: bool = False,
    ) -> RequestRecord:
        number = len(repository.requests) + 1
        head = repository.tip(branch) or secrets.token_hex(20)
        request = RequestRecord(number, branch, base, title, body, head, fork=fork)
        repository.requests.append(request)
        return request

    def _request(self, project: str, number: int) -> RequestRecord:
        return next(one for one in self.requests(project) if one.number == number)

    def _tip(self, repository: RepositoryRecord, request: RequestRecord) -> str:
        """An open request follows its branch."""
        if request.state == "open" and not request.fork:
            request.head = repository.tip(request.branch) or request.head
        return request.head

    async def _listen(self) -> None:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._answer)
        self.url = await self._listener.open(app)

    async def _answer(self, request: web.Request) -> web.Response:
        self.asked.append((request.method, request.raw_path))
        trouble = next((one for one in self._troubles if one.path in request.raw_path), None)
        if trouble is not None:
            self._troubles.remove(trouble)
            if not trouble.status:
                await asyncio.sleep(3600)
            answer = self._refused(trouble.status, trouble.message)
            if trouble.retry_after is not None:
                answer.headers["Retry-After"] = str(trouble.retry_after)
            return answer
        try:
            return await self._served(request)
        except UnknownForgeRequest as complaint:
            self.complaints.append(f"{request.method} {request.raw_path}: {complaint}")
            return self._refused(400, str(complaint))


async def fields_of(
    request: web.Request, required: Mapping[str, type], optional: Mapping[str, type]
) -> dict[str, Any]:
    """The JSON body, if it has all that is required and nothing that is not documented."""
    if request.content_type != "application/json":
        raise UnknownForgeRequest(f"the body is {request.content_type} and not application/json")
    try:
        body = json.loads(await request.read())
    except ValueError:
        raise UnknownForgeRequest("the body is no JSON") from None
    if not isinstance(body, dict):
        raise UnknownForgeRequest("the body is no object")
    known = {**required, **optional}
    for name, value in body.items():
        if name not in known:
            raise UnknownForgeRequest(f"there is no field {name}")
        if not isinstance(value, known[name]):
            raise UnknownForgeRequest(
                f"field {name} is a {type(value).__name__} and not a {known[name].__name__}"
            )
    if absent := sorted(required.keys() - body.keys()):
        raise UnknownForgeRequest(f"these fields are missing: {', '.join(absent)}")
    return body


def query_of(request: web.Request, known: Mapping[str, Sequence[str]]) -> Mapping[str, str]:
    """The query, if each name is documented; those with words listed must have one of them."""
    for name, value in request.query.items():
        if name not in known or (known[name] and value not in known[name]):
            raise UnknownForgeRequest(f"there is no {name}={value} in the query")
    if not 1 <= int(request.query.get("per_page", "30")) <= 100:
        raise UnknownForgeRequest("per_page is at most 100")
    return request.query


def page_of(query: Mapping[str, str], found: Sequence[RequestRecord]) -> Sequence[RequestRecord]:
    size, page = int(query.get("per_page", "30")), int(query.get("page", "1"))
    return found[size * (page - 1) : size * page]


def _merged(git: Path, base: str, branch: str) -> str:
    """A real merge commit on the base."""
    tree = _git(git, "merge-tree", "--write-tree", f"refs/heads/{base}", f"refs/heads/{branch}").splitlines()[
        0
    ]
    parents = ("-p", f"refs/heads/{base}", "-p", f"refs/heads/{branch}")
    commit = _git(git, "commit-tree", tree, *parents, "-m", f"Merge {branch}")
    _git(git, "update-ref", f"refs/heads/{base}", commit)
    return commit


def _git(folder: Path, *arguments: str) -> str:
    environment = git_environment() | {
        name: value
        for who in ("AUTHOR", "COMMITTER")
        for name, value in ((f"GIT_{who}_NAME", "Ada"), (f"GIT_{who}_EMAIL", "ada@example.com"))
    }
    done = subprocess.run(
        ["git", "-C", folder, *arguments], env=environment, capture_output=True, text=True, check=False
    )
    return done.stdout.strip() if done.returncode == 0 else ""
