"""Ensures that users approve only in their own name.

The controller decides whether a commit may go ahead, but it sees only annotations and not who wrote them.
Therefore an approval is checked when it is written: `approved-by` must be the user that the API server has
authenticated, and if the resource names teams, the user must be in one of them. No other user can change
an existing approval, least of all its plan; every user who may write the resource can withdraw it. An
approval in advance is refused: its time must not be in the future. A plan alone, without an approver, is
the consent to one gateway's deletions; if changes need an approval or teams are named, it needs the same
name and the same team as any approval.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime

from stoker.api.to_intent.annotations.annotation_requests import (
    APPROVED_AT,
    APPROVED_BY,
    APPROVED_PLAN,
    APPROVED_REF,
)
from stoker.domain.clock import rfc3339_or
from stoker.domain.intent.annotation_requests import APPROVAL_CLOCK_TOLERANCE
from stoker.domain.intent.delivery import ApprovalPolicy

_PARTS = (APPROVED_BY, APPROVED_AT, APPROVED_REF, APPROVED_PLAN)


def changed_approval(before: Mapping[str, str], after: Mapping[str, str], group: str) -> dict[str, str]:
    """Return the new approval if it differs from the old; empty if it does not, or if it is withdrawn.

    Without `approved-by`, the remaining annotations are no approval: removing only that name withdraws it.
    Removing another part, such as the plan it was limited to, makes it a different approval.
    """
    old, new = _approval_annotations(before, group), _approval_annotations(after, group)
    withdrawn = new.items() <= old.items() and not any(_is_name(name) for name in new)
    return new if new != old and not withdrawn else {}


def approval_rejection(
    approval: Mapping[str, str],
    group: str,
    user: str,
    groups: Collection[str],
    policy: ApprovalPolicy,
    now: datetime,
) -> str:
    """Return the reason against an approval by this user; empty if there is none."""
    teams = policy.teams
    names = [name for name in (f"{group}/{APPROVED_BY}", APPROVED_BY) if name in approval]
    if (
        not names
        and not policy.names_approvers
        and all(name.rpartition("/")[2] == APPROVED_PLAN for name in approval)
    ):
        return ""
    if not names:
        return f"an approval needs annotation {group}/{APPROVED_BY} with the name of who approves"
    for name in names:
        if approval[name] != user:
            return f"annotation {name} is {approval[name][:80]!r}, but it is {user[:80]!r} who writes it"
    if teams and not set(teams) & set(groups):
        return f"{user[:80]!r} is in none of the teams that may approve: {', '.join(sorted(teams))}"
    for name in (f"{group}/{APPROVED_AT}", APPROVED_AT):
        if name in approval and _is_in_future(approval[name], now):
            return f"annotation {name} is in the future ({approval[name][:40]}), and never counts"
    return ""


def _is_name(annotation: str) -> bool:
    return annotation.rpartition("/")[2] == APPROVED_BY


def _is_in_future(text: str, now: datetime) -> bool:
    """Return whether a time is later than clock skew explains; an invalid time approves nothing anyway."""
    moment = rfc3339_or(text, None)
    return moment is not None and moment > now + APPROVAL_CLOCK_TOLERANCE


def _approval_annotations(annotations: Mapping[str, str], group: str) -> dict[str, str]:
    """Return the approval's annotations, with the kind's prefix and without; empty values do not count."""
    names = [name for part in _PARTS for name in (f"{group}/{part}", part)]
    return {name: annotations[name].strip() for name in names if annotations.get(name, "").strip()}
