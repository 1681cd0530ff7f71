"""Guards between a plan and its execution: each accepts the plan or returns why it stalls.

They stop accidents that look like intent: a folder that vanished from the repository, a destination that
was misspelt in a mapping or made wider, a change that deletes most of the files. The plan exists first, so
a person can read it and approve exactly that plan by its digest. `stoker.domain.deletion_guard` decides how
much may be deleted, as for every other deletion. Where the source delivers no file at all there is no plan
to read, and no approval releases it.
"""

from __future__ import annotations

from collections.abc import Collection

from stoker.domain.deletion_guard import (
    DeletionCandidate,
    DeletionCause,
    DeletionLimits,
    decide_deletions,
    deletions_digest,
)
from stoker.domain.errors import Stalled
from stoker.domain.intent.files import DeletionPolicy
from stoker.domain.paths import RelPath
from stoker.domain.reasons import Reason
from stoker.engine.layout.desired_files import ALL_PLACES, DesiredFiles, ManagedPaths
from stoker.engine.plan.ledger import Ledger
from stoker.engine.plan.mapping_changes import foreign_overwrites
from stoker.engine.plan.plan import SyncPlan

APPROVABLE_REASONS = frozenset(
    {
        Reason.DELETION_BUDGET_EXCEEDED,
        Reason.DESTINATION_UNMAPPED,
        Reason.DESTINATION_WIDENED,
        Reason.SOURCE_EMPTY,
    }
)
"""Reasons for a held plan that a person can approve; a gateway reports them with its pending plan."""
HOW_TO_APPROVE = "on the command line with --approve-plan, in the cluster with annotation approved-plan"


class HeldPlan(Stalled):
    """A plan that is applied once a person approves exactly this plan."""

    def __init__(self, plan: SyncPlan, message: str, reason: Reason) -> None:
        super().__init__(message, reason=reason)
        self.plan = plan


def plan_objection(
    plan: SyncPlan,
    desired: DesiredFiles,
    ledger: Ledger | None,
    deletion: DeletionPolicy,
    approved: Collection[str] = (),
) -> Stalled | None:
    """Return the first objection to a plan; None if it may be applied.

    `approved` are digests of plans. The objection is returned, not raised: a dry run shows the plan and
    reports that it would stall.
    """
    empty = empty_source_error(desired, ledger)
    if empty is not None:
        return empty
    if plan.digest in approved:
        return None
    return (
        vanished_source_error(plan, desired, ledger)
        or unasked_deletion_error(plan, desired)
        or held_overwrites(plan, desired, ledger)
        or held_deletions_error(plan, ledger, deletion, approved, desired.destinations)
    )


def stale_approval_error(plan: SyncPlan, approved: Collection[str]) -> Stalled | None:
    """Return an error if an approval given for this sync alone names another plan than the current one."""
    if plan.digest in approved:
        return None
    now = f"the plan is {plan.digest} now" if plan.needs_digest else "there is nothing to do now"
    return Stalled(
        f"the approved plan {min(approved, default='')} is not the plan that there is: {now}; "
        "nothing was changed",
        reason=Reason.APPROVAL_STALE,
    )


def empty_source_error(desired: DesiredFiles, ledger: Ledger | None) -> Stalled | None:
    """Return an error if no mapping delivers a file; nothing is changed, and no approval releases that."""
    if desired.delivered or (ledger is not None and not ledger.files):
        return None
    return Stalled(
        "the mappings give no file at this commit; nothing was changed", reason=Reason.SOURCE_EMPTY
    )


def vanished_source_error(plan: SyncPlan, desired: DesiredFiles, ledger: Ledger | None) -> HeldPlan | None:
    """Hold the plan if a mapping that delivered files before delivers none now.

    Either a folder was dropped, or its name is misspelt. Mappings are compared as the user wrote them,
    templates unrendered: a variable with a typo must not look like a new mapping.
    """
    gone = sorted(desired.undelivered & ledger.mappings) if ledger is not None else []
    if not gone:
        return None
    return HeldPlan(
        plan,
        f"mapping {gone[0]} gave files before and gives none at this commit; nothing was changed "
        f"({_approval_hint(plan)}, or remove the mapping)",
        reason=Reason.SOURCE_EMPTY,
    )


