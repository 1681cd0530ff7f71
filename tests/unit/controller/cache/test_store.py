"""Our last write is used until the watch shows it or something newer."""

from __future__ import annotations

import json
from collections.abc import Awaitable

import msgspec

from stoker.controller.cache.objects import CachedConfigMap, decode_config_map
from stoker.controller.cache.store import WriteThroughCache
from stoker.domain.clock import SystemClock
from stoker.kube.client.client import KubeClient
from stoker.kube.client.errors import NotFound
from stoker.kube.client.resources import CONFIG_MAPS
from stoker.kube.config.config import ClusterConfig
from stoker.kube.watch.store import ObjectChange, ObjectKey

KEY = ObjectKey("plant", "map")


def raw(version: int, **data: str) -> bytes:
    meta = {"name": "map", "namespace": "plant", "uid": "u", "resourceVersion": str(version)}
    return json.dumps({"metadata": meta, "data": data}).encode()


class Watched:
    """A cache whose watch gets its events from the test."""

    def __init__(self) -> None:
        client = KubeClient(ClusterConfig("http://nobody.test"))
        self.cache: WriteThroughCache[CachedConfigMap] = WriteThroughCache(
            client, CONFIG_MAPS, decode_config_map, SystemClock()
        )
        (self.reflector,) = self.cache.reflectors
        self.echoes: list[bool] = []
        self.reflector.listen(self._on_change)
        self.reflector._watching.listed("1")

    def _on_change(self, change: ObjectChange[CachedConfigMap]) -> None:
        self.echoes.append(self.cache.is_echo(change))

    def shows(self, kind: str, content: bytes) -> None:
        line = b'{"type":"%s","object":%s}' % (kind.encode(), content)
        for change in self.reflector._watching.line(line):
            self.reflector._deliver(change)

    async def write(self, content: bytes, meanwhile: bytes | None = None, kind: str = "MODIFIED") -> None:
        """The server takes a write; the watch may be quicker than its answer."""

        async def answered() -> msgspec.Raw:
            if meanwhile is not None:
                self.shows(kind, meanwhile)
            return msgspec.Raw(content)

        await self.cache.write(KEY, answered())

    @property
    def data(self) -> dict[str, str] | None:
        seen = self.cache.get(KEY)
        return None if seen is None else seen.data


async def test_a_write_counts_before_the_watch_shows_it() -> None:
    it = Watched()
    it.shows("ADDED", raw(2, a="old"))
    await it.write(raw(3, a="new"))
    assert it.data == {"a": "new"}
    it.shows("MODIFIED", raw(3, a="new"))
    assert it.data == {"a": "new"}
    assert it.echoes == [False, True], "our own write is no change"
    it.shows("MODIFIED", raw(4, a="theirs"))
    assert it.data == {"a": "theirs"}
    assert it.echoes[-1] is False


async def test_two_writes_in_a_row_are_not_undone_by_the_first_of_them() -> None:
    it = Watched()
    it.shows("ADDED", raw(2, a="old"))
    await it.write(raw(3, a="one"))
    await it.write(raw(4, a="two"))
    it.shows("MODIFIED", raw(3, a="one"))
    assert it.data == {"a": "two"}
    it.shows("MODIFIED", raw(4, a="two"))
    assert it.data == {"a": "two"}


async def test_a_watch_that_was_quicker_than_the_answer_is_right() -> None:
    it = Watched()
    it.shows("ADDED", raw(2, a="old"))
    await it.write(raw(3, a="new"), meanwhile=raw(5, a="later"))
    assert it.data == {"a": "later"}
    await it.write(raw(6, a="last"), meanwhile=raw(7), kind="DELETED")
    assert it.data is None, "what was deleted meanwhile is gone"


async def test_an_object_that_was_made_and_deleted_by_another_client_is_gone() -> None:
    it = Watched()
    await it.write(raw(3, a="made"))
    assert it.data == {"a": "made"}
    it.shows("ADDED", raw(3, a="made"))
    it.shows("DELETED", raw(4, a="made"))
    assert it.data is None


async def test_what_we_deleted_is_gone_before_the_watch_says_so() -> None:
    it = Watched()
    it.shows("ADDED", raw(2, a="old"))

    async def gone() -> None:
        raise NotFound("no such map", status=404)

    request: Awaitable[None] = gone()
    await it.cache.remove(KEY, request)
    assert it.data is None
    it.shows("DELETED", raw(3, a="old"))
    assert it.data is None
    it.shows("ADDED", raw(4, a="anew"))
    assert it.data == {"a": "anew"}


async def test_a_new_term_believes_the_watch_alone() -> None:
    it = Watched()
    it.shows("ADDED", raw(2, a="old"))
    await it.write(raw(3, a="new"))
    it.cache.forget_writes()
    assert it.data == {"a": "old"}
