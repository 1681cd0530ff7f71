"""Reconciles one object as a visible list of steps.

A reconciler lists its steps. Each takes the context, a frozen value, and returns the next context with its
findings; or it raises, and the error carries the consequence (`stoker.domain.errors`). A step never writes
status. When the steps have ended, with or without an error, one pure function computes the status from the
last context and the outcome. It is written once, and only if it differs from the server's: a write that
changes nothing would cause another event and so an endless loop.

A failed status write must never hide the error that the status was to report.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from stoker.domain.clock import Clock, SystemClock
from stoker.domain.errors import Retry, StokerError
from stoker.domain.reasons import Reason
from stoker.kube.client.deadlines import deadline
from stoker.kube.runtime.result import as_stoker_error
from stoker.telemetry.logs import get_logger

C = TypeVar("C")
S = TypeVar("S")

log = get_logger(__name__)

WRITE_TIMEOUT = 15.0


@dataclass(frozen=True, slots=True)
class ReconcileStep(Generic[C]):
    """One named step of a reconcile."""

    name: str
    run: Callable[[C], Awaitable[C]]


@dataclass(frozen=True, slots=True)
class StepsOutcome:
    """At which step the reconcile ended and, if it failed, with which error."""

    step: str
    error: StokerError | None = None


@dataclass(frozen=True, slots=True)
class ReconcilePass(Generic[C, S]):
    """The steps, and how their outcome becomes the object's status."""

    steps: Sequence[ReconcileStep[C]]
    observed: Callable[[C], S]
    """The status as the server has it."""
    summarize: Callable[[C, StepsOutcome], S]
    """The desired status; pure."""
    write: Callable[[C, S], Awaitable[object]]
    clock: Clock = field(default_factory=SystemClock)
    write_timeout: float = WRITE_TIMEOUT

    async def run(self, context: C) -> C:
        """Run the steps, write the status, and raise the error of a step."""
        outcome = StepsOutcome("")
        try:
            for step in self.steps:
                outcome = StepsOutcome(step.name)
                context = await step.run(context)
        except (Exception, asyncio.CancelledError) as error:
            outcome = StepsOutcome(outcome.step, _step_error(outcome.step, error))
            raise
        finally:
            await self._report(context, outcome)
        return context

    async def _report(self, context: C, outcome: StepsOutcome) -> None:
        try:
            async with deadline(self.clock, self.write_timeout) as scope:
                status = self.summarize(context, outcome)
                if status != self.observed(context):
                    await self.write(context, status)
        except Exception as error:
            late = isinstance(error, TimeoutError) and scope.expired()
            if outcome.error is not None:
                log.warning("status.unwritten", step=outcome.step, error=error, late=late)
            elif late:
                raise Retry(f"the status could not be written within {self.write_timeout:g} s") from None
            else:
                raise


def _step_error(step: str, error: BaseException) -> StokerError:
    """Return the error in a form that the status may show."""
    if isinstance(error, asyncio.CancelledError):
        sentence = f"the pass was interrupted in step {step!r}"
        return Retry(sentence, reason=Reason.PASS_INTERRUPTED)
    return as_stoker_error(error)
