"""A process starts, runs and stops as one."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import uvloop
from structlog.testing import capture_logs

from stoker.cli.exit_codes import ExitCode, exit_code
from stoker.domain.errors import Misconfigured, Stalled
from stoker.domain.reasons import Reason
from stoker.kube.runtime.process import GC_THRESHOLD, PartFailed, ProcessGroup, ProcessPart, run_process
from stoker_testkit.manual_clock import ManualClock
from stoker_testkit.processes import Process
from stoker_testkit.wait_until import eventually


@dataclass
class Diary:
    """Parts that write down what happens to them."""

    entries: list[str] = field(default_factory=list)

    def cancelled(self, name: str) -> ProcessPart:
        """Runs until it is cancelled."""

        async def live() -> None:
            self.entries.append(f"{name} begins")
            try:
                await asyncio.Event().wait()
            finally:
                self.entries.append(f"{name} is cancelled")

        return ProcessPart(name, live)

    def stopped(self, name: str, last_words: Callable[[], Awaitable[object]] | None = None) -> ProcessPart:
        """Runs until it is stopped, and then for as long as its last words take."""
        asked = asyncio.Event()

        async def live() -> None:
            self.entries.append(f"{name} begins")
            await asked.wait()
            if last_words is not None:
                await last_words()
            self.entries.append(f"{name} has finished")

        async def stop() -> None:
            self.entries.append(f"{name} is asked to stop")
            asked.set()

        return ProcessPart(name, live, stop)

    def failing(self, name: str, error: BaseException | None) -> tuple[ProcessPart, asyncio.Event]:
        """Ends by itself, with the error or without, once the event is set."""
        now = asyncio.Event()

        async def live() -> None:
            await now.wait()
            if error is not None:
                raise error

        return ProcessPart(name, live), now


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def diary() -> Diary:
    return Diary()


async def begin(unit: ProcessGroup) -> asyncio.Task[None]:
    task = asyncio.create_task(unit.run())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    return task


async def test_parts_begin_in_order_and_stop_in_the_opposite_one(diary: Diary) -> None:
    unit = ProcessGroup([diary.cancelled("server"), diary.stopped("events"), diary.stopped("controller")])
    task = await begin(unit)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert diary.entries == [
        "server begins",
        "events begins",
        "controller begins",
        "controller is asked to stop",
        "controller has finished",
        "events is asked to stop",
        "events has finished",
        "server is cancelled",
    ]


async def test_the_next_part_is_not_stopped_before_the_one_that_needs_it_has_finished(
    diary: Diary, clock: ManualClock
) -> None:
    slow = diary.stopped("controller", lambda: clock.sleep(30.0))
    task = await begin(ProcessGroup([diary.cancelled("server"), slow], grace=45.0, clock=clock))
    task.cancel()
    await clock.advance(29.0)
    assert "server is cancelled" not in diary.entries
    await clock.advance(1.0)
    assert diary.entries[-2:] == ["controller has finished", "server is cancelled"]
    assert task.done()


async def test_what_does_not_stop_within_the_grace_is_cancelled(diary: Diary, clock: ManualClock) -> None:
    stuck = diary.stopped("controller", asyncio.Event().wait)
    task = await begin(ProcessGroup([diary.cancelled("server"), stuck], grace=45.0, clock=clock))
    task.cancel()
    with capture_logs() as lines:
        await clock.advance(45.0)
    assert task.cancelled()
    assert "server is cancelled" in diary.entries
    assert [line["left"] for line in lines if line["event"] == "process.cut_off"] == [
        ["server", "controller"]
    ]


async def test_a_part_that_does_not_care_about_being_cancelled_is_left_behind(clock: ManualClock) -> None:
    release = asyncio.Event()

    async def stubborn() -> None:
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue

    task = await begin(ProcessGroup([ProcessPart("stubborn", stubborn)], grace=45.0, clock=clock))
    task.cancel()
    with capture_logs() as lines:
        await clock.advance(50.0)
    release.set()
    assert task.cancelled()
    assert [line["part"] for line in lines if line["event"] == "part.left_behind"] == ["stubborn"]


async def test_a_second_cancellation_does_not_wait_for_the_grace(diary: Diary, clock: ManualClock) -> None:
    stuck = diary.stopped("controller", asyncio.Event().wait)
    task = await begin(ProcessGroup([diary.cancelled("server"), stuck], grace=45.0, clock=clock))
    task.cancel()
    await clock.advance(1.0)
    assert not task.done()
    task.cancel()
    await clock.advance(0.0)
    assert task.cancelled()
    assert diary.entries[-1] == "server is cancelled"


async def test_a_part_that_fails_stops_the_others_in_order_and_is_named(diary: Diary) -> None:
    failing, now = diary.failing(
        "reflector", Stalled("no permission to list pods", reason=Reason.RBAC_DENIED)
    )
    task = await begin(ProcessGroup([diary.cancelled("server"), failing, diary.stopped("controller")]))
    now.set()
    with capture_logs() as lines, pytest.raises(PartFailed) as caught:
        await task
    assert caught.value.message == "reflector failed: no permission to list pods"
    assert caught.value.reason is Reason.RBAC_DENIED
    assert exit_code(caught.value) == 1
    assert diary.entries[2:] == [
        "controller is asked to stop",
        "controller has finished",
        "server is cancelled",
    ]
    [line] = [line for line in lines if line["log_level"] == "error"]
    assert (line["event"], line["part"], line["exc_info"]) == ("process.failing", "reflector", None)


async def test_an_unforeseen_failure_leaves_its_traceback_in_the_log(diary: Diary) -> None:
    error = KeyError("x")
    failing, now = diary.failing("reflector", error)
    task = await begin(ProcessGroup([failing]))
    now.set()
    with capture_logs() as lines, pytest.raises(PartFailed, match="reflector failed: an unforeseen KeyError"):
        await task
    assert [line["exc_info"] for line in lines if line["event"] == "process.failing"] == [error]


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (None, "lease ended unexpectedly"),
        (asyncio.CancelledError(), "lease failed: an unforeseen CancelledError; the log has its traceback"),
    ],
)
async def test_a_part_that_just_ends_is_a_failure_too(
    diary: Diary, error: BaseException | None, sentence: str
) -> None:
    ending, now = diary.failing("lease", error)
    task = await begin(ProcessGroup([diary.cancelled("server"), ending]))
    now.set()
    with pytest.raises(PartFailed) as caught:
        await task
    assert caught.value.message == sentence


async def test_a_wrong_setting_that_a_part_finds_ends_the_command_as_one(diary: Diary) -> None:
    failing, now = diary.failing("server", Misconfigured("port 8080 is taken"))
    task = await begin(ProcessGroup([failing, diary.cancelled("other")]))
    now.set()
    with pytest.raises(Misconfigured, match="port 8080 is taken") as caught:
        await task
    assert exit_code(caught.value) is ExitCode.WRONG_INPUT


async def test_a_failure_is_reported_although_the_stop_that_followed_was_interrupted(
    diary: Diary, clock: ManualClock
) -> None:
    failing, now = diary.failing("reflector", Stalled("no"))
    stuck = diary.stopped("controller", asyncio.Event().wait)
    task = await begin(ProcessGroup([failing, stuck], clock=clock))
    now.set()
    await clock.advance(1.0)
    task.cancel()
    with pytest.raises(PartFailed, match="reflector failed: no"):
        await task


async def test_a_part_that_fails_while_it_stops_does_not_keep_the_others_from_stopping(diary: Diary) -> None:
    async def crash() -> None:
        raise ZeroDivisionError

    async def cannot() -> None:
        raise OSError("no")

    crashing = diary.stopped("crashing", crash)
    unstoppable = ProcessPart("unstoppable", diary.cancelled("unstoppable").run, cannot)
    task = await begin(ProcessGroup([diary.cancelled("server"), crashing, unstoppable]))
    task.cancel()
    with capture_logs() as lines, pytest.raises(asyncio.CancelledError):
        await task
    assert diary.entries[-3:] == [
        "unstoppable is cancelled",
        "crashing is asked to stop",
        "server is cancelled",
    ]
    assert [(line["event"], line["part"]) for line in lines if "part" in line] == [
        ("part.cannot_stop", "unstoppable"),
        ("part.failed_while_stopping", "crashing"),
    ]


async def test_a_task_without_grace_is_cancelled_at_once(diary: Diary) -> None:
    unit = ProcessGroup([diary.cancelled("server"), diary.stopped("controller")], may_finish=lambda: False)
    task = await begin(unit)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert diary.entries[2:] == ["server is cancelled"]


async def test_a_unit_can_be_a_part_of_another(diary: Diary) -> None:
    inner = ProcessGroup([diary.cancelled("reflector"), diary.stopped("controller")])
    task = await begin(ProcessGroup([diary.cancelled("server"), ProcessPart("leading", inner.run)]))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert diary.entries[3:] == [
        "controller is asked to stop",
        "controller has finished",
        "reflector is cancelled",
        "server is cancelled",
    ]


def test_two_parts_of_one_name_are_refused(diary: Diary) -> None:
    with pytest.raises(ValueError, match="same name"):
        ProcessGroup([diary.cancelled("a"), diary.cancelled("a")])


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_a_running_unit_in_order(diary: Diary, number: signal.Signals) -> None:
    async def main() -> None:
        try:
            asyncio.get_running_loop().call_soon(os.kill, os.getpid(), number)
            await ProcessGroup([diary.cancelled("server"), diary.stopped("controller")]).run()
        finally:
            diary.entries.append("client is closed")

    run_process(main)
    assert diary.entries[2:] == [
        "controller is asked to stop",
        "controller has finished",
        "server is cancelled",
        "client is closed",
    ]


def test_a_signal_before_anything_runs_ends_the_command_quietly() -> None:
    reached = []

    async def main() -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.Event().wait()  # an API server that does not answer
        reached.append("the unit")

    run_process(main)
    assert reached == []


def test_a_command_that_comes_to_its_end_returns() -> None:
    loops = []

    async def main() -> None:
        loops.append(isinstance(asyncio.get_running_loop(), uvloop.Loop))

    run_process(main)
    assert loops == [True]


class Knot:
    """What no reference count ever frees."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture
