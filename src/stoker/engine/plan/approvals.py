"""Decides which approvals of plans are still valid: each approval counts once.

The ledger stores an approval together with the files that its plan changed, in one write, so a killed
process leaves both or neither. Before the first change the ledger records the approval as begun. An
interrupted plan still has its approval; once any later sync is settled, that approval is used.

An approval that the user withdraws is removed from the ledger, so that the user can give it again.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Protocol

from stoker.domain.errors import Stalled
from stoker.domain.intent.annotation_requests import PlanApproval
from stoker.engine.plan.guards import HeldPlan
from stoker.engine.plan.ledger import Ledger
from stoker.engine.plan.plan import SyncPlan


class ApprovalRecord(Protocol):
    """Stores the used approvals: the ledger those of syncs, the capture state those of sent deletions."""

    @property
    def approvals_used(self) -> frozenset[str]: ...


def unused(given: Collection[PlanApproval], record: ApprovalRecord | None) -> frozenset[str]:
    """Return the digests of the plans whose approval was not used yet."""
    used = record.approvals_used if record is not None else frozenset()
    return frozenset(approval.digest for approval in given if approval.text not in used)


def using(
    plan: SyncPlan, given: Collection[PlanApproval], ledger: Ledger | None, digest: str | None = None
) -> SyncPlan:
    """Return the plan with all approvals that are used once it is settled.

    `digest` is that of the released plan.
    """
    before = ledger.approvals_used | ledger.approvals_begun if ledger is not None else frozenset()
    now = {approval.text for approval in given if approval.given and approval.digest == digest}
    return replace(plan, facts=replace(plan.facts, approvals_used=before | now))


def named_as_used(stalled: Stalled | None, given: Collection[PlanApproval]) -> Stalled | None:
    """Add to the reason for which a plan is held that its earlier approval was already used."""
    if not isinstance(stalled, HeldPlan) or stalled.plan.digest not in {one.digest for one in given}:
        return stalled
    used = "its approval was used for an earlier sync and counts once: withdraw it, then approve again"
    return HeldPlan(stalled.plan, f"{stalled.message}; {used}", stalled.reason)


def withdrawn(given: Collection[PlanApproval], ledger: Ledger | None) -> frozenset[str]:
    """Return used approvals that the user has withdrawn.

    Returns none if an approval was given to this process for its next sync alone (`given` is empty): the
    process then does not know the stored approvals of the user.
    """
    if ledger is None or any(not approval.given for approval in given):
        return frozenset()
    return (ledger.approvals_used | ledger.approvals_begun) - {approval.text for approval in given}
