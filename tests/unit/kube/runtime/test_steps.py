"""A pass as a list of steps with one status at its end."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace

import pytest
from structlog.testing import capture_logs

from stoker.domain.errors import Retry, Stalled, StokerError
from stoker.domain.reasons import Reason
from stoker.kube.client.errors import Conflict
from stoker.kube.runtime.steps import ReconcilePass, ReconcileStep, StepsOutcome
from stoker_testkit.manual_clock import ManualClock


@dataclass(frozen=True, slots=True)
class Context:
    observed: str = "nothing yet"
    commit: str = ""
    files: int = 0


async def resolve(context: Context) -> Context:
    return replace(context, commit="c0ffee")


async def count(context: Context) -> Context:
    return replace(context, files=3)


async def refuse(context: Context) -> Context:
    raise Stalled("the ref is gone", reason=Reason.REF_NOT_FOUND)


async def crash(context: Context) -> Context:
    raise KeyError(context.commit)


async def hang(context: Context) -> Context:
    await asyncio.Event().wait()
    return context


def summarize(context: Context, outcome: StepsOutcome) -> str:
    message = "ready" if outcome.error is None else f"{outcome.error.reason} in {outcome.step}"
    return f"{context.commit}:{context.files} {message}"


@dataclass
class Server:
    """Keeps the statuses that were written; `trouble` is what a write meets."""

    trouble: Callable[[], Awaitable[None]] | None = None
    written: list[str] = field(default_factory=list)

    async def write(self, context: Context, status: str) -> None:
        if self.trouble is not None:
            await self.trouble()
        self.written.append(status)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


def a_pass(
    server: Server,
    *steps: Callable[[Context], Awaitable[Context]],
    clock: ManualClock | None = None,
) -> ReconcilePass[Context, str]:
    return ReconcilePass(
        steps=[ReconcileStep(step.__name__, step) for step in steps],
        observed=lambda context: context.observed,
        summarize=summarize,
        write=server.write,
        clock=clock or ManualClock(),
        write_timeout=15.0,
    )


async def test_steps_hand_the_context_on_and_the_status_is_written_once() -> None:
    server = Server()
    context = await a_pass(server, resolve, count).run(Context())
    assert (context.commit, context.files) == ("c0ffee", 3)
    assert server.written == ["c0ffee:3 ready"]


async def test_a_status_that_the_server_has_already_is_not_written() -> None:
    server = Server()
    await a_pass(server, resolve, count).run(Context(observed="c0ffee:3 ready"))
    assert server.written == []


async def test_a_failure_keeps_what_earlier_steps_found_and_names_the_step() -> None:
    server = Server()
    with pytest.raises(Stalled, match="the ref is gone"):
        await a_pass(server, resolve, refuse, count).run(Context())
    assert server.written == ["c0ffee:0 RefNotFound in refuse"]


async def test_a_failure_that_was_reported_already_is_not_written_again() -> None:
    server = Server()
    with pytest.raises(Stalled):
        await a_pass(server, refuse).run(Context(observed=":0 RefNotFound in refuse"))
    assert server.written == []


async def test_a_crash_is_reported_as_an_internal_error_and_raised_as_it_was() -> None:
    server = Server()
    with pytest.raises(KeyError):
        await a_pass(server, crash).run(Context())
    assert server.written == [":0 InternalError in crash"]


async def test_a_pass_without_steps_still_has_a_status() -> None:
    server = Server()
    await a_pass(server).run(Context())
    assert server.written == [":0 ready"]


async def test_an_interrupted_reconcile_reports_its_step() -> None:
    server = Server()
    task = asyncio.create_task(a_pass(server, resolve, hang).run(Context()))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert server.written == ["c0ffee:0 PassInterrupted in hang"]


async def conflict() -> None:
    raise Conflict("replace x: somebody wrote first", status=409)


async def never_answers() -> None:
    await asyncio.Event().wait()


async def test_a_status_that_cannot_be_written_fails_the_reconcile() -> None:
    with pytest.raises(Conflict):
        await a_pass(Server(trouble=conflict), resolve).run(Context())


async def test_a_status_that_cannot_be_written_does_not_hide_the_error() -> None:
    with capture_logs() as lines, pytest.raises(Stalled, match="the ref is gone"):
        await a_pass(Server(trouble=conflict), refuse).run(Context())
    [line] = lines
    assert (line["event"], line["step"]) == ("status.unwritten", "refuse")
    assert isinstance(line["error"], Conflict)


async def test_a_summary_that_crashes_does_not_hide_the_error() -> None:
    def crashing(context: Context, outcome: StepsOutcome) -> str:
        raise ZeroDivisionError

    server = Server()
    broken = replace(a_pass(server, refuse), summarize=crashing)
    with capture_logs() as lines, pytest.raises(Stalled, match="the ref is gone"):
        await broken.run(Context())
    assert [line["event"] for line in lines] == ["status.unwritten"]


async def test_a_write_that_gets_no_answer_ends_and_is_tried_again(clock: ManualClock) -> None:
    running = asyncio.create_task(a_pass(Server(trouble=never_answers), resolve, clock=clock).run(Context()))
    await clock.advance(14.0)
    assert not running.done()
    await clock.advance(1.0)
    with pytest.raises(Retry, match="the status could not be written within 15 s"):
        await running


async def test_a_write_that_gets_no_answer_does_not_hide_the_error(clock: ManualClock) -> None:
    running = asyncio.create_task(a_pass(Server(trouble=never_answers), refuse, clock=clock).run(Context()))
    await clock.advance(15.0)
    with pytest.raises(Stalled, match="the ref is gone"):
        await running


async def test_an_interruption_during_the_write_is_passed_on(clock: ManualClock) -> None:
    running = asyncio.create_task(a_pass(Server(trouble=never_answers), refuse, clock=clock).run(Context()))
    await clock.advance(1.0)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


async def test_of_several_errors_the_status_names_the_most_urgent() -> None:
    async def both(context: Context) -> Context:
        errors: list[StokerError] = [Stalled("no"), Retry("the forge is away")]
        raise ExceptionGroup("two gateways", errors)

    server = Server()
    with pytest.raises(ExceptionGroup):
        await a_pass(server, both).run(Context())
    assert server.written == [":0 TransientError in both"]
