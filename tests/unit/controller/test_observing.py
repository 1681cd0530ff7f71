"""What the controller sees of the cluster, and what it says when it sees nothing."""

from __future__ import annotations

import asyncio

from aiohttp import web
from aiohttp.test_utils import TestServer
from structlog.testing import capture_logs

from stoker.controller.seeing.observing import Observed, Scope
from stoker.domain.clock import SystemClock
from stoker.kube.client import Client
from stoker.kube.config import ClusterConfig
from stoker.testing.waiting import eventually_async


async def test_a_kind_that_cannot_be_listed_is_named_in_the_log() -> None:
    """Nothing is worked on before every kind has been listed, so somebody must be able to find out why."""

    async def denied(request: web.Request) -> web.Response:
        message = f'User "stoker" cannot list {request.path}'
        return web.json_response({"kind": "Status", "message": message}, status=403)

    app = web.Application()
    app.router.add_get("/{path:.*}", denied)
    async with (
        TestServer(app) as server,
        Client(ClusterConfig(str(server.make_url("/")).rstrip("/"))) as client,
    ):
        observed = Observed(client, Scope("operator"), SystemClock())
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
