"""The controller loop: what comes after a pass, and what a bad pass must not do to others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest
from structlog.testing import capture_logs

from stoker.domain.errors import InvalidValue, Retry, Stalled, Wait
from stoker.domain.reasons import Reason
from stoker.kube.client.errors import Forbidden, TooManyRequests
from stoker.kube.runtime.backoff import Backoff
from stoker.kube.runtime.controller import Controller, ReconcileRecord, ReconcileResult
from stoker.kube.runtime.result import Consequence
from stoker.kube.runtime.workqueue import WorkQueue
from stoker.telemetry.logs import pass_id
from stoker_testkit.manual_clock import ManualClock

Ending = Callable[[], Awaitable[ReconcileResult]]


@dataclass
class ControllerEnvironment:
    """A controller over keys whose passes end as the test says."""

    clock: ManualClock = field(default_factory=ManualClock)
    endings: dict[str, Ending] = field(default_factory=dict)
    passes: list[str] = field(default_factory=list)
    records: list[ReconcileRecord[str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.queue: WorkQueue[str] = WorkQueue(clock=self.clock, backoff=Backoff(0.5, 300.0, 0.0))

    async def reconcile(self, key: str) -> ReconcileResult:
        self.passes.append(key)
        ending = self.endings.get(key)
        return ReconcileResult() if ending is None else await ending()

    def raises(self, key: str, *errors: BaseException | None) -> None:
        """Each pass of the key ends with the next of these, and all later ones with the last."""
        left = list(errors)

        async def end() -> ReconcileResult:
            error = left.pop(0) if len(left) > 1 else left[0]
            if error is not None:
                raise error
            return ReconcileResult()

        self.endings[key] = end

    def hangs(self, key: str) -> asyncio.Event:
        """The pass ends when the event is set."""
        release = asyncio.Event()

        async def end() -> ReconcileResult:
            await release.wait()
            return ReconcileResult()

        self.endings[key] = end
        return release

    def controller(
        self, *, workers: int = 5, timeout: float = 300.0, stalled_recheck: float | None = 600.0
    ) -> Controller[str]:
        return Controller(
            "bench",
            self.queue,
            self.reconcile,
            workers=workers,
            timeout=timeout,
            stalled_recheck=stalled_recheck,
            clock=self.clock,
            on_pass=self.records.append,
        )

    async def settle(self) -> None:
        await self.clock.advance(0.0)

    @property
    def last(self) -> ReconcileRecord[str]:
        return self.records[-1]


@pytest.fixture
def environment() -> ControllerEnvironment:
    return ControllerEnvironment()


@asynccontextmanager
async def running(controller: Controller[str]) -> AsyncIterator[asyncio.Task[None]]:
    task = asyncio.create_task(controller.run())
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.wait([task])


TOO_MANY = TooManyRequests("get x: busy", status=429, after=7.0)


async def test_what_the_api_server_refuses_is_tried_again_soon_and_then_as_any_stall(
    environment: ControllerEnvironment,
) -> None:
    """One that has just been started refuses everybody for a second or two."""
    no = Forbidden("update x: no", status=403)
    environment.raises("a", no, no, no, None, no, Stalled("x is missing"), None)
    async with running(environment.controller(stalled_recheck=1.5)):
        environment.queue.add("a")
        await environment.clock.advance(3.0)
        assert [one.comes_back_after for one in environment.records] == [0.5, 1.0, 1.5, None]
        assert {one.consequence for one in environment.records[:3]} == {Consequence.STALLED}
        environment.queue.add("a")
        await environment.clock.advance(2.0)
        assert [one.comes_back_after for one in environment.records[4:]] == [0.5, 1.5, None]


async def test_a_reconcile_that_is_done_comes_back_only_on_a_change(
    environment: ControllerEnvironment,
) -> None:
    async with running(environment.controller()):
        environment.queue.add("a")
        await environment.clock.advance(10_000.0)
        assert environment.passes == ["a"]
        environment.queue.add("a")
        await environment.settle()
        assert environment.passes == ["a", "a"]
    assert (environment.last.consequence, environment.last.reason, environment.last.comes_back_after) == (
        "done",
        None,
        None,
    )


async def test_a_reconcile_that_asks_for_a_time_comes_back_then(environment: ControllerEnvironment) -> None:
    async def end() -> ReconcileResult:
        return ReconcileResult(after=60.0)

    environment.endings["a"] = end
    async with running(environment.controller()):
        environment.queue.add("a")
        await environment.clock.advance(59.0)
        assert environment.passes == ["a"]
        await environment.clock.advance(2.0)
        assert environment.passes == ["a", "a"]
    assert (environment.last.consequence, environment.last.comes_back_after) == ("again", 60.0)


async def test_a_reconcile_that_waits_comes_back_after_the_time_it_named(
    environment: ControllerEnvironment,
) -> None:
    environment.raises("a", Wait("still cloning", after=5.0), None)
    async with running(environment.controller()):
        environment.queue.add("a")
        await environment.clock.advance(4.0)
        assert environment.passes == ["a"]
        await environment.clock.advance(1.0)
        assert environment.passes == ["a", "a"]
    assert environment.records[0].reason is Reason.WAITING


async def test_a_stalled_key_is_counted_and_looked_at_again_only_slowly(
    environment: ControllerEnvironment,
) -> None:
    environment.raises("a", InvalidValue("the ref is no ref"))
    async with running(environment.controller(stalled_recheck=600.0)):
        environment.queue.add("a")
        await environment.clock.advance(599.0)
        assert environment.passes == ["a"]
        assert (environment.last.consequence, environment.last.reason) == ("stalled", Reason.INVALID_VALUE)
        await environment.clock.advance(1.0)
        assert environment.passes == ["a", "a"]


async def test_a_stalled_key_can_be_left_alone_until_something_changes(
    environment: ControllerEnvironment,
) -> None:
    environment.raises("a", Stalled("act"))
    async with running(environment.controller(stalled_recheck=None)):
        environment.queue.add("a")
        await environment.clock.advance(100_000.0)
        assert environment.passes == ["a"]
        environment.queue.add("a")
        await environment.settle()
        assert environment.passes == ["a", "a"]


async def test_a_failing_key_comes_back_with_growing_pauses_until_it_is_well(
    environment: ControllerEnvironment,
) -> None:
    environment.raises("a", Retry("1"), Retry("2"), Retry("3"), None)
    async with running(environment.controller()):
        environment.queue.add("a")
        await environment.clock.advance(10.0)
    assert [record.comes_back_after for record in environment.records] == [0.5, 1.0, 2.0, None]
    assert environment.queue.failures("a") == 0


async def test_the_server_decides_how_long_to_stay_away(environment: ControllerEnvironment) -> None:
    environment.raises("a", TOO_MANY, None)
    async with running(environment.controller()):
        environment.queue.add("a")
        await environment.clock.advance(6.9)
        assert environment.passes == ["a"]
        await environment.clock.advance(0.2)
        assert environment.passes == ["a", "a"]


@pytest.mark.parametrize("error", [KeyError("x"), ExceptionGroup("both", [OSError(), Stalled("no")])])
async def test_a_crash_is_logged_with_its_traceback_and_retried(
    environment: ControllerEnvironment, error: Exception
) -> None:
    environment.raises("a", error, None)
    with capture_logs() as lines:
        async with running(environment.controller()):
            environment.queue.add("a")
            await environment.clock.advance(1.0)
    assert environment.passes == ["a", "a"]
    assert environment.records[0].reason is Reason.INTERNAL_ERROR
    [line] = [line for line in lines if line["log_level"] == "error"]
    assert line["event"] == "pass.ended"
    assert isinstance(line["exc_info"], KeyError | OSError)


async def test_errors_that_say_what_they_ask_for_are_one_line_without_a_traceback(
    environment: ControllerEnvironment,
) -> None:
    environment.raises("a", Retry("the forge is away", reason=Reason.SOURCE_UNREACHABLE), None)
    with capture_logs() as lines:
        async with running(environment.controller()):
            environment.queue.add("a")
            await environment.clock.advance(1.0)
    [line] = lines
    assert (line["log_level"], line["reason"], line["error"], line["comes_back_after"]) == (
        "warning",
        "SourceUnreachable",
        "the forge is away",
        0.5,
    )
    assert "exc_info" not in line


async def test_a_hanging_reconcile_and_a_crashing_one_do_not_hold_up_the_others(
    environment: ControllerEnvironment,
) -> None:
    environment.hangs("stuck")
    environment.raises("bad", ZeroDivisionError())
    async with running(environment.controller(workers=2)):
        for key in ("stuck", "bad", "a", "b", "c"):
            environment.queue.add(key)
        await environment.settle()
        assert environment.passes == ["stuck", "bad", "a", "b", "c"]


async def test_no_more_reconciles_run_at_once_than_there_are_workers(
    environment: ControllerEnvironment,
) -> None:
    releases = [environment.hangs(key) for key in "abcdef"]
    async with running(environment.controller(workers=5)):
        for key in "abcdef":
            environment.queue.add(key)
        await environment.settle()
        assert environment.passes == ["a", "b", "c", "d", "e"]
        releases[2].set()
        await environment.settle()
        assert environment.passes[-1] == "f"


async def test_a_reconcile_that_takes_too_long_is_cut_off_and_retried(
    environment: ControllerEnvironment,
) -> None:
    environment.hangs("a")
    async with running(environment.controller(timeout=300.0)):
        environment.queue.add("a")
        await environment.clock.advance(299.0)
        assert environment.records == []
        await environment.clock.advance(1.0)
        assert (environment.last.consequence, environment.last.reason) == ("retry", Reason.PASS_INTERRUPTED)
        assert environment.last.seconds == 300.0
        await environment.clock.advance(0.5)
        assert environment.passes == ["a", "a"]


async def test_a_time_out_inside_a_reconcile_is_not_taken_for_the_end_of_its_time(
    environment: ControllerEnvironment,
) -> None:
    environment.raises("a", TimeoutError())
    async with running(environment.controller()):
        environment.queue.add("a")
        await environment.settle()
    assert environment.records[0].reason is Reason.INTERNAL_ERROR


async def test_a_cancellation_that_leaks_out_of_a_reconcile_does_not_end_the_worker(
    environment: ControllerEnvironment,
) -> None:
    environment.raises("a", asyncio.CancelledError(), None)
    async with running(environment.controller(workers=1)):
        environment.queue.add("a")
        environment.queue.add("b")
        await environment.clock.advance(1.0)
    assert environment.passes == ["a", "b", "a"]


async def test_a_hook_that_fails_does_not_end_the_worker(environment: ControllerEnvironment) -> None:
    def fail(record: ReconcileRecord[str]) -> None:
        raise RuntimeError(record.key)

    controller = Controller(
        "bench", environment.queue, environment.reconcile, workers=1, clock=environment.clock, on_pass=fail
    )
    with capture_logs() as lines:
        async with running(controller):
            environment.queue.add("a")
            environment.queue.add("b")
            await environment.settle()
    assert environment.passes == ["a", "b"]
    assert [line["event"] for line in lines] == ["pass.uncounted"] * 2


async def test_every_reconcile_has_an_id_of_its_own(environment: ControllerEnvironment) -> None:
    ids: list[str | None] = []

    async def note() -> ReconcileResult:
        ids.append(pass_id())
        return ReconcileResult()

    environment.endings = {"a": note, "b": note}
    async with running(environment.controller()):
        for key in ("a", "b"):
            environment.queue.add(key)
        await environment.settle()
        environment.queue.add("a")
        await environment.settle()
    assert len(set(ids)) == 3
    assert None not in ids


async def test_a_stop_lets_the_running_reconcile_finish_and_begins_no_other(
    environment: ControllerEnvironment,
) -> None:
    release = environment.hangs("slow")
    controller = environment.controller(workers=1)
    async with running(controller) as task:
        environment.queue.add("slow")
        environment.queue.add("next")
        await environment.settle()
        stopping = asyncio.create_task(controller.stop(grace=30.0))
        await environment.clock.advance(29.0)
        assert not stopping.done()
        release.set()
        await stopping
        await asyncio.wait_for(task, 5)
    assert environment.passes == ["slow"]
    assert [record.consequence for record in environment.records] == ["done"]


async def test_a_stop_takes_no_key_that_a_worker_was_just_woken_for(
    environment: ControllerEnvironment,
) -> None:
    controller = environment.controller(workers=1)
    async with running(controller) as task:
        await environment.settle()
        environment.queue.add("a")
        await controller.stop()
        await asyncio.wait_for(task, 5)
    assert environment.passes == []


async def test_after_the_grace_running_reconciles_are_cancelled(environment: ControllerEnvironment) -> None:
    environment.hangs("stuck")
    controller = environment.controller()
    async with running(controller) as task:
        environment.queue.add("stuck")
        await environment.settle()
        stopping = asyncio.create_task(controller.stop(grace=30.0))
        await environment.clock.advance(30.0)
        await stopping
        await asyncio.wait_for(task, 5)
    assert environment.records == []
    assert environment.queue.snapshot().in_flight == 0


async def test_stopping_a_controller_that_never_ran_is_no_error(environment: ControllerEnvironment) -> None:
    controller = environment.controller()
    await controller.stop()
    await asyncio.wait_for(controller.run(), 5)
    assert environment.passes == []


async def test_cancelling_ends_it_at_once(environment: ControllerEnvironment) -> None:
    environment.hangs("stuck")
    async with running(environment.controller()) as task:
        environment.queue.add("stuck")
        await environment.settle()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert environment.queue.snapshot().in_flight == 0
