"""The loop that keeps a folder: when it looks, how it reacts, what it says, how it ends."""

from __future__ import annotations

import asyncio
import itertools
import json
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import pytest

from stoker.agent.loop.loop import MAX_PAUSE_SECONDS, SyncAssignment, SyncLoop
from stoker.agent.loop.metrics import SyncMetrics
from stoker.agent.sync.jobs import SyncResult, SyncWait
from stoker.agent.sync.sync_report import SyncReport
from stoker.domain.errors import Retry, Stalled, StokerError, Wait
from stoker.domain.git_objects import BlobId, FileVersion, PathNote
from stoker.domain.intent.policies import DriftMode, DriftPolicy
from stoker.domain.paths import RelPath
from stoker.domain.reasons import Reason
from stoker.domain.refs import CommitId, GitRef
from stoker.engine.plan.drift import FolderDrift
from stoker.engine.plan.plan import SyncPlan, WriteFile
from stoker.fs.apply_plan import ApplyResult
from stoker.kube.runtime.backoff import Backoff
from stoker.telemetry.logs import configure_logging
from stoker_testkit.virtual_time_loop import in_virtual_time, pass_time

FIRST, SECOND = CommitId("1" * 40), CommitId("2" * 40)
START = datetime(2026, 1, 1, tzinfo=UTC)


class LoopClock:
    """The virtual loop's own time."""

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()

    def now(self) -> datetime:
        return START + timedelta(seconds=self.monotonic() + self.set_by)

    set_by = 0.0
    """Seconds by which the wall clock was changed."""

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(max(0.0, seconds))


@dataclass
class Folder:
    """A folder whose source does what the test says."""

    commit: CommitId = FIRST
    lasts: float = 0.0
    error: BaseException | None = None
    left: tuple[PathNote, ...] = ()
    unverified: tuple[PathNote, ...] = ()
    drift: FolderDrift = field(default_factory=FolderDrift)
    touched: str = ""
    """What a walk finds changed by others, and restores."""
    stuck: str = ""
    """The same, and it cannot be put back."""
    empty: bool = False
    """Whether nothing was ever written there."""
    opens: float | None = None
    """When the window opens that a change waits for."""
    clock: LoopClock | None = None
    passes: list[tuple[float, bool]] = field(default_factory=list)
    checks: list[float] = field(default_factory=list)
    running: int = 0
    most: int = 0
    cancelled: int = 0
    at: str = ""

    async def sync(self, *, walk: bool) -> SyncReport:
        self.passes.append((asyncio.get_running_loop().time(), walk))
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            await asyncio.sleep(self.lasts)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self.running -= 1
        if self.error is not None:
            raise self.error
        opens = None if self.opens is None else START + timedelta(seconds=self.opens)
        now = self.clock.now() if self.clock is not None else START
        if opens is not None and self.at != self.commit and now < opens:
            plan = SyncPlan(writes=(WriteFile(RelPath("a"), FileVersion(BlobId("a" * 40)), replaces=True),))
            waits = SyncWait(Reason.WAITING_FOR_WINDOW, opens)
            return SyncReport(self.commit, GitRef("main"), plan, waits=waits)
        changed: tuple[RelPath, ...] = (RelPath("a"),) if self.at != self.commit else ()
        found: tuple[str, ...] = ()
        if walk:
            found = tuple(path for path in (self.touched, self.stuck) if path)
            changed += (RelPath(self.touched),) if self.touched else ()
            self.touched = ""
        self.at = self.commit
        return SyncReport(
            self.commit,
            GitRef("main"),
            SyncPlan(),
            ApplyResult(modified=changed, errors=self.left),
            drift=FolderDrift(modified=found),
            unverified=self.unverified,
        )

    async def verify(self) -> FolderDrift:
        self.checks.append(asyncio.get_running_loop().time())
        if self.empty:
            raise Stalled("there is no ledger", reason=Reason.NEVER_SYNCED)
        return self.drift

    @property
    def moments(self) -> list[float]:
        return [round(moment, 3) for moment, _ in self.passes]


