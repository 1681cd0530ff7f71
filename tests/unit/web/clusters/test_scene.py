"""A scene that can no longer look, with an API server that has nothing to tell and then fails."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

import pytest
from aiohttp import web

from stoker.domain.errors import Retry
from stoker.kube.client import Client
from stoker.kube.config import ClusterConfig
from stoker.kube.store import Change, ObjectKey
from stoker.testing.clock import ManualClock
from stoker.testing.waiting import eventually_async
from stoker.web.clusters.destinations import SeenConfig, SeenDestination, seen_destination
from stoker.web.clusters.scene import ClusterScene
from stoker.web.seams import GatewayKey, Sight

EVERYTHING = Sight(
    everything=True, namespaces=frozenset(), may=lambda action, namespace: False, may_stop=True
)


class ApiServer:
    """Lists and watches of every kind are empty, for as long as it does."""

    def __init__(self) -> None:
        self.broken = asyncio.Event()
        self.status = 500
        self.url = ""

    async def answer(self, request: web.Request) -> web.StreamResponse:
        if self.broken.is_set():
            said = {"kind": "Status", "code": self.status, "message": "not now"}
            return web.json_response(said, status=self.status)
        if "watch" not in request.query:
            return web.json_response({"kind": "List", "metadata": {"resourceVersion": "1"}, "items": []})
        response = web.StreamResponse()
        await response.prepare(request)
        await self.broken.wait()
        return response


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
async def scene(api: ApiServer, clock: ManualClock) -> AsyncIterator[ClusterScene]:
    async with Client(ClusterConfig(api.url)) as client:
        scene = ClusterScene(client, "stoker-system", (), clock)
        running = asyncio.create_task(scene.run())
        await eventually_async(lambda: all(one.health.watching for one in scene.reflectors))
        yield scene
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


def shows(scene: ClusterScene) -> bool:
    try:
        scene.picture(EVERYTHING)
    except Retry:
        return False
    return True


async def lets_pass(clock: ManualClock, seconds: float) -> None:
    """In steps, for between two of them a real answer comes."""
    for _ in range(int(seconds)):
        await clock.advance(1)
        await asyncio.sleep(0.005)


async def test_what_cannot_be_read_for_a_minute_is_not_shown_as_if_it_were_so_now(
    scene: ClusterScene, api: ApiServer, clock: ManualClock
) -> None:
    seen = scene.version()
    api.broken.set()
    await lets_pass(clock, 30)
    assert any(one.health.failing_since is not None for one in scene.reflectors)
    assert (shows(scene), scene.version()) == (True, seen), "a moment is nothing to speak of"
    await lets_pass(clock, 120)
    assert await asyncio.wait_for(scene.changed(seen), 5) > seen, "open pages hear of it"
    for ask in (
        lambda: scene.picture(EVERYTHING),
        lambda: scene.changes(seen, EVERYTHING),
        lambda: scene.gateway(GatewayKey("a", "Stoker", "b", "c"), EVERYTHING),
    ):
        with pytest.raises(Retry, match=r"no longer tells of .*stokers"):
            ask()
    api.broken.clear()
    await lets_pass(clock, 120)
    assert shows(scene)


async def test_a_kind_that_was_taken_away_is_nothing_to_wait_for(
    scene: ClusterScene, api: ApiServer, clock: ManualClock
) -> None:
    api.status = 404
    api.broken.set()
    await lets_pass(clock, 150)
    assert any(one.health.failing_since is not None for one in scene.reflectors)
    assert shows(scene)


def destination(name: str, config: str) -> SeenDestination:
    spec = {"repoRef": {"name": config}, "branch": "main", "baseFolder": "a"}
    return seen_destination(
        json.dumps({"metadata": {"name": name, "namespace": "plant"}, "spec": spec}).encode()
    )


async def test_a_repository_is_told_to_its_destinations_and_to_no_others(clock: ManualClock) -> None:
    async with Client(ClusterConfig("http://127.0.0.1:1")) as client:
        scene = ClusterScene(client, "stoker-system", (), clock)
        feed = {one.resource.kind: one for one in scene.reflectors}

        def tell(kind: str, name: str, old: object, new: object) -> None:
            feed[kind]._deliver(Change(ObjectKey("plant", name), "u", "1", old, new))

        def repos() -> dict[str, str]:
            return {one.name: one.repo for one in scene.picture(EVERYTHING).destinations}

        for name, config in (("a", "one"), ("b", "two")):
            tell("GitDestination", name, None, destination(name, config))
        tell("GitRepoConfig", "one", None, SeenConfig("https://one.invalid", suspended=False))
        assert repos() == {"a": "https://one.invalid", "b": ""}
        tell("GitDestination", "a", destination("a", "one"), destination("a", "two"))
        tell("GitRepoConfig", "two", None, SeenConfig("https://two.invalid", suspended=False))
        assert repos() == {"a": "https://two.invalid", "b": "https://two.invalid"}
        version = scene.version()
        tell("GitRepoConfig", "one", SeenConfig("https://one.invalid", suspended=False), None)
        assert scene.version() == version, "nobody uses it any more"
        tell("GitDestination", "b", destination("b", "two"), None)
        tell("GitRepoConfig", "two", SeenConfig("https://two.invalid", suspended=False), None)
        assert repos() == {"a": ""}