def loading() -> Iterator[None]:
    """Cycles are hardly looked for, as while a command loads its modules."""
    before = gc.get_threshold()
    gc.collect()
    gc.set_threshold(50_000)
    yield
    gc.set_threshold(*before)


@pytest.mark.usefixtures("loading")
def test_what_ended_in_cycles_does_not_pile_up_in_a_process_that_stays() -> None:
    left = []

    async def main() -> None:
        for _ in range(20_000):
            Knot()
        left.append(sum(type(one) is Knot for one in gc.get_objects()))

    run_process(main)
    assert left[0] <= GC_THRESHOLD


def test_errors_of_the_command_reach_its_caller() -> None:
    async def main() -> None:
        raise Misconfigured("no such context")

    with pytest.raises(Misconfigured, match="no such context"):
        run_process(main)


def test_a_foreign_cancellation_is_not_taken_for_a_stop() -> None:
    async def main() -> None:
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        run_process(main)


def test_signals_are_the_callers_again_afterwards() -> None:
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)

    async def main() -> None:
        pass

    run_process(main)
    assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)) == before


STUCK = """
import asyncio, sys
from pathlib import Path
from stoker.kube.runtime.process import run_process

async def main():
    try:
        Path(sys.argv[1], "running").touch()
        await asyncio.Event().wait()
    finally:
        Path(sys.argv[1], "stopping").touch()
        await asyncio.Event().wait()

run_process(main)
"""


def test_a_second_signal_ends_the_process_on_the_spot(tmp_path: Path) -> None:
    command = [sys.executable, "-c", STUCK, str(tmp_path)]
    with Process.start("stuck", command, log=tmp_path / "log") as process:
        eventually((tmp_path / "running").exists, 30.0, "it runs")
        os.kill(process.pid, signal.SIGTERM)
        eventually((tmp_path / "stopping").exists, 10.0, "it has heard the first signal")
        os.kill(process.pid, signal.SIGTERM)
        eventually(lambda: not process.running, 10.0, "the second signal ends it")
        assert process.returncode == 128 + signal.SIGTERM


WITHOUT_UVLOOP = """
import asyncio, sys
sys.modules["uvloop"] = None
from stoker.kube.runtime.process import run_process

async def main():
    print(type(asyncio.get_running_loop()).__module__)

run_process(main)
"""


def test_the_standard_event_loop_serves_where_there_is_no_uvloop() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", WITHOUT_UVLOOP], capture_output=True, text=True, check=True, timeout=60
    )
    assert ended.stdout.startswith("asyncio")
