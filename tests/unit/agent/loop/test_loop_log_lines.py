"""The lines of a pass of an agent can be found by its id, also the one that says why it failed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator

import pytest

from stoker.agent.sync.sync_report import SyncReport
from stoker.agent.loop.loop import Assignment, Watcher
from stoker.domain.errors import Retry
from stoker.domain.reasons import Reason
from stoker.engine.plan.drift import Drift
from stoker.telemetry.logs import configure, get_logger
from stoker.testing.virtual_time_loop import in_virtual_time, pass_time


class Unreachable:
    """A folder whose source is away."""

    async def sync(self, *, walk: bool) -> SyncReport:
        get_logger("source").info("asked", walk=walk)
        raise Retry("nobody answers", reason=Reason.SOURCE_UNREACHABLE)

    async def verify(self) -> Drift:
        return Drift()


@pytest.fixture(autouse=True)
def lines() -> Iterator[None]:
    configure(level="info", log_format="json")
    yield
    configure()


@in_virtual_time
async def test_a_failure_is_told_in_its_pass(capsys: pytest.CaptureFixture[str]) -> None:
    folder = Unreachable()

    async def assign() -> Assignment:
        return Assignment(folder)

    watcher = Watcher(assign)
    running = asyncio.create_task(watcher.run())
    await pass_time(0.1)
    watcher.stop()
    await running
    said = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    asked, failed = [line for line in said if line["event"] in ("asked", "sync.failed")]
    assert (asked["event"], failed["event"], failed["reason"]) == (
        "asked",
        "sync.failed",
        "SourceUnreachable",
    )
    assert failed["pass_id"] == asked["pass_id"]
    assert failed["trigger"] == "start"
