"""The dashboard as a part of a process: what goes wrong with it ends nothing else."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import pytest

from stoker.dashboard.cluster.server import ClusterDashboardOptions, keep_serving
from stoker.dashboard.keep_serving import RETRY_SECONDS
from stoker.domain.errors import Misconfigured
from stoker.kube.client.client import KubeClient
from stoker.kube.config.config import ClusterConfig
from stoker.kube.runtime.process import ProcessGroup, ProcessPart
from stoker_testkit.manual_clock import ManualClock
from stoker_testkit.wait_until import eventually_async


async def test_a_dashboard_that_fails_leaves_its_process_alone(capfd: pytest.CaptureFixture[str]) -> None:
    clock = ManualClock()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        wanted = ClusterDashboardOptions(f"127.0.0.1:{taken.getsockname()[1]}", "stoker-system")
        async with KubeClient(ClusterConfig("http://127.0.0.1:1")) as client:
            part = ProcessPart("dashboard", lambda: keep_serving(wanted, client, clock))
            unit = asyncio.create_task(ProcessGroup([part]).run())
            for _ in range(2):
                await eventually_async(lambda: bool(clock.alarms))
                assert capfd.readouterr().err.count("dashboard.off") == 1
                await clock.advance(RETRY_SECONDS)
            assert not unit.done()
            unit.cancel()
            await asyncio.gather(unit, return_exceptions=True)


@pytest.mark.parametrize("more", [{"address": "nowhere"}, {"trusted_proxies": ("10.0.0.1/8",)}])
def test_what_a_command_line_says_wrongly_is_refused_at_once(more: dict[str, str]) -> None:
    with pytest.raises(Misconfigured):
        ClusterDashboardOptions(**{"address": ":8090", "home": "stoker-system", **more})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("address", "folder", "clear"),
    [
        (":8090", None, True),
        ("10.0.0.1:8090", None, True),
        (":8090", Path("tls"), False),
        ("127.0.0.1:8090", None, False),
        ("localhost:8090", None, False),
        ("[::1]:8090", None, False),
    ],
)
def test_tokens_in_the_clear_are_known_as_such(address: str, folder: Path | None, clear: bool) -> None:
    assert ClusterDashboardOptions(address, "stoker-system", (), folder).is_in_the_clear() is clear
