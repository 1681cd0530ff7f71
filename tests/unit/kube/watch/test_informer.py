"""One kind in several namespaces: one cache, one log line for each failure, handlers that come and go."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec
from structlog.testing import capture_logs

from stoker.domain.errors import StokerError
from stoker.kube.client.client import ListPage
from stoker.kube.client.errors import Forbidden
from stoker.kube.client.resources import CONFIG_MAPS, ApiResource
from stoker.kube.watch.informer import Informer
from stoker.kube.watch.store import ObjectChange, ObjectKey
from stoker_testkit.manual_clock import ManualClock
from stoker_testkit.wait_until import eventually_async


class ApiServer:
    """Has one ConfigMap in each namespace, and denies the namespaces in `denied`."""

    def __init__(self) -> None:
        self.denied: set[str | None] = set()
        self.lines: dict[str | None, asyncio.Queue[bytes]] = {}

    async def pages(
        self, resource: ApiResource, namespace: str | None = None, **options: object
    ) -> AsyncIterator[ListPage]:
        if namespace in self.denied:
            raise Forbidden(f"list {resource} in {namespace}: denied", status=403)
        yield ListPage(
            items=(item(namespace, "map", 1),), resource_version="1", continue_token="", remaining=None
        )

    @asynccontextmanager
    async def watch(
        self, resource: ApiResource, namespace: str | None = None, **options: object
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        yield self._stream(self.lines.setdefault(namespace, asyncio.Queue()))

    async def _stream(self, lines: asyncio.Queue[bytes]) -> AsyncIterator[bytes]:
        while True:
            yield await lines.get()

    def event(self, kind: str, namespace: str, name: str, version: int) -> None:
        line = b'{"type":"%s","object":%s}' % (kind.encode(), item(namespace, name, version))
        self.lines[namespace].put_nowait(line)


def item(namespace: str | None, name: str, version: int) -> bytes:
    meta = {"name": name, "namespace": namespace, "uid": f"u-{name}", "resourceVersion": str(version)}
    return msgspec.json.encode({"metadata": meta})


@asynccontextmanager
async def running(informer: Informer[int]) -> AsyncIterator[None]:
    task = asyncio.create_task(informer.run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def informer_of(api: ApiServer, clock: ManualClock, errors: list[str | None] | None = None) -> Informer[int]:
    def failed(namespace: str | None, error: StokerError) -> None:
        if errors is not None:
            errors.append(namespace)

    return Informer(api, CONFIG_MAPS, len, clock, namespaces=("a", "b"), on_error=failed)


async def test_the_namespaces_are_read_as_one_cache() -> None:
    informer = informer_of(ApiServer(), ManualClock())
    async with running(informer):
        await informer.answered()
        assert informer.is_listed
        keys = {ObjectKey("a", "map"), ObjectKey("b", "map")}
        assert set(informer) == {key for key, _ in informer.items()} == keys
        assert [informer.get(key) is not None for key in sorted(keys)] == [True, True]
        assert informer.get(ObjectKey("c", "map")) is None


async def test_a_handler_gets_what_exists_then_changes_and_nothing_after_it_leaves() -> None:
    api = ApiServer()
    informer = informer_of(api, ManualClock())
    seen: list[str] = []
    stays: list[str] = []

    def note(change: ObjectChange[int]) -> None:
        seen.append(f"{change.key} {change.resource_version}")

    async with running(informer):
        await eventually_async(lambda: informer.is_watching)
        unsubscribe = informer.listen(note)
        informer.listen(lambda change: stays.append(change.resource_version))
        assert seen == ["a/map 1", "b/map 1"]
        api.event("MODIFIED", "b", "map", 2)
        await eventually_async(lambda: "b/map 2" in seen)
        unsubscribe()
        api.event("MODIFIED", "a", "map", 3)
        await eventually_async(lambda: "3" in stays)
        assert len(seen) == 3


async def test_a_denied_namespace_hides_no_other_and_is_a_warning_once_until_it_works() -> None:
    api, clock, errors = ApiServer(), ManualClock(), list[str | None]()
    api.denied = {"a"}
    informer = informer_of(api, clock, errors)

    async def later() -> bool:
        await clock.advance(60)
        return len(errors) >= 3

    async def listed() -> bool:
        await clock.advance(60)
        return informer.is_watching

    with capture_logs() as lines:
        async with running(informer):
            await informer.answered()
            assert (informer.is_listed, list(informer)) == (False, [ObjectKey("b", "map")])
            await eventually_async(later, 10.0, "it is tried again")
            assert set(errors) == {"a"}
            warned = [line for line in lines if line["log_level"] == "warning"]
            assert [(line["event"], line["namespace"]) for line in warned] == [("watch.failed", "a")]
            api.denied = set()
            await eventually_async(listed, 10.0, "it is listed")
            assert set(informer) == {ObjectKey("a", "map"), ObjectKey("b", "map")}
