"""What the end of a pass means for its key: the one place that decides.

    Result()              done        back when something changes
    Result(after=…)       again       back after that time
    Wait                  wait        back after the time that it names; nothing is wrong
    Stalled               stalled     back when something changes, or for a slow look now and then
    Retry                 retry       back with growing pauses
    anything else         error       the same, with a traceback in the log

Errors carry their consequence (`stoker.domain.errors`), so there is nothing to
know here about status codes, git or gateways. Pure functions; the loop that
acts on a verdict is `stoker.kube.runtime.controller`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from stoker.domain.errors import Retry, Stalled, StokerError, Wait


@dataclass(frozen=True, slots=True)
class ReconcileResult:
    """What a pass that went well asks for: to come back after so many seconds, or not by itself."""

    after: float | None = None


class Consequence(StrEnum):
    """How a pass ended, the more urgent the later; the label of its metric."""

    DONE = "done"
    AGAIN = "again"
    STALLED = "stalled"
    WAIT = "wait"
    RETRY = "retry"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class RequeueDecision:
    """What a pass came to. `after` is when to come back or, where it failed, not to come back before."""

    consequence: Consequence
    after: float | None = None

    @property
    def failed(self) -> bool:
        return self.consequence in {Consequence.RETRY, Consequence.ERROR}


def verdict_for(ended: ReconcileResult | StokerError) -> RequeueDecision:
    """The verdict on a pass that returned a result or raised an error."""
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
    """The error as one of the tree; of several at once, the most urgent.

    The text of a foreign exception is not repeated: nobody checked it for secrets.
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