class Counts(SyncMetrics):
    """What was counted, in order."""

    def __init__(self) -> None:
        self.all: list[str] = []

    def passed(self, report: SyncReport) -> None:
        self.all.append(report.result)

    def failed(self, result: SyncResult, reason: str) -> None:
        self.all.append(f"{result} {reason}")

    def drifted(self, files: int) -> None:
        self.all.append(f"drift {files}")


class Stage:
    """A watcher over a folder, running in virtual time."""

    def __init__(
        self,
        folder: Folder,
        *,
        interval: float = 30.0,
        drift: DriftPolicy | None = None,
        paused: bool = False,
        grace: float = 30.0,
    ) -> None:
        self.folder = folder
        self.clock = folder.clock = LoopClock()
        self.paused = paused
        self.counts = Counts()
        self.told: list[SyncReport] = []

        async def assign() -> SyncAssignment:
            return SyncAssignment(
                None if self.paused else folder, interval, drift or DriftPolicy(DriftMode.OFF)
            )

        self.watcher = SyncLoop(
            assign,
            meter=self.counts,
            told=self.told.append,
            clock=self.clock,
            backoff=Backoff(base=1.0, ceiling=300.0, jitter=0.0),
            random=lambda: 0.0,
            grace=grace,
        )
        self.task = asyncio.ensure_future(self.watcher.run())

    async def end(self) -> None:
        self.watcher.stop()
        await self.task


@pytest.fixture
def lines(capsys: pytest.CaptureFixture[str]) -> Iterator[list[dict[str, object]]]:
    """What was logged, once the test asks for it."""
    configure_logging(level="info", log_format="json")

    class Lines(list[dict[str, object]]):
        def read(self) -> list[dict[str, object]]:
            self.extend(json.loads(line) for line in capsys.readouterr().err.splitlines())
            return self

    yield Lines()
    configure_logging(level="warning")


def events(lines: list[dict[str, object]]) -> list[object]:
    return [line["event"] for line in lines.read()]  # type: ignore[attr-defined]


@in_virtual_time
async def test_it_polls_at_its_interval() -> None:
    stage = Stage(Folder())
    await pass_time(95)
    await stage.end()
    assert stage.folder.moments == [0, 30, 60, 90]


@in_virtual_time
async def test_chance_makes_polls_early_and_never_late() -> None:
    folder = Folder()

    async def assign() -> SyncAssignment:
        return SyncAssignment(folder, 30.0, DriftPolicy(DriftMode.OFF))

    watcher = SyncLoop(assign, clock=LoopClock(), random=lambda: 1.0)
    task = asyncio.ensure_future(watcher.run())
    await pass_time(60)
    watcher.stop()
    await task
    assert folder.moments == [0, 27, 54]


@in_virtual_time
async def test_without_polling_it_looks_only_when_nudged() -> None:
    stage = Stage(Folder(), interval=math.inf)
    await pass_time(10_000)
    assert stage.folder.moments == [0]
    stage.watcher.nudge("webhook")
    await pass_time(1)
    await stage.end()
    assert stage.folder.moments == [0, 10_000]


@in_virtual_time
async def test_a_nudge_ends_the_rest() -> None:
    stage = Stage(Folder())
    await pass_time(7)
    stage.watcher.nudge("signal")
    await pass_time(1)
    await stage.end()
    assert stage.folder.moments == [0, 7]


@in_virtual_time
async def test_nudges_during_a_pass_cause_exactly_one_more() -> None:
    stage = Stage(Folder(lasts=5.0))
    await pass_time(1)
    for _ in range(20):
        stage.watcher.nudge("webhook")
        await pass_time(0.1)
    await pass_time(12)
    await stage.end()
    assert stage.folder.moments == [0, 5]
    assert stage.folder.most == 1


