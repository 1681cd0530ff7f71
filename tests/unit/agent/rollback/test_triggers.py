"""The failures of a gateway that trigger a rollback."""

from __future__ import annotations

import pytest

from stoker.agent.rollback.triggers import RollbackCause, triggered_failure
from stoker.domain.intent.delivery import RollbackTrigger
from stoker.domain.reasons import Reason
from stoker.ignition.sync.verify import GatewayFailure

ALL = tuple(RollbackTrigger)


@pytest.mark.parametrize(
    ("kind", "trigger", "reason"),
    [
        (GatewayFailure.SCAN, RollbackTrigger.SCAN_FAILURE, Reason.SCAN_FAILURE_AUTO_ROLLBACK),
        (GatewayFailure.PROJECT, RollbackTrigger.PROJECT_LOAD_ERROR, Reason.AUTO_ROLLBACK),
        (GatewayFailure.CONFIG, RollbackTrigger.CONFIG_ERROR, Reason.AUTO_ROLLBACK),
    ],
)
def test_a_failure_counts_only_by_its_own_trigger(
    kind: GatewayFailure, trigger: RollbackTrigger, reason: Reason
) -> None:
    failures = {"p": (kind, "why")}
    assert triggered_failure(failures, [trigger], ()) == RollbackCause(reason, "p", "why")
    assert triggered_failure(failures, [other for other in ALL if other is not trigger], ()) is None


def test_what_failed_before_is_not_to_blame_and_the_first_by_name_is() -> None:
    failures = {name: (GatewayFailure.PROJECT, f"why {name}") for name in ("c", "b", "a")}
    assert triggered_failure(failures, ALL, ("a",)) == RollbackCause(Reason.AUTO_ROLLBACK, "b", "why b")
    assert triggered_failure(failures, ALL, ("a", "b", "c")) is None
    assert triggered_failure({}, ALL, ()) is None
