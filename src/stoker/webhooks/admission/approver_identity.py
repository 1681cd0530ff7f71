"""Nobody approves in another's name.

Whether a commit may go ahead is decided by the controller, which sees annotations and
not who wrote them. So an approval is checked while it is being written: `approved-by`
is the user that the API server knows, and where the resource names teams the user is
in one of them. What was approved cannot be changed by somebody else afterwards, the plan
least of all; anybody who may write the resource can take an approval away. Nothing is
approved beforehand: a time in the future is refused. A plan alone, without anybody who
approves, is the consent to one gateway's deletions; where changes take an approval, or teams
are named, it needs the same name and the same team as any approval.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime

from stoker.api.to_intent.annotation_requests import APPROVED_AT, APPROVED_BY, APPROVED_PLAN, APPROVED_REF
from stoker.domain.intent.annotation_requests import APPROVAL_CLOCK_TOLERANCE
from stoker.domain.intent.delivery import ApprovalPolicy

_PARTS = (APPROVED_BY, APPROVED_AT, APPROVED_REF, APPROVED_PLAN)


def changed_approval(before: Mapping[str, str], after: Mapping[str, str], group: str) -> dict[str, str]:
    """The approval as it would be, if it is other than before; empty if not, or if it is taken away.

    Without `approved-by` what is left of it is no approval: who removes that name, and changes nothing
    else, withdraws. Who takes away another part, as what it was limited to, makes another approval of it.
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
    """What speaks against an approval by this user; empty if nothing does."""
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
            return f"annotation {name} lies in the future ({approval[name][:40]}), and never counts"
    return ""


def _is_name(annotation: str) -> bool:
    return annotation.rpartition("/")[2] == APPROVED_BY


def _is_in_future(text: str, now: datetime) -> bool:
    """Whether a time is later than any clock explains; what is no time approves nothing anyway."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return False
    return moment.tzinfo is not None and moment > now + APPROVAL_CLOCK_TOLERANCE


def _approval_annotations(annotations: Mapping[str, str], group: str) -> dict[str, str]:
    """Its annotations, under the prefix of the kind and without one (C-125); an empty one is none."""
    names = [name for part in _PARTS for name in (f"{group}/{part}", part)]
    return {name: annotations[name].strip() for name in names if annotations.get(name, "").strip()}