@in_virtual_time
async def test_a_pass_that_outlasts_its_interval_is_not_overtaken() -> None:
    stage = Stage(Folder(lasts=100.0))
    await pass_time(450)
    await stage.end()
    assert stage.folder.most == 1
    assert stage.folder.moments == [0, 130, 260, 390]


@in_virtual_time
async def test_drift_is_reported_at_its_own_interval() -> None:
    folder = Folder(drift=FolderDrift(modified=("a",), extra=("b", "c")))
    stage = Stage(folder, drift=DriftPolicy(DriftMode.REPORT, interval=100.0))
    await pass_time(205)
    await stage.end()
    assert [round(moment) for moment in folder.checks] == [0, 100, 200]
    assert not any(walk for _, walk in folder.passes)
    assert "drift 3" in stage.counts.all


@in_virtual_time
async def test_drift_is_restored_by_a_pass_that_walks() -> None:
    folder = Folder()
    stage = Stage(folder, drift=DriftPolicy(DriftMode.RESTORE, interval=100.0))
    await pass_time(110)
    await stage.end()
    assert folder.checks == []
    assert [round(moment) for moment, walk in folder.passes if walk] == [0, 100]
    assert [round(moment) for moment, walk in folder.passes if not walk] == [30, 60, 90]


@in_virtual_time
async def test_with_drift_off_nothing_walks() -> None:
    stage = Stage(Folder(), drift=DriftPolicy(DriftMode.OFF))
    await pass_time(1000)
    await stage.end()
    assert stage.folder.checks == []
    assert not any(walk for _, walk in stage.folder.passes)


@pytest.mark.parametrize("mode", [DriftMode.REPORT, DriftMode.RESTORE])
def test_drift_is_looked_for_although_the_source_is_away(mode: DriftMode) -> None:
    @in_virtual_time
    async def story() -> None:
        folder = Folder(error=Retry("away", reason=Reason.SOURCE_UNREACHABLE))
        stage = Stage(folder, drift=DriftPolicy(mode, interval=100.0))
        await pass_time(1)
        await stage.end()
        assert folder.checks == [0]

    story()


@in_virtual_time
async def test_failures_are_tried_again_with_growing_pauses_up_to_a_ceiling() -> None:
    stage = Stage(Folder(error=Retry("away", reason=Reason.SOURCE_UNREACHABLE)))
    await pass_time(20_000)
    moments = stage.folder.moments
    pauses = [round(two - one) for one, two in itertools.pairwise(moments)]
    assert pauses[:10] == [1, 2, 4, 8, 16, 32, 64, 128, 256, 300]
    assert set(pauses[9:]) == {300}
    stage.folder.error = None
    await pass_time(400)
    good = len(stage.folder.passes)
    await pass_time(30)
    await stage.end()
    assert len(stage.folder.passes) == good + 1  # back to its own interval


@in_virtual_time
async def test_a_nudge_is_heard_although_the_last_pass_failed() -> None:
    stage = Stage(Folder(error=Stalled("no such ref", reason=Reason.REF_NOT_FOUND)))
    await pass_time(2000)
    before = len(stage.folder.passes)
    stage.watcher.nudge("webhook")
    await pass_time(0.5)
    await stage.end()
    assert len(stage.folder.passes) == before + 1


@pytest.mark.parametrize(("after", "expected"), [(50.0, 50.0), (0.1, 1.0), (1e12, MAX_PAUSE_SECONDS)])
def test_a_named_time_is_waited_for_within_reason(after: float, expected: float) -> None:
    @in_virtual_time
    async def story() -> None:
        stage = Stage(Folder(error=Wait("busy", after=after, reason=Reason.SYNC_IN_PROGRESS)))
        await pass_time(expected + 1.0)
        await stage.end()
        assert stage.folder.moments[:2] == [0, expected]

    story()


