"""Guards between a plan and its execution: each lets it pass or stalls with a reason.

They stand against accidents that look like intent: a folder that vanished from
the repository by a typo, and a change that would delete most of what is there.
"""

from __future__ import annotations

from stoker.domain.errors import Stalled
from stoker.domain.intent.files import DeletionPolicy
from stoker.domain.reasons import Reason
from stoker.engine.ledger import Ledger
from stoker.engine.mapping import Desired
from stoker.engine.plans import Plan


def check_sources(desired: Desired, ledger: Ledger | None) -> None:
    """A mapping that gave files before and gives none now changes nothing at all.

    Mappings are compared as they were written, templates unrendered: a variable
    with a typo must not look like a new mapping.
    """
    gone = sorted(desired.undelivered & ledger.mappings) if ledger is not None else []
    if gone:
        raise Stalled(
            f"mapping {gone[0]} gave files before and gives none at this commit; nothing was changed "
            "(remove the mapping if its files shall go)",
            reason=Reason.SOURCE_EMPTY,
        )
    if not desired.delivered and (ledger is None or ledger.files):
        raise Stalled(
            "the mappings give no file at this commit; nothing was changed", reason=Reason.SOURCE_EMPTY
        )


def left_behind(plan: Plan, desired: Desired, approved: str = "") -> Stalled | None:
    """Why files must not go from a destination that still has its mapping; None when the plan may go on.

    A source that was misspelt in a mapping makes another mapping of it, one that
    never gave files. Its destination tells what is at stake.
    """
    if not desired.missed or approved == plan.digest:
        return None
    for path in (delete.path for delete in plan.removals if not desired.managed.hold(delete.path)):
        for place, mapping in desired.missed.items():
            if path.is_below(place):
                return Stalled(
                    f"mapping {mapping} gives no file at this commit, and {path} with what else was "
                    f"delivered there would be deleted; approve plan {plan.digest} if that is meant",
                    reason=Reason.SOURCE_EMPTY,
                )
    return None


def over_budget(
    plan: Plan, ledger: Ledger | None, deletion: DeletionPolicy, approved: str = ""
) -> Stalled | None:
    """Why this plan needs a person who has seen exactly it; None when it may go on.

    Returned, not raised: a dry run shows the plan and says that it would stall.
    """
    files, total = len(plan.removals), len(ledger.files) if ledger is not None else 0
    if files <= deletion.budget_files or files * 100 <= deletion.budget_percent * total:
        return None
    if approved == plan.digest:
        return None
    return Stalled(
        f"{files} of {total} files would be deleted, more than {deletion.budget_files} and more than "
        f"{deletion.budget_percent} %; approve plan {plan.digest} if that is meant",
        reason=Reason.DELETION_BUDGET_EXCEEDED,
    )
