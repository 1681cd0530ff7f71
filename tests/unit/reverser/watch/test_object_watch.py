"""Objects that cannot be read, from the list or the watch that shows them to their end.

No API server of today writes such an object, so a script plays one: text that is no UTF-8.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

import msgspec
import pytest

from stoker.domain.refs import RepoUrl
from stoker.kube.client.client import ListPage
from stoker.kube.client.errors import Gone
from stoker.kube.client.resources import CONFIG_MAPS, ApiResource
from stoker.kube.client.served_kinds import KindCatalog, ServedResource, prefer_first
from stoker.kube.client.token_bucket import RequestRate, TokenBucket
from stoker.reverser.destinations import BranchKey, RepoConfigRef, WritableDestination
from stoker.reverser.manifest.path import ManifestKey
from stoker.reverser.selection.rules import DestinationRef, RuleRef, RuleResource, SelectionRule
from stoker.reverser.selection.selection import WatchedKind, select_objects
from stoker.reverser.watch.ingest import IngestContext
from stoker.reverser.watch.object_watch import ObjectWatch
from stoker.reverser.watch.throttled_source import WatchBudget
from stoker.reverser.writer.outbox import DestinationOutbox
from stoker_testkit.manual_clock import ManualClock
from stoker_testkit.wait_until import eventually_async

REF = DestinationRef("s", "a")
BASE = "a/core/v1/configmaps/shop"


def item(name: str, version: str, *, readable: bool = True) -> bytes:
    metadata = {"name": name, "namespace": "shop", "uid": f"u-{name}", "resourceVersion": version}
    whole = msgspec.json.encode({"metadata": metadata, "data": {"text": "VALUE"}})
    return whole if readable else whole.replace(b"VALUE", b"\xff\xfe")


def event(kind: str, name: str, version: str, *, readable: bool = True) -> bytes:
    return b'{"type":"%s","object":%s}' % (kind.encode(), item(name, version, readable=readable))


@dataclass
class Script:
    """Plays the API server: one list and one stream after the other; the last stream stays open."""

    lists: list[Sequence[bytes]]
    lines: asyncio.Queue[bytes | Gone] = field(default_factory=asyncio.Queue)
    turn: int = 0

    async def pages(
        self,
        resource: ApiResource,
        namespace: str | None = None,
        *,
        labels: str | None = None,
        fields: str | None = None,
        limit: int = 500,
        metadata_only: bool = False,
    ) -> AsyncIterator[ListPage]:
        self.turn += 1
        items = tuple(self.lists.pop(0))
        yield ListPage(items=items, resource_version=f"{self.turn}00", continue_token="", remaining=None)

    @asynccontextmanager
    async def watch(
        self,
        resource: ApiResource,
        namespace: str | None = None,
        *,
        resource_version: str,
        labels: str | None = None,
        fields: str | None = None,
        timeout_seconds: int,
        idle_timeout: float | None = None,
        metadata_only: bool = False,
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        yield self._told()

    async def _told(self) -> AsyncIterator[bytes]:
        while True:
            line = await self.lines.get()
            if isinstance(line, Gone):
                raise line
            yield line


@dataclass
class Scene:
    """A watch of ConfigMaps that feeds one outbox."""

    script: Script
    prune: str = "Always"

    def __post_init__(self) -> None:
        self.clock = ManualClock()
        place, url = BranchKey("git.example.com/a", "main"), RepoUrl("https://git.example.com/a")
        destination = WritableDestination(
            REF, "uid", RepoConfigRef("s", "r"), url, place, "a", prune=self.prune
        )
        self.box = DestinationOutbox(destination, self.clock, wake=lambda: None)
        self.box.open({f"{BASE}/odd.yaml": "0" * 40, f"{BASE}/fine.yaml": "0" * 40}, 40)
        served = ServedResource(CONFIG_MAPS, frozenset({"list", "watch"}))
        rule = SelectionRule(
            RuleRef("WatchRule", "shop", "a"), REF, (RuleResource.of("configmaps"),), namespaced=True
        )
        around = IngestContext(select_objects([rule], KindCatalog(tuple(prefer_first([served])))))
        turns = WatchBudget(
            asyncio.Semaphore(1), TokenBucket(RequestRate(1000, 1000), self.clock), self.clock
        )
        self.watch = ObjectWatch(self.script, WatchedKind(CONFIG_MAPS, "shop"), around, turns)
        self.watch.join(self.box)

    @property
    def told(self) -> dict[str, str]:
        return self.box.unwritten

    def lives(self, name: str) -> bool | None:
        return self.watch.shows(ManifestKey("", "v1", "configmaps", "shop", name), REF)

    def dropped(self) -> list[str]:
        return [
            change.path
            for plan in self.box.batcher.take()
            for change in plan.changes
            if change.content is None
        ]


@asynccontextmanager
async def watching(scene: Scene) -> AsyncIterator[Scene]:
    task = asyncio.create_task(scene.watch.run())
    try:
        await eventually_async(lambda: REF in scene.watch.seeded, message="the list is in")
        yield scene
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


@pytest.mark.parametrize("prune", ["Always", "OnEvent"])
@pytest.mark.parametrize("known", [True, False], ids=["read before", "never read"])
async def test_an_unreadable_object_keeps_its_file_until_it_is_deleted(prune: str, known: bool) -> None:
    script = Script([[item("odd", "1", readable=known), item("fine", "2")]])
    async with watching(Scene(script, prune)) as scene:
        if known:
            script.lines.put_nowait(event("MODIFIED", "odd", "101", readable=False))
        await eventually_async(lambda: "core/v1/configmaps/shop/odd" in scene.told)
        assert scene.lives("odd")
        assert scene.dropped() == []
        script.lines.put_nowait(event("DELETED", "odd", "102", readable=False))
        await eventually_async(lambda: not scene.told, message="nothing is told of what is gone")
        assert scene.lives("odd") is False
        assert scene.dropped() == [f"{BASE}/odd.yaml"]
        assert scene.lives("fine")


async def test_a_prune_policy_keeps_the_file_of_an_unreadable_object_too() -> None:
    script = Script([[item("odd", "1", readable=False)]])
    async with watching(Scene(script, "Never")) as scene:
        script.lines.put_nowait(event("DELETED", "odd", "102", readable=False))
        await eventually_async(lambda: scene.lives("odd") is False)
        assert scene.dropped() == []
        assert scene.told == {}


async def test_an_unreadable_object_that_went_while_nobody_looked_is_for_the_sweep() -> None:
    script = Script([[item("odd", "1", readable=False), item("fine", "2")], [item("fine", "2")]])
    async with watching(Scene(script)) as scene:
        assert f"{BASE}/odd.yaml" in scene.box.unclaimed
        assert scene.lives("odd")
        script.lines.put_nowait(Gone("too old", status=410))
        await eventually_async(lambda: not script.lines.qsize())
        await scene.clock.advance(60.0)
        assert script.turn == 2
        await eventually_async(lambda: scene.lives("odd") is False)
        assert scene.told == {}
        assert f"{BASE}/odd.yaml" in scene.box.unclaimed
        assert scene.box.to_be_swept


async def test_an_object_that_can_be_read_again_is_written_and_told_of_no_more() -> None:
    script = Script([[item("odd", "1", readable=False)]])
    async with watching(Scene(script)) as scene:
        assert scene.told
        script.lines.put_nowait(event("MODIFIED", "odd", "101"))
        await eventually_async(lambda: not scene.told)
        (plan,) = scene.box.batcher.take()
        assert [change.path for change in plan.changes] == [f"{BASE}/odd.yaml"]