@in_virtual_time
async def test_what_was_left_undone_is_tried_again_before_its_time() -> None:
    folder = Folder(left=(PathNote("x", "cannot be read"),))
    stage = Stage(folder, interval=1000.0)
    await pass_time(4)
    folder.left = ()
    await pass_time(100)
    await stage.end()
    assert folder.moments == [0, 1, 3, 7]
    assert stage.counts.all == ["partial", "partial", "partial", "done"]


@in_virtual_time
async def test_an_unverified_gateway_is_asked_again() -> None:
    folder = Folder(unverified=(PathNote("gateway", "is starting"),))
    stage = Stage(folder, interval=1000.0)
    await pass_time(0.5)
    folder.unverified = ()
    await pass_time(5)
    await stage.end()
    assert stage.counts.all == ["unverified", "done"]


@in_virtual_time
async def test_a_mistake_of_ours_does_not_end_the_watch() -> None:
    stage = Stage(Folder(error=ZeroDivisionError("oh")))
    await pass_time(1.5)
    stage.folder.error = None
    await pass_time(5)
    await stage.end()
    assert stage.counts.all == ["failed InternalError", "failed InternalError", "done"]


@in_virtual_time
async def test_paused_means_that_nothing_is_followed() -> None:
    stage = Stage(Folder(), paused=True, drift=DriftPolicy(DriftMode.RESTORE, interval=10.0))
    await pass_time(500)
    assert stage.folder.passes == []
    stage.paused = False
    await pass_time(31)
    await stage.end()
    assert len(stage.folder.passes) >= 1


@in_virtual_time
async def test_a_stop_lets_the_pass_finish() -> None:
    stage = Stage(Folder(lasts=20.0))
    await pass_time(5)
    await stage.end()
    assert asyncio.get_running_loop().time() == pytest.approx(20.0)
    assert stage.folder.cancelled == 0


@in_virtual_time
async def test_a_pass_that_outlasts_the_grace_is_cut_off() -> None:
    stage = Stage(Folder(lasts=1000.0))
    await pass_time(5)
    await stage.end()
    assert asyncio.get_running_loop().time() == pytest.approx(35.0)
    assert stage.folder.cancelled == 1


@in_virtual_time
async def test_a_stop_while_resting_is_immediate() -> None:
    stage = Stage(Folder(), interval=3600.0)
    await pass_time(5)
    await stage.end()
    assert asyncio.get_running_loop().time() == pytest.approx(5.0)


@in_virtual_time
async def test_cancelling_ends_the_pass_too() -> None:
    stage = Stage(Folder(lasts=1000.0))
    await pass_time(1)
    stage.task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await stage.task
    assert stage.folder.cancelled == 1


@in_virtual_time
async def test_it_is_ready_when_a_first_pass_went_well() -> None:
    folder = Folder(error=Retry("the server is away", reason=Reason.SOURCE_UNREACHABLE))
    stage = Stage(folder)
    assert stage.watcher.why_not_ready() == "no sync has finished yet"
    await pass_time(0.5)
    assert stage.watcher.why_not_ready() == "SourceUnreachable: the server is away"
    folder.error = None
    await pass_time(2)
    assert stage.watcher.why_not_ready() is None
    folder.error = Retry("away again")
    await pass_time(60)
    await stage.end()
    assert stage.watcher.why_not_ready() is None  # the files are still in place


@in_virtual_time
async def test_only_changes_are_logged() -> None:
    stage = Stage(Folder())
    await pass_time(100)
    stage.folder.commit = SECOND
    await pass_time(100)
    await stage.end()
    assert [report.commit for report in stage.told] == [FIRST, SECOND]


def test_nothing_is_logged_while_nothing_happens(lines: list[dict[str, object]]) -> None:
    @in_virtual_time
    async def story() -> None:
        stage = Stage(Folder(), drift=DriftPolicy(DriftMode.REPORT, interval=60.0))
        await pass_time(36_000)
        await stage.end()

    story()
    assert events(lines) == ["sync.done", "watch.stopped"]
    assert lines[0]["trigger"] == "start"


