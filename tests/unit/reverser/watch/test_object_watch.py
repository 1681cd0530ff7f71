"""The event handler of an object watch: objects one by one, unreadable objects, lists for changed rules.

No API server of today writes an unreadable object, so a script plays one: text that is no UTF-8.
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
from stoker.reverser.selection.labels import MATCH_ALL, LabelMatcher, SelectorRequirement
from stoker.reverser.selection.rules import DestinationRef, RuleRef, RuleResource, SelectionRule
from stoker.reverser.selection.selection import WatchedKind, select_objects
from stoker.reverser.watch.ingest import IngestContext, SeenObject
from stoker.reverser.watch.object_watch import ObjectWatch
from stoker.reverser.watch.throttled_source import WatchBudget
from stoker.reverser.writer.outbox import DestinationOutbox
from stoker_testkit.manual_clock import ManualClock
from stoker_testkit.wait_until import eventually_async

REF = DestinationRef("s", "a")
BASE = "a/core/v1/configmaps/shop"
NONE = LabelMatcher((SelectorRequirement("tier", "In", frozenset({"web"})),))
"""Selects no object of these tests."""


def item(name: str, version: str, *, readable: bool = True) -> bytes:
    metadata = {"name": name, "namespace": "shop", "uid": f"u-{name}", "resourceVersion": version}
    whole = msgspec.json.encode({"metadata": metadata, "data": {"text": "VALUE"}})
    return whole if readable else whole.replace(b"VALUE", b"\xff\xfe")


def selection_rule(labels: LabelMatcher) -> SelectionRule:
    return SelectionRule(
        RuleRef("WatchRule", "shop", "a"),
        REF,
        (RuleResource.of("configmaps"),),
        namespaced=True,
        labels=labels,
    )


def event(kind: str, name: str, version: str, *, readable: bool = True) -> bytes:
    return b'{"type":"%s","object":%s}' % (kind.encode(), item(name, version, readable=readable))


@dataclass
class Script:
    """Plays the API server: one list and one stream after the other; the last stream stays open."""

    lists: list[Sequence[bytes]]
    """The items of each list, one page for each item."""
    next_page: asyncio.Semaphore | None = None
    """Each page waits for one release."""
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
        version = f"{self.turn}00"
        for each in self.lists.pop(0):
            if self.next_page is not None:
                await self.next_page.acquire()
            yield ListPage(items=(each,), resource_version=version, continue_token="", remaining=None)

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
    labels: LabelMatcher = MATCH_ALL

    def __post_init__(self) -> None:
        self.clock = ManualClock()
        place, url = BranchKey("git.example.com/a", "main"), RepoUrl("https://git.example.com/a")
        destination = WritableDestination(
            REF, "uid", RepoConfigRef("s", "r"), url, place, "a", prune=self.prune
        )
        self.box = DestinationOutbox(destination, self.clock, wake=lambda: None)
        self.box.open({f"{BASE}/odd.yaml": "0" * 40, f"{BASE}/fine.yaml": "0" * 40}, 40)
        served = ServedResource(CONFIG_MAPS, frozenset({"list", "watch"}))
        rule = selection_rule(self.labels)
        self.catalog = KindCatalog(tuple(prefer_first([served])))
        around = IngestContext(select_objects([rule], self.catalog))
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

    def widen(self) -> None:
        """Apply a rule that selects all ConfigMaps, as `WatchSet.follow` does."""
        self.watch.ingest.around = IngestContext(select_objects([selection_rule(MATCH_ALL)], self.catalog))
        self.watch.seed((REF,))

    def written(self) -> list[str]:
        return [
            change.path
            for plan in self.box.batcher.take()
            for change in plan.changes
            if change.content is not None
        ]

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
        await eventually_async(lambda: not scene.told, message="a deleted object is reported no more")
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


async def test_an_unreadable_object_that_went_while_no_watch_ran_is_for_the_sweep() -> None:
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


async def test_an_object_that_can_be_read_again_is_written_and_reported_no_more() -> None:
    script = Script([[item("odd", "1", readable=False)]])
    async with watching(Scene(script)) as scene:
        assert scene.told
        script.lines.put_nowait(event("MODIFIED", "odd", "101"))
        await eventually_async(lambda: not scene.told)
        (plan,) = scene.box.batcher.take()
        assert [change.path for change in plan.changes] == [f"{BASE}/odd.yaml"]


async def test_an_object_is_handled_before_the_next_page_is_read_and_only_its_memory_stays() -> None:
    script = Script([[item("fine", "1"), item("odd", "2")]], next_page=asyncio.Semaphore(1))
    scene = Scene(script)
    task = asyncio.create_task(scene.watch.run())
    try:
        await eventually_async(lambda: scene.box.pending == 1, message="the first page is handled")
        assert scene.written() == [f"{BASE}/fine.yaml"]
        assert scene.lives("odd") is None, "an incomplete list shows no deletion"
        assert [type(seen) for _, seen in scene.watch.reflector.store.items()] == [SeenObject]
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def test_a_changed_rule_leaves_it_unknown_which_objects_exist_until_they_are_listed_again() -> None:
    script = Script([[item("fine", "1")], [item("fine", "1")]])
    async with watching(Scene(script, labels=NONE)) as scene:
        assert scene.lives("fine") is False
        scene.widen()
        assert scene.lives("fine") is None, "the file of a living object would be swept"
        await eventually_async(lambda: scene.lives("fine"))
        assert scene.written() == [f"{BASE}/fine.yaml"]


async def test_a_rule_that_changes_during_the_first_list_gets_all_objects() -> None:
    listed = [item("fine", "1"), item("odd", "2")]
    pages = asyncio.Semaphore(1)
    script = Script([listed, listed], next_page=pages)
    scene = Scene(script, labels=NONE)
    task = asyncio.create_task(scene.watch.run())
    try:
        await eventually_async(lambda: len(scene.watch.reflector.store) == 1)
        scene.widen()
        for _ in range(3):
            pages.release()
        await eventually_async(lambda: scene.lives("fine") and scene.lives("odd"))
        assert sorted(scene.written()) == [f"{BASE}/fine.yaml", f"{BASE}/odd.yaml"]
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
