"""The result of a reconcile and its consequence: a table of sentences."""

from __future__ import annotations

import pytest

from stoker.domain.errors import InvalidValue, Misconfigured, Retry, Stalled, StokerError, Wait
from stoker.domain.reasons import Reason
from stoker.kube.client.errors import Conflict, NotFound, TooManyRequests
from stoker.kube.runtime.result import (
    Consequence,
    ReconcileResult,
    RequeueDecision,
    as_stoker_error,
    verdict_for,
)

NOT_FOUND = NotFound("get x: gone", status=404)
TOO_MANY = TooManyRequests("get x: busy", status=429, after=7.0)
CONFLICT = Conflict("replace x: changed", status=409)


@pytest.mark.parametrize(
    ("ended", "verdict"),
    [
        (ReconcileResult(), RequeueDecision(Consequence.DONE)),
        (ReconcileResult(after=60.0), RequeueDecision(Consequence.AGAIN, 60.0)),
        (Wait("cloning", after=5.0), RequeueDecision(Consequence.WAIT, 5.0)),
        (Stalled("no"), RequeueDecision(Consequence.STALLED)),
        (InvalidValue("no"), RequeueDecision(Consequence.STALLED)),
        (Misconfigured("no"), RequeueDecision(Consequence.STALLED)),
        (NOT_FOUND, RequeueDecision(Consequence.STALLED)),
        (Retry("later"), RequeueDecision(Consequence.RETRY)),
        (TOO_MANY, RequeueDecision(Consequence.RETRY, 7.0)),
        (CONFLICT, RequeueDecision(Consequence.RETRY)),
        (StokerError("neither"), RequeueDecision(Consequence.ERROR)),
    ],
)
def test_every_end_of_a_reconcile_has_one_consequence(
    ended: ReconcileResult | StokerError, verdict: RequeueDecision
) -> None:
    assert verdict_for(ended) == verdict


def test_of_several_errors_the_most_urgent_counts() -> None:
    stalled, wait, retry = Stalled("a"), Wait("b", after=1.0), Retry("c")
    assert as_stoker_error(ExceptionGroup("", [stalled, wait])) is wait
    assert as_stoker_error(ExceptionGroup("", [retry, ExceptionGroup("", [wait, stalled])])) is retry
    assert as_stoker_error(ExceptionGroup("", [stalled])) is stalled
    assert as_stoker_error(ExceptionGroup("", [retry, KeyError("x")])).reason is Reason.INTERNAL_ERROR


def test_the_text_of_a_foreign_exception_is_not_repeated() -> None:
    error = as_stoker_error(ValueError("token hunter2 is bad"))
    assert error.message == "an unforeseen ValueError; the log has its traceback"
    assert isinstance(error.__cause__, ValueError)