@pytest.mark.parametrize("mode", [DriftMode.REPORT, DriftMode.RESTORE])
def test_a_day_of_nothing_costs_its_looks_and_says_nothing(
    lines: list[dict[str, object]], mode: DriftMode
) -> None:
    folder, day = Folder(), 86_400

    @in_virtual_time
    async def story() -> None:
        stage = Stage(folder, interval=30.0, drift=DriftPolicy(mode, interval=300.0))
        await pass_time(day + 1)
        await stage.end()

    story()
    walks = [moment for moment, walk in folder.passes if walk]
    looks = folder.checks if mode is DriftMode.REPORT else walks
    assert len(folder.passes) == 1 + day // 30
    assert len(looks) == 1 + day // 300
    assert folder.most == 1
    assert events(lines) == ["sync.done", "watch.stopped"]


def test_a_trouble_is_logged_once_and_its_end_too(lines: list[dict[str, object]]) -> None:
    @in_virtual_time
    async def story() -> None:
        folder = Folder()
        stage = Stage(folder)
        await pass_time(40)
        folder.error = Retry("the server is away", reason=Reason.SOURCE_UNREACHABLE)
        await pass_time(10_000)
        folder.error = Stalled("no such ref", reason=Reason.REF_NOT_FOUND)
        await pass_time(10_000)
        folder.error = None
        await pass_time(1_000)
        await stage.end()

    story()
    assert events(lines) == ["sync.done", "sync.failed", "sync.failed", "sync.done", "watch.stopped"]
    assert [line.get("reason") for line in lines][1:3] == ["SourceUnreachable", "RefNotFound"]


def test_drift_is_logged_when_it_changes(lines: list[dict[str, object]]) -> None:
    @in_virtual_time
    async def story() -> None:
        folder = Folder(drift=FolderDrift(modified=("a",)))
        stage = Stage(folder, drift=DriftPolicy(DriftMode.REPORT, interval=60.0))
        await pass_time(1000)
        folder.drift = FolderDrift()
        await pass_time(1000)
        await stage.end()

    story()
    assert events(lines) == ["sync.done", "drift.found", "drift.gone", "watch.stopped"]
    assert lines[1]["modified"] == ["a"]


def test_drift_that_is_put_back_is_named_and_then_gone(lines: list[dict[str, object]]) -> None:
    folder = Folder()

    @in_virtual_time
    async def story() -> None:
        stage = Stage(folder, drift=DriftPolicy(DriftMode.RESTORE, interval=60.0))
        await pass_time(100)
        folder.touched = "edited"
        await pass_time(1000)
        await stage.end()
        assert stage.counts.all.count("drift 0") > 10

    story()
    assert events(lines) == ["sync.done", "drift.found", "sync.done", "drift.gone", "watch.stopped"]
    assert lines[1]["modified"] == ["edited"]
    assert {line["trigger"] for line in lines[1:4]} == {"drift"}
    assert len({line["pass_id"] for line in lines[1:4]}) == 1


def test_drift_that_cannot_be_restored_is_logged_once_and_counted(lines: list[dict[str, object]]) -> None:
    @in_virtual_time
    async def story() -> None:
        stage = Stage(Folder(stuck="link"), drift=DriftPolicy(DriftMode.RESTORE, interval=60.0))
        await pass_time(1000)
        await stage.end()
        assert "drift 1" in stage.counts.all
        assert "drift 0" not in stage.counts.all

    story()
    assert events(lines) == ["drift.found", "sync.done", "watch.stopped"]


def test_a_source_that_never_answered_is_the_trouble_and_not_the_empty_folder(
    lines: list[dict[str, object]],
) -> None:
    @in_virtual_time
    async def story() -> None:
        away = Retry("the server is away", reason=Reason.SOURCE_UNREACHABLE)
        stage = Stage(Folder(error=away, empty=True), drift=DriftPolicy(DriftMode.REPORT, interval=60.0))
        await pass_time(1000)
        assert stage.watcher.why_not_ready() == "SourceUnreachable: the server is away"
        await stage.end()

    story()
    assert events(lines) == ["sync.failed", "watch.stopped"]
    assert lines[0]["reason"] == "SourceUnreachable"


