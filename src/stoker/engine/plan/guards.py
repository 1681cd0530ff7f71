"""Guards between a plan and its execution: each lets it pass or says why it stalls.

They stand against accidents that look like intent: a folder that vanished from the
repository by a typo, and a change that would delete most of what is there. The plan
is made first, so a person can look at what would happen and approve exactly that by
its digest. Only where there is nothing to look at, because the source gives nothing
at all, no approval helps.
"""

from __future__ import annotations

from collections.abc import Iterator

from stoker.domain.errors import Stalled
from stoker.domain.intent.files import DeletionPolicy
from stoker.domain.paths import RelPath
from stoker.domain.reasons import Reason
from stoker.engine.plan.ledger import Ledger
from stoker.engine.layout.desired_files import Desired
from stoker.engine.plan.plan import Plan


def why_stalled(
    plan: Plan, desired: Desired, ledger: Ledger | None, deletion: DeletionPolicy, approved: str = ""
) -> Stalled | None:
    """The first objection to a plan; None when it may be carried out.

    Returned, not raised: a dry run shows the plan and says that it would stall.
    """
    empty = nothing_given(desired, ledger)
    if empty is not None:
        return empty
    objection = next(_objections(plan, desired, ledger, deletion), None)
    if objection is None or (approved and approved == plan.digest):
        return None
    return objection


def _objections(
    plan: Plan, desired: Desired, ledger: Ledger | None, deletion: DeletionPolicy
) -> Iterator[Stalled]:
    for objection in (
        gone_source(plan, desired, ledger),
        left_behind(plan, desired),
        over_budget(plan, ledger, deletion),
    ):
        if objection is not None:
            yield objection


def nothing_given(desired: Desired, ledger: Ledger | None) -> Stalled | None:
    """An empty source changes nothing, whoever says otherwise."""
    if desired.delivered or (ledger is not None and not ledger.files):
        return None
    return Stalled(
        "the mappings give no file at this commit; nothing was changed", reason=Reason.SOURCE_EMPTY
    )


def gone_source(plan: Plan, desired: Desired, ledger: Ledger | None) -> Stalled | None:
    """A mapping that gave files before and gives none now: a folder was dropped, or its name is misspelt.

    Mappings are compared as they were written, templates unrendered: a variable
    with a typo must not look like a new mapping.
    """
    gone = sorted(desired.undelivered & ledger.mappings) if ledger is not None else []
    if not gone:
        return None
    return Stalled(
        f"mapping {gone[0]} gave files before and gives none at this commit; nothing was changed "
        f"({_approve(plan)}, or remove the mapping)",
        reason=Reason.SOURCE_EMPTY,
    )


def left_behind(plan: Plan, desired: Desired) -> Stalled | None:
    """Files must not go unasked from a destination that still has its mapping.

    A source that was misspelt in a mapping makes another mapping of it, one that
    never gave files. Its destination tells what is at stake.
    """
    if not desired.missed:
        return None
    for path in (delete.path for delete in plan.removals if not desired.managed.hold(delete.path)):
        for place, mapping in desired.missed.items():
            if path.is_below(RelPath.known(place)):
                return Stalled(
                    f"mapping {mapping} gives no file at this commit, and {path} with what else was "
                    f"delivered there would be deleted; nothing was changed ({_approve(plan)})",
                    reason=Reason.SOURCE_EMPTY,
                )
    return None


def over_budget(plan: Plan, ledger: Ledger | None, deletion: DeletionPolicy) -> Stalled | None:
    """More would go than anybody deletes in a day's work; what is not ours counts like what is."""
    files, total = len(plan.removals), len(ledger.files) if ledger is not None else 0
    if files <= deletion.budget_files or files * 100 <= deletion.budget_percent * total:
        return None
    return Stalled(
        f"{files} files would be deleted where we wrote {total}, more than {deletion.budget_files} and more "
        f"than {deletion.budget_percent} %; nothing was changed ({_approve(plan)})",
        reason=Reason.DELETION_BUDGET_EXCEEDED,
    )


def _approve(plan: Plan) -> str:
    return f"approve plan {plan.digest} if that is meant"
