"""Decides what the outcome of a reconcile means for its key; no other module decides that.

    ReconcileResult()         done        back when something changes
    ReconcileResult(after=…)  again       back after that time
    Wait                      wait        back after the time that it names; nothing is wrong
    Stalled                   stalled     back when something changes, or at a slow recheck
    Retry                     retry       back with growing backoff
    anything else             error       the same, with a traceback in the log

Errors carry their consequence (`stoker.domain.errors`), so this module knows nothing about status codes, git
or gateways. Pure functions; `stoker.kube.runtime.controller` acts on the decision.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from stoker.domain.errors import Retry, Stalled, StokerError, Wait


@dataclass(frozen=True, slots=True)
class ReconcileResult:
    """The result of a successful reconcile: requeue after so many seconds, or only on a change."""

    after: float | None = None


class Consequence(StrEnum):
    """The outcome of a reconcile, later members are more urgent; the label of its metric."""

    DONE = "done"
    AGAIN = "again"
    STALLED = "stalled"
    WAIT = "wait"
    RETRY = "retry"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class RequeueDecision:
    """The decision about a key. `after` is when to requeue it or, after a failure, the earliest time."""

    consequence: Consequence
    after: float | None = None

    @property
    def failed(self) -> bool:
        return self.consequence in {Consequence.RETRY, Consequence.ERROR}


def verdict_for(ended: ReconcileResult | StokerError) -> RequeueDecision:
    """Return the decision for a reconcile that returned a result or raised an error."""
    match ended:
        case ReconcileResult(after=None):
            return RequeueDecision(Consequence.DONE)
        case ReconcileResult(after=after):
            return RequeueDecision(Consequence.AGAIN, after)
        case Stalled():
            return RequeueDecision(Consequence.STALLED)
        case Wait():
            return RequeueDecision(Consequence.WAIT, ended.after)
        case Retry():
            return RequeueDecision(Consequence.RETRY, ended.after)
        case _:
            return RequeueDecision(Consequence.ERROR)


def as_stoker_error(error: BaseException) -> StokerError:
    """Convert any exception to a `StokerError`; of an exception group, take the most urgent.

    The text of a foreign exception is not repeated, because it may contain secrets.
    """
    if isinstance(error, BaseExceptionGroup):
        urgency = list(Consequence).index
        return max(
            map(as_stoker_error, error.exceptions), key=lambda each: urgency(verdict_for(each).consequence)
        )
    if isinstance(error, StokerError):
        return error
    unforeseen = StokerError(f"an unforeseen {type(error).__name__}; the log has its traceback")
    unforeseen.__cause__ = error
    return unforeseen
