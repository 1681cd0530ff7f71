"""The ConfigMaps of change sets, against a server that merges patches as an API server does."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web
from aiohttp.test_utils import TestServer

from stoker.controller.bidirectional.inbox import DECODING, ChangeSetInbox, inbox_names
from stoker.controller.bidirectional.types import RawChangeSet, ReceivedChangeSet
from stoker.controller.cache.informers import ControllerInformers, WatchScope
from stoker.controller.cache.objects import ResourceKey
from stoker.controller.owned.apply_objects import OwnedObjectWriter
from stoker.domain.clock import SystemClock
from stoker.kube.client.client import KubeClient
from stoker.kube.config.config import ClusterConfig
from stoker.kube.watch.store import ObjectKey

KEY = ResourceKey("Stoker", ObjectKey("plant", "line"))
FIRST, SECOND = inbox_names(KEY)[:2]
PARCEL = ReceivedChangeSet("press", "1", ((FIRST, "press.1.0"), (SECOND, "press.1.1")), complete=True)
OTHERS = {"example.com/note": "stays"}


class Maps:
    """Two ConfigMaps with one part of a change set each."""

    def __init__(self) -> None:
        self.objects: dict[str, dict[str, Any]] = {
            name: {
                "metadata": {"name": name, "namespace": "plant", "annotations": dict(OTHERS)},
                "binaryData": {part: base64.b64encode(part.encode()).decode()},
            }
            for name, part in PARCEL.chunks
        }
        self._version = 0

    def annotations(self, name: str) -> dict[str, str]:
        held: dict[str, str] = self.objects[name]["metadata"]["annotations"]
        return held

    async def get(self, request: web.Request) -> web.Response:
        return web.json_response(self.objects[request.match_info["name"]])

    async def patch(self, request: web.Request) -> web.Response:
        kept = self.objects[request.match_info["name"]]
        _merge(kept, await request.json())
        self._version += 1
        kept["metadata"]["resourceVersion"] = str(self._version)
        return web.json_response(kept)


def _merge(kept: dict[str, Any], patch: dict[str, Any]) -> None:
    """RFC 7386."""
    for name, value in patch.items():
        if value is None:
            kept.pop(name, None)
        elif isinstance(value, dict):
            _merge(kept.setdefault(name, {}), value)
        else:
            kept[name] = value


@asynccontextmanager
async def controller(maps: Maps) -> AsyncIterator[ChangeSetInbox]:
    """The inbox of one process; another one knows only what the ConfigMaps hold."""
    app = web.Application()
    app.router.add_get("/api/v1/namespaces/plant/configmaps/{name}", maps.get)
    app.router.add_patch("/api/v1/namespaces/plant/configmaps/{name}", maps.patch)
    async with (
        TestServer(app) as server,
        KubeClient(ClusterConfig(str(server.make_url("/")).rstrip("/"))) as client,
    ):
        observed = ControllerInformers(client, WatchScope("operator"), SystemClock())
        yield ChangeSetInbox(observed, client, OwnedObjectWriter(client))


async def test_the_mark_of_an_attempt_is_in_the_configmap_and_the_next_leader_reads_it() -> None:
    maps = Maps()
    async with controller(maps) as before:
        await before.mark(KEY, PARCEL, "digest pod-0")
    assert maps.annotations(FIRST) == {**OTHERS, DECODING: "digest pod-0"}
    assert maps.annotations(SECOND) == OTHERS, "one mark for a set, where its first part is"
    async with controller(maps) as after:
        assert await after.read(KEY, PARCEL) == RawChangeSet((b"press.1.0", b"press.1.1"), "digest pod-0")


async def test_the_mark_of_an_attempt_that_ended_is_removed() -> None:
    maps = Maps()
    async with controller(maps) as inbox:
        await inbox.mark(KEY, PARCEL, "digest pod-0")
        await inbox.mark(KEY, PARCEL, "")
        assert maps.annotations(FIRST) == OTHERS
        assert await inbox.read(KEY, PARCEL) == RawChangeSet((b"press.1.0", b"press.1.1"))


async def test_a_set_that_is_taken_out_leaves_what_others_put_beside_it() -> None:
    maps = Maps()
    maps.objects[FIRST]["binaryData"]["mixer.7.0"] = "AA=="
    async with controller(maps) as inbox:
        await inbox.empty(KEY, {FIRST: ["press.1.0"], SECOND: ["press.1.1"]})
        assert await inbox.read(KEY, PARCEL) is None
    assert [maps.objects[name]["binaryData"] for name in (FIRST, SECOND)] == [{"mixer.7.0": "AA=="}, {}]
