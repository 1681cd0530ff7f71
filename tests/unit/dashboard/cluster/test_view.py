"""A scene that can no longer look, with an API server that has little to tell and then fails."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable

import pytest
from aiohttp import web

from stoker.dashboard.cluster.destinations import CachedDestination, CachedRepoConfig, decode_destination
from stoker.dashboard.cluster.permissions import GrantedNamespaces, VisitorRights
from stoker.dashboard.cluster.staleness import BLIND_SECONDS
from stoker.dashboard.cluster.view import ClusterViewSource
from stoker.dashboard.interfaces import GatewayKey, VisibleScope
from stoker.domain.errors import Retry
from stoker.kube.client.client import KubeClient
from stoker.kube.config.config import ClusterConfig
from stoker.kube.watch.store import ObjectChange, ObjectKey
from stoker_testkit.manual_clock import ManualClock
from stoker_testkit.wait_until import eventually_async

EVERYTHING = VisibleScope(
    everything=True, namespaces=frozenset(), may=lambda action, namespace: False, may_stop=True
)


class ApiServer:
    """There is one Stoker, and nothing else, for as long as it answers."""

    def __init__(self) -> None:
        self.broken = asyncio.Event()
        self.only = ""
        """What fails, by a word of its path; empty: everything."""
        self.status = 500
        self.url = ""

    async def answer(self, request: web.Request) -> web.StreamResponse:
        if self.broken.is_set() and self.only in request.path:
            said = {"kind": "Status", "code": self.status, "message": "not now"}
            return web.json_response(said, status=self.status)
        if "watch" not in request.query:
            items = [LINE] if request.path.endswith("/stokers") else []
            return web.json_response({"kind": "List", "metadata": {"resourceVersion": "1"}, "items": items})
        response = web.StreamResponse()
        await response.prepare(request)
        await self.broken.wait()
        return response


LINE = {"metadata": {"name": "line-1", "namespace": "plant", "uid": "1", "resourceVersion": "1"}}


@pytest.fixture
async def api() -> AsyncIterator[ApiServer]:
    api, app = ApiServer(), web.Application()
    app.router.add_get("/{path:.*}", api.answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    api.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    yield api
    api.broken.set()
    await runner.cleanup()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def scene(api: ApiServer, clock: ManualClock) -> AsyncIterator[ClusterViewSource]:
    async with KubeClient(ClusterConfig(api.url)) as client:
        scene = ClusterViewSource(client, "stoker-system", (), clock)
        running = asyncio.create_task(scene.run())
        await eventually_async(lambda: all(one.health.watching for one in scene.reflectors))
        yield scene
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


def shows(scene: ClusterViewSource) -> bool:
    try:
        scene.picture(EVERYTHING)
    except Retry:
        return False
    return True


async def eventually_after(clock: ManualClock, condition: Callable[[], bool], message: str) -> None:
    """Time passes in steps, for between two of them a real answer comes, until it is so."""

    async def so_a_second_later() -> bool:
        await clock.advance(1)
        return condition()

    await eventually_async(so_a_second_later, 20.0, message, interval=0.005)


def fails(scene: ClusterViewSource) -> bool:
    """Nothing at all can be read."""
    return all(one.health.failing_since is not None for one in scene.reflectors)


def unseen(scene: ClusterViewSource) -> tuple[str, ...]:
    return tuple(scene.picture(EVERYTHING).unseen)


async def test_what_cannot_be_read_for_a_minute_is_not_shown_as_if_it_were_so_now(
    scene: ClusterViewSource, api: ApiServer, clock: ManualClock
) -> None:
    seen = scene.version()
    api.broken.set()
    await eventually_after(clock, lambda: fails(scene), "it fails")
    await clock.advance(BLIND_SECONDS / 2)
    assert (shows(scene), scene.version()) == (True, seen), "a moment is nothing to speak of"
    await eventually_after(clock, lambda: not shows(scene), "it is not shown any more")
    assert await asyncio.wait_for(scene.changed(seen), 5) > seen, "open pages hear of it"
    for ask in (
        lambda: scene.picture(EVERYTHING),
        lambda: scene.changes(seen, EVERYTHING),
        lambda: scene.gateway(GatewayKey("a", "Stoker", "b", "c"), EVERYTHING),
    ):
        with pytest.raises(Retry, match="no longer tells of anything"):
            ask()
    api.broken.clear()
    await eventually_after(clock, lambda: shows(scene), "it is shown again")


async def test_one_kind_that_cannot_be_read_takes_nothing_else_from_the_page(
    scene: ClusterViewSource, api: ApiServer, clock: ManualClock
) -> None:
    seen = scene.version()
    api.only = "gitdestinations"
    api.broken.set()
    await eventually_after(
        clock, lambda: unseen(scene) == ("GitDestination",), "it says what it does not see"
    )
    assert [one.name for one in scene.picture(EVERYTHING).resources] == ["line-1"]
    assert scene.changes(seen, EVERYTHING) is None, "open pages take the picture that says so"
    api.only = "stokers"
    await eventually_after(clock, lambda: unseen(scene) == ("Stoker",), "the other kind is what is missing")
    assert scene.picture(EVERYTHING).resources == (), "what is old is not shown"
    nobody = VisitorRights({"GitDestination": GrantedNamespaces(everywhere=True)}).sight(may_stop=False)
    assert scene.picture(nobody).unseen == (), "a user who would not see it misses nothing"
    api.broken.clear()
    await eventually_after(clock, lambda: unseen(scene) == (), "everything is seen again")
    assert [one.name for one in scene.picture(EVERYTHING).resources] == ["line-1"]


async def test_whether_everything_is_stopped_may_be_unknown(
    scene: ClusterViewSource, api: ApiServer, clock: ManualClock
) -> None:
    api.only = "configmaps"
    api.broken.set()
    await eventually_after(clock, lambda: unseen(scene) == ("emergency stop",), "the page says so")
    assert shows(scene)


async def test_a_kind_that_was_taken_away_is_nothing_to_wait_for(
    scene: ClusterViewSource, api: ApiServer, clock: ManualClock
) -> None:
    api.status = 404
    api.broken.set()
    await eventually_after(clock, lambda: fails(scene), "it fails")
    await clock.advance(2 * BLIND_SECONDS)
    assert fails(scene)
    assert shows(scene)


def destination(name: str, config: str) -> CachedDestination:
    spec = {"repoRef": {"name": config}, "branch": "main", "baseFolder": "a"}
    return decode_destination(
        json.dumps({"metadata": {"name": name, "namespace": "plant"}, "spec": spec}).encode()
    )


async def test_a_repository_is_shown_with_its_destinations_and_with_no_others(clock: ManualClock) -> None:
    async with KubeClient(ClusterConfig("http://127.0.0.1:1")) as client:
        scene = ClusterViewSource(client, "stoker-system", (), clock)
        feed = {one.resource.kind: one for one in scene.reflectors}

        def tell(kind: str, name: str, old: object, new: object) -> None:
            feed[kind]._deliver(ObjectChange(ObjectKey("plant", name), "u", "1", old, new))

        def repos() -> dict[str, str]:
            return {one.name: one.repo for one in scene.picture(EVERYTHING).destinations}

        for name, config in (("a", "one"), ("b", "two")):
            tell("GitDestination", name, None, destination(name, config))
        tell("GitRepoConfig", "one", None, CachedRepoConfig("https://one.invalid", suspended=False))
        assert repos() == {"a": "https://one.invalid", "b": ""}
        tell("GitDestination", "a", destination("a", "one"), destination("a", "two"))
        tell("GitRepoConfig", "two", None, CachedRepoConfig("https://two.invalid", suspended=False))
        assert repos() == {"a": "https://two.invalid", "b": "https://two.invalid"}
        version = scene.version()
        tell("GitRepoConfig", "one", CachedRepoConfig("https://one.invalid", suspended=False), None)
        assert scene.version() == version, "no destination uses it any more"
        tell("GitDestination", "b", destination("b", "two"), None)
        tell("GitRepoConfig", "two", CachedRepoConfig("https://two.invalid", suspended=False), None)
        assert repos() == {"a": ""}
