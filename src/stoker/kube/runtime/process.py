"""Runs the long-lived parts of a process: they start, run and stop as one.

A command builds its parts (servers, Lease, reflectors, Events, controllers), puts them into a `ProcessGroup`
in the order of their dependencies, and passes a coroutine that runs it to `run_process`. Parts stop in the
opposite order: first what accepts work, then running work finishes, then the last writes are made, and the
probes answer until the end.

A stop is a cancellation: SIGTERM or SIGINT cancels the main coroutine, whatever it is doing, and a
`ProcessGroup` handles its first cancellation by stopping in order. A second signal ends the process at once.
A part that ends on its own, with or without an error, stops all others with exit code 1: a process of which
only some parts run must never look healthy.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import signal
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass

from stoker.domain.clock import Clock, SystemClock
from stoker.domain.errors import Misconfigured, StokerError
from stoker.domain.reasons import Reason
from stoker.kube.client.deadlines import deadline
from stoker.kube.runtime.event_loop import event_loop_factory
from stoker.kube.runtime.result import as_stoker_error
from stoker.telemetry import tracing
from stoker.telemetry.logs import get_logger

log = get_logger(__name__)

STOP_GRACE = 45.0  # a little more than running reconciles, the flush of Events and the Lease need together
INSIST_GRACE = 5.0
SIGNALS = (signal.SIGTERM, signal.SIGINT)
GC_THRESHOLD = 5_000
"""New objects after which the garbage collector looks for cycles.

With ten times as many, the value while modules are loaded, megabytes of closed connections and finished
children stay in memory. With Python's default of seven hundred, processing a large list and its changes
takes a fifth longer.
"""


class PartFailed(StokerError):
    """A part of the process ended although it was not stopped."""


@dataclass(frozen=True, slots=True)
class ProcessPart:
    """One long-lived coroutine.

    `stop` makes `run` return when it is done; without `stop`, `run` is cancelled.
    """

    name: str
    run: Callable[[], Coroutine[object, object, None]]
    stop: Callable[[], Awaitable[None]] | None = None


class ProcessGroup:
    """Parts that start and stop together.

    `may_finish` is called when the group stops: if it returns False, no part finishes in order and all parts
    are cancelled at once. A leader that has lost its lease may not finish, because another replica is already
    doing its work.
    """

    def __init__(
        self,
        parts: Sequence[ProcessPart],
        *,
        grace: float = STOP_GRACE,
        may_finish: Callable[[], bool] = lambda: True,
        clock: Clock | None = None,
    ) -> None:
        if len({part.name for part in parts}) < len(parts):
            raise ValueError("two parts of a unit have the same name")
        self._parts = parts
        self._grace = grace
        self._may_finish = may_finish
        self._clock = clock or SystemClock()

    async def run(self) -> None:
        """Run until cancelled, then stop in order; raise if a part ends on its own."""
        tasks = {part.name: asyncio.create_task(part.run(), name=part.name) for part in self._parts}
        try:
            await asyncio.wait(tasks.values(), return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            log.info("process.stopping")
            await self._stop(tasks)
            raise
        culprit = next(part for part in self._parts if tasks[part.name].done())
        error = _end_error(culprit, tasks.pop(culprit.name))
        unforeseen = error.__cause__ if error.reason is Reason.INTERNAL_ERROR else None
        log.error("process.failing", part=culprit.name, error=error.message, exc_info=unforeseen)
        with contextlib.suppress(asyncio.CancelledError):  # the caller must see the failure
            await self._stop(tasks)
        raise error

    async def _stop(self, tasks: dict[str, asyncio.Task[None]]) -> None:
        try:
            if self._may_finish():
                async with deadline(self._clock, self._grace):
                    for part in reversed(self._parts):
                        if part.name in tasks:
                            await _end_part(part, tasks[part.name])
        except TimeoutError:
            log.warning("process.cut_off", left=[name for name, task in tasks.items() if not task.done()])
        finally:
            await self._insist(tasks)

    async def _insist(self, tasks: dict[str, asyncio.Task[None]]) -> None:
        """Cancel all running parts, and abandon those that ignore the cancellation."""
        running = [task for task in tasks.values() if not task.done()]
        for task in running:
            task.cancel()
        with contextlib.suppress(TimeoutError):
            async with deadline(self._clock, INSIST_GRACE):
                if running:
                    await asyncio.wait(running)
        for name, task in tasks.items():
            if not task.done():
                log.error("part.left_behind", part=name)
            elif not task.cancelled() and (error := task.exception()) is not None:
                log.warning("part.failed_while_stopping", part=name, error=error)


async def _end_part(part: ProcessPart, task: asyncio.Task[None]) -> None:
    if part.stop is None:
        task.cancel()
    elif not task.done():
        try:
            await part.stop()
        except Exception:
            log.exception("part.cannot_stop", part=part.name)
            task.cancel()
    await asyncio.wait([task])


def _end_error(part: ProcessPart, task: asyncio.Task[None]) -> StokerError:
    """Return the error with which the process ends."""
    cause = asyncio.CancelledError() if task.cancelled() else task.exception()
    if cause is None:
        return PartFailed(f"{part.name} ended unexpectedly")
    error = as_stoker_error(cause)
    if isinstance(error, Misconfigured):
        return error  # not a failure of the part: the command exits as for any other wrong setting
    failed = PartFailed(f"{part.name} failed: {error.message}", reason=error.reason)
    failed.__cause__ = cause
    return failed


def run_process(main: Callable[[], Coroutine[object, object, None]], *, lean: bool = False) -> None:
    """Run a command's main coroutine to its end or to a signal, on the fastest available event loop.

    `lean` uses the event loop that needs no extra memory: for processes that have few connections and run in
    large numbers.
    """
    gc.set_threshold(GC_THRESHOLD)
    try:
        with asyncio.Runner(loop_factory=None if lean else event_loop_factory()) as runner:
            runner.run(_run_until_signalled(main))
    finally:
        tracing.end()


async def _run_until_signalled(main: Callable[[], Coroutine[object, object, None]]) -> None:
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    asked = False

    def on_signal(number: int) -> None:
        nonlocal asked
        if asked or task is None:
            os._exit(128 + number)
        asked = True
        log.info("process.signalled", signal=signal.Signals(number).name)
        task.cancel()

    for number in SIGNALS:
        loop.add_signal_handler(number, on_signal, number)
    try:
        await main()
    except asyncio.CancelledError:
        if not asked:
            raise
    finally:
        for number in SIGNALS:
            loop.remove_signal_handler(number)
