"""The lines of a pass of an agent can be found by its id, also the one that says why it failed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator

import pytest

from stoker.agent.loop.log_lines import LogDedup
from stoker.agent.loop.loop import SyncAssignment, SyncLoop
from stoker.agent.sync.sync_report import SyncReport
from stoker.domain.errors import Retry
from stoker.domain.git_objects import PathNote
from stoker.domain.reasons import Reason
from stoker.domain.refs import CommitId, GitRef
from stoker.engine.plan.drift import FolderDrift
from stoker.engine.plan.plan import LedgerFacts, SyncPlan
from stoker.engine.plan.skipped import SkippedContent
from stoker.fs.apply_plan import ApplyResult
from stoker.telemetry.logs import configure_logging, get_logger
from stoker_testkit.virtual_time_loop import in_virtual_time, pass_time


class Unreachable:
    """A folder whose source is away."""

    async def sync(self, *, walk: bool) -> SyncReport:
        get_logger("source").info("asked", walk=walk)
        raise Retry("nobody answers", reason=Reason.SOURCE_UNREACHABLE)

    async def verify(self) -> FolderDrift:
        return FolderDrift()


@pytest.fixture(autouse=True)
def lines() -> Iterator[None]:
    configure_logging(level="info", log_format="json")
    yield
    configure_logging()


@in_virtual_time
async def test_a_failure_is_logged_in_its_sync(capsys: pytest.CaptureFixture[str]) -> None:
    folder = Unreachable()

    async def assign() -> SyncAssignment:
        return SyncAssignment(folder)

    watcher = SyncLoop(assign)
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


def test_skipped_content_is_logged_once_for_each_change(capsys: pytest.CaptureFixture[str]) -> None:
    def report(*names: str) -> SyncReport:
        skipped = SkippedContent.of([PathNote(name, "is a symlink") for name in names])
        plan = SyncPlan(facts=LedgerFacts(skipped=skipped.texts, skipped_total=skipped.total))
        return SyncReport(CommitId("1" * 40), GitRef("main"), plan, ApplyResult())

    story = LogDedup()
    for told in (report("a"), report("a"), report("a", "b"), report("a", "b"), report(), report()):
        story.passed(told)
    said = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    about = [(one["event"], one.get("skipped")) for one in said if "skipped" in one["event"]]
    assert about == [
        ("sync.skipped", ["a: is a symlink"]),
        ("sync.skipped", ["a: is a symlink", "b: is a symlink"]),
        ("sync.nothing_skipped", None),
    ]
