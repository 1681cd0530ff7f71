"""A kind that the dashboard reads from an informer of its process."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

import pytest
from structlog.testing import capture_logs

from stoker.controller.cache.objects import CachedResource, decode_object
from stoker.dashboard.cluster.shared_cache import SharedCacheReader
from stoker.domain.clock import SystemClock
from stoker.kube.client.client import KubeClient
from stoker.kube.client.resources import ApiResource
from stoker.kube.config.config import ClusterConfig
from stoker.kube.watch.informer import Informer
from stoker.kube.watch.store import ObjectKey
from stoker_testkit.wait_until import eventually_async

STOKERS = ApiResource("stoker.io", "v1alpha1", "stokers", "Stoker", namespaced=True)
KEY = ObjectKey("plant", "line-1")


class Watched:
    """An informer whose watch is played line by line, and the view that is read from it."""

    def __init__(self) -> None:
        client = KubeClient(ClusterConfig("http://127.0.0.1:9"))
        self.informer: Informer[CachedResource] = Informer(client, STOKERS, decode_object, SystemClock())
        (self.reflector,) = self.informer.reflectors
        self.reflector._watching.listed("1")
        self.view: dict[ObjectKey, str] = {}
        self.updates: list[str | None] = []
        self.reader = SharedCacheReader(self.informer, self.decode, self.update)

    def decode(self, raw: bytes) -> str:
        return str(json.loads(raw)["spec"]["ref"])

    def update(self, key: ObjectKey, ref: str | None) -> None:
        self.updates.append(ref)
        if ref is None:
            self.view.pop(key, None)
        else:
            self.view[key] = ref

    def event(self, kind: str, version: int, *, uid: str = "u", **spec: str) -> None:
        meta = {"name": KEY.name, "namespace": KEY.namespace, "uid": uid, "resourceVersion": str(version)}
        line = json.dumps({"type": kind, "object": {"metadata": meta, "spec": spec}}).encode()
        for change in self.reflector._watching.line(line):
            self.reflector._deliver(change)

    async def shows(self, ref: str | None) -> None:
        await eventually_async(lambda: self.view.get(KEY) == ref, 5.0, lambda: str(self.view))


@pytest.fixture
async def watched() -> AsyncIterator[Watched]:
    made = Watched()
    running = asyncio.create_task(made.reader.run())
    yield made
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_objects_that_exist_and_their_changes_are_read(watched: Watched) -> None:
    watched.event("ADDED", 2, ref="main")
    await watched.shows("main")
    watched.event("MODIFIED", 3, ref="v2")
    await watched.shows("v2")
    watched.event("DELETED", 4)
    await watched.shows(None)


async def test_only_the_last_of_several_changes_is_decoded(watched: Watched) -> None:
    for version, ref in enumerate(("v1", "v2", "v3"), start=2):
        watched.event("MODIFIED", version, ref=ref)
    await watched.shows("v3")
    assert watched.updates == ["v3"]


async def test_an_unreadable_version_leaves_the_one_before_and_is_logged(watched: Watched) -> None:
    watched.event("ADDED", 2, ref="main")
    await watched.shows("main")
    with capture_logs() as lines:
        watched.event("MODIFIED", 3)
        await eventually_async(lambda: bool(lines), 5.0, "it is logged")
    assert (lines[0]["event"], lines[0]["key"]) == ("object.unreadable", str(KEY))
    assert watched.view == {KEY: "main"}


async def test_an_unreadable_object_of_a_reused_name_removes_the_deleted_one(watched: Watched) -> None:
    watched.event("ADDED", 2, ref="main")
    await watched.shows("main")
    watched.event("ADDED", 3, uid="another")
    await watched.shows(None)


async def test_a_failing_view_ends_its_reader_and_leaves_the_informer_alone() -> None:
    watched = Watched()
    seen: list[str] = []
    watched.informer.listen(lambda change: seen.append(change.resource_version))

    def broken(key: ObjectKey, ref: str | None) -> None:
        raise KeyError(ref)

    reader = SharedCacheReader(watched.informer, watched.decode, broken)
    running = asyncio.create_task(reader.run())
    watched.event("ADDED", 2, ref="main")
    with pytest.raises(KeyError):
        await running
    watched.event("MODIFIED", 3, ref="v2")
    assert seen == ["2", "3"]
    assert watched.reflector._listeners[1:] == (), "the reader no longer listens"


async def test_a_new_reader_begins_with_the_objects_that_exist() -> None:
    watched = Watched()
    watched.event("ADDED", 2, ref="main")
    running = asyncio.create_task(watched.reader.run())
    await watched.shows("main")
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert watched.reflector._listeners == ()
