"""The controller's informers, and the error when they have nothing."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from structlog.testing import capture_logs

from stoker.api.kinds.ignitionsync import ALLOWED_NAMESPACES, IgnitionSync
from stoker.controller.cache.informers import ControllerInformers, WatchScope
from stoker.controller.cache.store import WriteThroughCache
from stoker.domain.clock import SystemClock
from stoker.domain.errors import InvalidValue
from stoker.domain.shards import Shard
from stoker.kube.client.client import KubeClient
from stoker.kube.config.config import ClusterConfig
from stoker.kube.watch.store import ObjectKey
from stoker_testkit.wait_until import eventually_async


async def test_a_kind_that_cannot_be_listed_is_named_in_the_log() -> None:
    """Nothing is reconciled before every kind has been listed, so the reason must be visible."""

    async def denied(request: web.Request) -> web.Response:
        message = f'User "stoker" cannot list {request.path}'
        return web.json_response({"kind": "Status", "message": message}, status=403)

    app = web.Application()
    app.router.add_get("/{path:.*}", denied)
    async with (
        TestServer(app) as server,
        KubeClient(ClusterConfig(str(server.make_url("/")).rstrip("/"))) as client,
    ):
        observed = ControllerInformers(client, WatchScope("operator"), SystemClock())
        with capture_logs() as lines:
            running = asyncio.create_task(observed.run())
            await eventually_async(lambda: len(lines) >= 10, 10, "every kind has been asked for")
            running.cancel()
            await asyncio.wait([running])
    assert {line["reason"] for line in lines} == {"RBACDenied"}
    ours = ("stokers.", "ignitionsyncs.", "ignitionsyncbases.", "syncprofiles.")
    others = ("pods", "configmaps", "secrets", "roles.", "rolebindings.")
    for kind in (*ours, *others):
        assert any(line["error"].startswith(f"list {kind}") for line in lines), kind


def test_a_shard_asks_for_its_own_namespaces_where_they_are_named() -> None:
    """Whom a webhook may call is known on every replica: resources, bases and Secrets are seen everywhere."""
    names = [f"plant-{number}" for number in range(12)]
    shard = Shard.parse("1/3")
    observed = ControllerInformers(
        KubeClient(ClusterConfig("http://127.0.0.1:9")), WatchScope("home", names, shard=shard), SystemClock()
    )
    mine = {name for name in names if shard.has(name)}
    assert mine
    assert mine != set(names)
    everywhere: tuple[WriteThroughCache[Any], ...] = (
        *observed.resources.values(),
        observed.bases,
        observed.secrets,
    )
    for shelf in everywhere:
        assert {each.namespace for each in shelf.reflectors} == set(names)
    own: tuple[WriteThroughCache[Any], ...] = (
        observed.profiles,
        observed.pods,
        observed.maps,
        observed.roles,
    )
    for shelf in (*own, observed.bindings):
        assert {each.namespace for each in shelf.reflectors} == mine
    assert [each.namespace for each in observed.pause.reflectors] == ["home"]


def test_a_shard_keeps_only_its_own_objects_where_all_namespaces_are_watched() -> None:
    shard = Shard.parse("1/3")
    observed = ControllerInformers(
        KubeClient(ClusterConfig("http://127.0.0.1:9")), WatchScope("home", shard=shard), SystemClock()
    )
    (maps,) = observed.maps.reflectors
    (secrets,) = observed.secrets.reflectors
    raw = b'{"metadata":{"name":"map","uid":"u","resourceVersion":"1"}}'
    for name in (f"plant-{number}" for number in range(12)):
        key = ObjectKey(name, "map")
        assert (maps.store.read(key, "u", "1", raw) is not None) == shard.has(name)
        assert secrets.store.read(key, "u", "1", raw) is not None


@pytest.mark.parametrize("listed", ["", "plant"])
def test_a_base_that_does_not_allow_the_namespace_is_not_even_decoded(listed: str) -> None:
    """An error in a base of another namespace would show that it exists."""
    observed = ControllerInformers(
        KubeClient(ClusterConfig("http://127.0.0.1:9")), WatchScope("home"), SystemClock()
    )
    broken = {
        "metadata": {"name": "base", "namespace": "shared", "annotations": {ALLOWED_NAMESPACES: listed}},
        "spec": {"gateway": "no map"},
    }
    (bases,) = observed.bases.reflectors
    entry = bases.store.read(ObjectKey("shared", "base"), "u", "1", msgspec.json.encode(broken))
    assert entry is not None
    bases.store.put(ObjectKey("shared", "base"), entry)
    git = {"repo": "https://git.example.com/a.git", "ref": "main"}
    wanted = {"name": "base", "namespace": "shared"}
    heir = {"metadata": {"name": "heir", "namespace": "plant"}, "spec": {"git": git, "inheritsFrom": wanted}}
    resource = msgspec.convert(heir, IgnitionSync)
    if listed:
        with pytest.raises(InvalidValue, match="cannot be read"):
            observed.base_for(resource)
    else:
        assert observed.base_for(resource) == (None, b"")
