"""Decides whether a gateway fails because of a change, by `deployment.autoRollback.triggers`. No I/O.

A gateway that is down, starting, or refuses the agent's key does not prove that the files are bad, and
neither does a failure that existed before the change (`stoker.ignition.sync.finish_pending` distinguishes
them).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from stoker.domain.intent.delivery import RollbackTrigger
from stoker.domain.reasons import Reason
from stoker.ignition.sync.verify import GatewayFailure

_TRIGGERS = {
    GatewayFailure.SCAN: RollbackTrigger.SCAN_FAILURE,
    GatewayFailure.PROJECT: RollbackTrigger.PROJECT_LOAD_ERROR,
    GatewayFailure.CONFIG: RollbackTrigger.CONFIG_ERROR,
}


class RollbackCause(NamedTuple):
    """Why a change is rolled back."""

    reason: Reason
    place: str
    why: str


def triggered_failure(
    failures: Mapping[str, tuple[GatewayFailure, str]],
    triggers: Collection[RollbackTrigger],
    failing_before: Collection[str],
) -> RollbackCause | None:
    """Return the first failure that a trigger names and that did not exist before the change."""
    for place, (kind, why) in sorted(failures.items()):
        if _TRIGGERS[kind] in triggers and place not in failing_before:
            scan = kind is GatewayFailure.SCAN
            return RollbackCause(
                Reason.SCAN_FAILURE_AUTO_ROLLBACK if scan else Reason.AUTO_ROLLBACK, place, why
            )
    return None
