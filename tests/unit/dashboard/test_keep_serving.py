"""A page that cannot be served is tried again, and its process goes on."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NoReturn

import pytest

from stoker.dashboard.keep_serving import RETRY_SECONDS, serve_with_retries
from stoker.dashboard.server import DashboardOptions, DashboardServer
from stoker.domain.errors import Misconfigured
from stoker_testkit.dashboard.fake_fleet_server import FakeActions, FakeAuth, FakeViewSource
from stoker_testkit.manual_clock import ManualClock
from stoker_testkit.wait_until import eventually_async


@asynccontextmanager
async def keeping(task: asyncio.Task[NoReturn]) -> AsyncIterator[None]:
    try:
        yield
        assert not task.done()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert task.cancelled()


async def test_a_port_that_was_taken_is_served_once_it_is_free(capfd: pytest.CaptureFixture[str]) -> None:
    clock, scene, ports = ManualClock(), FakeViewSource(), []
    with socket.create_server(("127.0.0.1", 0)) as other:
        settings = DashboardOptions(address=f"127.0.0.1:{other.getsockname()[1]}")

        async def serve() -> None:
            async with DashboardServer(scene, FakeActions(scene), FakeAuth(), settings=settings) as dashboard:
                ports.append(dashboard.port)
                await asyncio.Event().wait()

        task = asyncio.create_task(serve_with_retries(serve, clock))
        await eventually_async(lambda: bool(clock.alarms))
        assert ports == []
        assert "for the dashboard" in capfd.readouterr().err
    async with keeping(task):
        await clock.advance(RETRY_SECONDS - 1)
        assert ports == []
        await clock.advance(1)
        await eventually_async(lambda: bool(ports))


@pytest.mark.parametrize("error", [None, Misconfigured("no"), OSError("gone"), ZeroDivisionError("ours")])
async def test_whatever_ends_it_it_is_opened_again(error: Exception | None) -> None:
    clock, begun = ManualClock(), 0

    async def serve() -> None:
        nonlocal begun
        begun += 1
        if error is not None:
            raise error

    async with keeping(asyncio.create_task(serve_with_retries(serve, clock))):
        await eventually_async(lambda: bool(clock.alarms))
        for turn in range(1, 4):
            assert begun == turn
            await clock.advance(RETRY_SECONDS)
