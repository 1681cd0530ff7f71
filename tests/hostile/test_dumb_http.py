"""A server that speaks git's dumb HTTP protocol: many files in place of one pack, which no cap would hold.

Each file of a dumb server may be as large as a whole answer may be, there is no end to their
number, and `objects/info/http-alternates` sends git on to other hosts. So none is fetched.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from aiohttp import web

from stoker.domain.errors import StokerError
from stoker.domain.reasons import Reason
from stoker.domain.refs import CommitId, GitRef, RepoUrl
from stoker.git.auth.credentials import RepoAccess, fixed_access
from stoker.git.mirror.mirror import Mirror
from stoker.git.mirror.tree import read_tree
from stoker.git.process.runner import GitRunner
from stoker.git.remote.fetch import FetchLimits
from stoker.git.remote.probe import commits_with_prefix
from stoker.git.remote.remote import Remote
from stoker_testkit.repositories.bare_repository import Repository
from stoker_testkit.repositories.git_http_server import GitHttpServer

MAIN = GitRef("main")
CAP = 1 << 20


class TurningServer(GitHttpServer):
    """git's own backend, until it turns into a server of plain files.

    It holds back its objects, so that the fetch is still running when the test looks.
    """

    is_dumb = False
    released: asyncio.Event | None = None

    def stop(self) -> None:
        self._loop.run(self._release())
        super().stop()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        if not self.is_dumb:
            return await super()._answer(request)
        path = self.root / request.path.lstrip("/")
        if "/objects/" in request.path:
            self.released = self.released or asyncio.Event()
            await self.released.wait()
        return web.FileResponse(path) if path.is_file() else web.Response(status=404)

    async def _release(self) -> None:
        if self.released is not None:
            self.released.set()


class DumbHttpSite:
    def __init__(self, server: TurningServer, repository: Repository, tmp_path: Path) -> None:
        self.server = server
        self.repository = repository
        self.remote = Remote(
            GitRunner(tmp_path / "cache"), RepoUrl(server.url("plant.git")), fixed_access(RepoAccess())
        )
        self.mirror = Mirror(self.remote, tmp_path / "cache", limits=FetchLimits(fetch=CAP, news=CAP))

    def turn(self) -> CommitId:
        """More than may be received, in files each of which may be; from now on without git."""
        for number in range(4):
            tip = self.repository.commit({f"f{number}": os.urandom(CAP // 2)})
        self.repository.git("update-server-info")
        self.server.is_dumb = True
        return tip


@pytest.fixture
def site(repositories: Path, tmp_path: Path) -> Iterator[DumbHttpSite]:
    repository = Repository.create(repositories / "plant.git")
    repository.git("config", "fastimport.unpackLimit", "100000")
    with TurningServer.start(repositories) as server:
        yield DumbHttpSite(server, repository, tmp_path)


async def test_what_is_new_is_not_fetched_from_a_dumb_server(site: DumbHttpSite) -> None:
    first = site.repository.commit({"a": "1"})
    async with site.mirror.held():
        await site.mirror.fetch(first, MAIN)
        later = site.turn()
        with pytest.raises(StokerError, match="dumb HTTP") as caught:
            await site.mirror.fetch(later, MAIN)
        site.server.is_dumb = False
        assert (await read_tree(site.remote.runner, site.mirror.path, first)).files.keys() == {"a"}
    assert caught.value.reason is Reason.SOURCE_UNREACHABLE
    assert "http-backend" in caught.value.message, "it says what to do"


async def test_nothing_is_cloned_from_a_dumb_server(site: DumbHttpSite) -> None:
    site.repository.commit({"a": "1"})
    later = site.turn()
    async with site.mirror.held():
        with pytest.raises(StokerError, match="dumb HTTP"):
            await site.mirror.fetch(later, MAIN)


async def test_the_history_of_a_dumb_server_is_not_looked_through(site: DumbHttpSite) -> None:
    site.repository.commit({"a": "1"})
    later = site.turn()
    with pytest.raises(StokerError, match="dumb HTTP"):
        await commits_with_prefix(site.remote, later[:9], 40)


async def test_a_repository_whose_path_looks_like_a_dumb_one_is_fetched(site: DumbHttpSite) -> None:
    inside = Repository.create(site.repository.path.parent / "objects" / "pack" / "objects")
    tip = inside.commit({"a": "1"})
    url = RepoUrl(site.server.url("objects/pack/objects"))
    remote = Remote(site.remote.runner, url, fixed_access(RepoAccess()))
    mirror = Mirror(remote, site.remote.runner.cache, limits=FetchLimits(fetch=CAP, news=CAP))
    async with mirror.held():
        await mirror.fetch(tip, MAIN)
        assert (await read_tree(remote.runner, mirror.path, tip)).files.keys() == {"a"}