def unasked_deletion_error(plan: SyncPlan, desired: DesiredFiles) -> HeldPlan | None:
    """Hold the plan if it deletes files from a destination whose mapping delivers no file.

    A misspelt source makes the mapping look like a new one that never delivered files, so
    `vanished_source_error` does not detect it. The destination shows which files are at risk.
    """
    if not desired.missed:
        return None
    for path in (delete.path for delete in plan.removals if not desired.managed.hold(delete.path)):
        for place, mapping in desired.missed.items():
            if path.is_below(RelPath.known(place)):
                return HeldPlan(
                    plan,
                    f"mapping {mapping} gives no file at this commit, and {path} with what else was "
                    f"delivered there would be deleted; nothing was changed ({_approval_hint(plan)})",
                    reason=Reason.SOURCE_EMPTY,
                )
    return None


def held_overwrites(plan: SyncPlan, desired: DesiredFiles, ledger: Ledger | None) -> HeldPlan | None:
    """Hold the plan if a destination was made wider and files of others would be overwritten."""
    foreign = foreign_overwrites(plan, desired, ledger)
    if not foreign:
        return None
    first = foreign[0]
    named = str(first) if len(foreign) == 1 else f"{len(foreign)} files (first: {first})"
    also = f"; the plan also deletes {len(plan.removals)} files" if plan.removals else ""
    return HeldPlan(
        plan,
        f"a destination is wider than at the last sync, and {named} that others made would be overwritten: "
        f"approve plan {plan.digest} to overwrite{also}; nothing was changed ({HOW_TO_APPROVE})",
        reason=Reason.DESTINATION_WIDENED,
    )


def held_deletions_error(
    plan: SyncPlan,
    ledger: Ledger | None,
    deletion: DeletionPolicy,
    approved: Collection[str] = (),
    destinations: ManagedPaths = ALL_PLACES,
) -> HeldPlan | None:
    """Return why the deletion guard holds a plan.

    Files of others below a mirrored destination count like files that Stoker wrote.
    """
    ours = ledger.files if ledger is not None else {}
    earlier = ledger.unmapped if ledger is not None else frozenset()
    deletions = [
        DeletionCandidate(
            delete.path,
            DeletionCause.GONE
            if destinations.hold(delete.path)
            and not plan.abandoned.hold(delete.path)
            and delete.path not in earlier
            else DeletionCause.UNMAPPED,
            ours=delete.path in ours,
        )
        for delete in plan.removals
    ]
    limits = DeletionLimits(deletion.budget_files, deletion.budget_percent)
    given = plan.digest if plan.digest in approved else min(approved, default="")
    decision = decide_deletions(deletions, len(ours), limits, digest=plan.digest, approved=given)
    if not decision.hold:
        return None
    unmapped = any(each.cause is DeletionCause.UNMAPPED for each in decision.hold)
    return HeldPlan(
        plan,
        f"{decision.why}; nothing was changed ({HOW_TO_APPROVE})",
        reason=Reason.DESTINATION_UNMAPPED if unmapped else Reason.DELETION_BUDGET_EXCEEDED,
    )


def held_deletions_reason(
    paths: Collection[str], ledger: Ledger, deletion: DeletionPolicy, approved: Collection[str]
) -> str:
    """Return why deletions on a gateway are not sent to git without approval; empty where they are sent."""
    digest = deletions_digest(paths)
    limits = DeletionLimits(deletion.budget_files, deletion.budget_percent)
    given = digest if digest in approved else ""
    decision = decide_deletions(
        [DeletionCandidate(path) for path in sorted(paths)],
        len(ledger.files),
        limits,
        digest=digest,
        approved=given,
    )
    return f"deleted on the gateway: {decision.why} in git ({HOW_TO_APPROVE})" if decision.hold else ""


def _approval_hint(plan: SyncPlan) -> str:
    return f"approve plan {plan.digest} if that is meant"