@pytest.mark.parametrize("error", [StokerError("x"), Stalled("x"), Retry("x", after=3.0)])
def test_every_error_ends_in_a_pause(error: StokerError) -> None:
    @in_virtual_time
    async def story() -> None:
        stage = Stage(Folder(error=error))
        await pass_time(600)
        await stage.end()
        assert 2 < len(stage.folder.passes) < 20

    story()


@in_virtual_time
async def test_what_waits_for_a_window_is_done_the_moment_it_opens() -> None:
    stage = Stage(Folder(opens=100.0), interval=math.inf)
    await pass_time(99.9)
    assert stage.folder.at == ""
    await pass_time(0.2)
    await stage.end()
    assert stage.folder.at == FIRST
    assert stage.folder.moments == [0, 100]
    assert stage.counts.all == ["waiting", "done"], "it waits, and nothing failed"


@in_virtual_time
async def test_polls_go_on_while_a_window_is_waited_for_and_do_not_forget_it() -> None:
    stage = Stage(Folder(opens=100.0), interval=30.0)
    stage.watcher._random = lambda: 1.0  # as early as it gets: an opening is never early
    await pass_time(101)
    await stage.end()
    assert stage.folder.moments == [0, 27, 54, 81, 100]


@in_virtual_time
async def test_a_clock_that_is_set_forward_opens_the_window_at_the_next_look_at_it() -> None:
    stage = Stage(Folder(opens=7200.0), interval=math.inf)
    await pass_time(10)
    stage.clock.set_by = 7200.0
    await pass_time(60)
    await stage.end()
    assert stage.folder.at == FIRST


@in_virtual_time
async def test_a_window_that_opens_during_a_pause_is_no_reason_to_hurry() -> None:
    stage = Stage(Folder(opens=50.0), interval=30.0)
    await pass_time(1)
    stage.paused = True
    await pass_time(200)
    turns = stage.folder.passes.copy()
    assert len(turns) == 1
    stage.paused = False
    await pass_time(61)
    await stage.end()
    assert stage.folder.at == FIRST


def test_a_dry_run_and_a_wait_are_logged_once(lines: list[dict[str, object]]) -> None:
    plan = SyncPlan(writes=(WriteFile(RelPath("a"), FileVersion(BlobId("a" * 40)), replaces=True),))

    class Planned(Folder):
        async def sync(self, *, walk: bool) -> SyncReport:
            return SyncReport(FIRST, GitRef("main"), plan)

    @in_virtual_time
    async def watch(folder: Folder) -> None:
        stage = Stage(folder)
        await pass_time(95)
        await stage.end()

    watch(Planned())
    assert events(lines) == ["dry run: would change 1 files", "sync.done", "watch.stopped"]
    lines.clear()
    watch(Folder(opens=1000.0))
    assert events(lines) == ["sync.waiting", "watch.stopped"]
    assert lines[0]["waits"] == "no maintenance window is open; the next one opens at 2026-01-01T00:16:40Z"


@in_virtual_time
async def test_drift_that_is_switched_on_later_is_looked_for_at_once() -> None:
    folder, mode = Folder(), [DriftMode.OFF]

    async def assign() -> SyncAssignment:
        return SyncAssignment(folder, 30.0, DriftPolicy(mode[0], interval=100.0))

    watcher = SyncLoop(assign, clock=LoopClock(), random=lambda: 0.0)
    task = asyncio.ensure_future(watcher.run())
    await pass_time(50)
    mode[0] = DriftMode.REPORT
    await pass_time(15)
    watcher.stop()
    await task
    assert folder.checks == [60]
