"""The controller loop: takes keys from the work queue and reconciles them.

Workers take keys from the `WorkQueue` and call `reconcile`. `stoker.kube.runtime.result` decides what the
outcome means, and the loop requeues, forgets or delays the key accordingly. A reconcile that fails, hangs or
crashes never affects another key. The loop knows nothing about objects or status: the steps of a reconcile
are in `stoker.kube.runtime.steps` and in the reconcilers.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Generic

from stoker.domain.clock import Clock, SystemClock
from stoker.domain.errors import Retry, StokerError
from stoker.domain.reasons import Reason
from stoker.kube.client.deadlines import deadline
from stoker.kube.client.errors import ApiError
from stoker.kube.runtime.result import (
    Consequence,
    ReconcileResult,
    RequeueDecision,
    as_stoker_error,
    verdict_for,
)
from stoker.kube.runtime.workqueue import K, QueueClosed, WorkQueue
from stoker.telemetry.logs import bind_pass, get_logger

__all__ = ["Controller", "ReconcileRecord", "ReconcileResult"]

log = get_logger(__name__)

WORKERS = 5
RECONCILE_TIMEOUT_SECONDS = 300.0
STALLED_RECHECK = 600.0
STOP_GRACE = 30.0

_LOG_LEVELS = {
    Consequence.DONE: logging.DEBUG,
    Consequence.AGAIN: logging.DEBUG,
    Consequence.STALLED: logging.WARNING,
    Consequence.WAIT: logging.INFO,
    Consequence.RETRY: logging.WARNING,
    Consequence.ERROR: logging.ERROR,
}


@dataclass(frozen=True, slots=True)
class ReconcileRecord(Generic[K]):
    """One finished reconcile, as the metrics hook receives it."""

    controller: str
    key: K
    consequence: Consequence
    reason: Reason | None
    seconds: float
    comes_back_after: float | None


class Controller(Generic[K]):
    """N workers over one queue. `stop` ends it in order; cancelling `run` ends it at once."""

    def __init__(
        self,
        name: str,
        queue: WorkQueue[K],
        reconcile: Callable[[K], Awaitable[ReconcileResult]],
        *,
        workers: int = WORKERS,
        timeout: float = RECONCILE_TIMEOUT_SECONDS,
        stalled_recheck: float | None = STALLED_RECHECK,
        clock: Clock | None = None,
        on_pass: Callable[[ReconcileRecord[K]], None] | None = None,
    ) -> None:
        self.name = name
        self.queue = queue
        self._reconcile = reconcile
        self._worker_count = workers
        self._timeout = timeout
        self._stalled_recheck = stalled_recheck
        self._clock = clock or SystemClock()
        self._on_pass = on_pass
        self._workers: list[asyncio.Task[None]] = []
        self._stopping = False

    async def run(self) -> None:
        """Work until `stop`."""
        try:
            async with asyncio.TaskGroup() as group:
                for number in range(self._worker_count):
                    self._workers.append(group.create_task(self._work(), name=f"{self.name}-{number}"))
        finally:
            self.queue.close()

    async def stop(self, grace: float = STOP_GRACE) -> None:
        """Take no more keys, let running reconciles finish within `grace` seconds, then cancel them."""
        self._stopping = True
        self.queue.close()
        if not self._workers:
            return
        try:
            async with deadline(self._clock, grace):
                await asyncio.wait(self._workers)
        except TimeoutError:
            log.warning("controller.cut_off", controller=self.name, grace_seconds=grace)
            for worker in self._workers:
                worker.cancel()
            await asyncio.wait(self._workers)

    async def _work(self) -> None:
        while not self._stopping:
            try:
                key = await self.queue.get()
            except QueueClosed:
                return
            try:
                if not self._stopping:
                    await self._visit(key)
            finally:
                self.queue.done(key)

    async def _visit(self, key: K) -> None:
        """Reconcile one key, then requeue, log and report it."""
        started = self._clock.monotonic()
        with bind_pass(controller=self.name, key=str(key)):
            ended = await self._attempt(key)
            verdict = verdict_for(ended)
            pause = self._requeue(key, verdict, refused=isinstance(ended, ApiError))
            seconds = self._clock.monotonic() - started
            self._log(verdict, ended, seconds, pause)
            reason = ended.reason if isinstance(ended, StokerError) else None
            self._report(ReconcileRecord(self.name, key, verdict.consequence, reason, seconds, pause))

    async def _attempt(self, key: K) -> ReconcileResult | StokerError:
        """Call the reconciler with a timeout; raise only when this worker itself is cancelled."""
        try:
            async with deadline(self._clock, self._timeout) as scope:
                return await self._reconcile(key)
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            return as_stoker_error(error)  # it leaked out of the reconciler; this worker was not cancelled
        except Exception as error:
            if scope.expired() and isinstance(error, TimeoutError):
                sentence = f"the pass took longer than {self._timeout:g} s and was cut off"
                return Retry(sentence, reason=Reason.PASS_INTERRUPTED)
            return as_stoker_error(error)

    def _requeue(self, key: K, verdict: RequeueDecision, *, refused: bool) -> float | None:
        """Requeue the key as decided; return after how many seconds it comes back without an event."""
        if verdict.failed:
            return self.queue.retry(key, at_least=verdict.after)
        stalled = verdict.consequence is Consequence.STALLED
        if stalled and refused and self._stalled_recheck is not None:
            # A freshly started API server denies every request until it has loaded its RBAC rules.
            return self.queue.retry(key, at_most=self._stalled_recheck)
        self.queue.forget(key)
        pause = self._stalled_recheck if stalled else verdict.after
        if pause is not None:
            self.queue.add_after(key, pause)
        return pause

    def _log(
        self,
        verdict: RequeueDecision,
        ended: ReconcileResult | StokerError,
        seconds: float,
        pause: float | None,
    ) -> None:
        """Log one line per reconcile, at a level that depends on its outcome.

        Success is only at debug level.
        """
        told: dict[str, object] = {"consequence": verdict.consequence, "seconds": round(seconds, 3)}
        if pause is not None:
            told["comes_back_after"] = round(pause, 1)
        if isinstance(ended, StokerError):
            told |= {"reason": ended.reason, "error": ended.message}
        if verdict.consequence is Consequence.ERROR and isinstance(ended, StokerError):
            told["exc_info"] = ended.__cause__ or ended
        log.log(_LOG_LEVELS[verdict.consequence], "pass.ended", **told)

    def _report(self, record: ReconcileRecord[K]) -> None:
        if self._on_pass is None:
            return
        try:
            self._on_pass(record)
        except Exception:  # a failing metrics hook must not end the worker
            log.exception("pass.uncounted")
