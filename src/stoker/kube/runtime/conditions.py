"""Status conditions, as pure functions from the old tuple to the new one.

The function that summarizes a reconcile calls these and compares the result with the server's status.
Repeating a call gives an equal tuple, so nothing is written when nothing changed. `lastTransitionTime`
changes only when the status changes, never because of a reason, a message or the observed generation.

Everyone who may read the object sees conditions, so messages are redacted and truncated. Nothing here knows
a kind of object or calls a server.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias

from stoker.api.meta import Condition, ConditionStatus
from stoker.domain.clock import rfc3339
from stoker.domain.errors import InvalidValue, Stalled, StokerError
from stoker.domain.reasons import ConditionType, Reason
from stoker.domain.text import one_line
from stoker.telemetry.redaction import redact_text

MAX_MESSAGE_LENGTH = 1024  # the API allows 32,768, which is too long to read

StatusConditions: TypeAlias = tuple[Condition, ...]

_WORD = re.compile(r"[A-Z][A-Za-z0-9]{0,99}")
_STATUS: dict[bool | None, ConditionStatus] = {True: "True", False: "False", None: "Unknown"}


@dataclass(frozen=True, slots=True)
class ConditionStamp:
    """What a reconcile writes into its conditions: the observed generation, and the time."""

    generation: int
    now: datetime


def find_condition(conditions: StatusConditions, kind: ConditionType) -> Condition | None:
    return next((each for each in conditions if each.type == kind), None)


def set_condition(
    conditions: StatusConditions,
    kind: ConditionType,
    status: bool | None,
    reason: str,
    message: str,
    *,
    at: ConditionStamp,
) -> StatusConditions:
    """Set one condition (None is Unknown); it keeps its position, and Ready is first."""
    if not _WORD.fullmatch(reason):
        raise InvalidValue(f"the reason {reason[:100]!r} of condition {kind} is not one CamelCase word")
    before = find_condition(conditions, kind)
    said = _STATUS[status]
    unmoved = before is not None and before.status == said
    after = Condition(
        type=str(kind),
        status=said,
        reason=str(reason),
        message=condition_message(message),
        last_transition_time=before.last_transition_time if before and unmoved else rfc3339(at.now),
        observed_generation=at.generation,
    )
    if before is None:
        return _ready_first((*conditions, after))
    return _ready_first(tuple(after if each.type == kind else each for each in conditions))


def remove_conditions(conditions: StatusConditions, *kinds: ConditionType) -> StatusConditions:
    return tuple(each for each in conditions if each.type not in kinds)


def mark_ready(
    conditions: StatusConditions, reason: Reason, message: str, *, at: ConditionStamp
) -> StatusConditions:
    """Set Ready to True, and remove Stalled and Reconciling."""
    return mark_settled(conditions, True, reason, message, at=at)


def mark_settled(
    conditions: StatusConditions, ready: bool, reason: Reason, message: str, *, at: ConditionStamp
) -> StatusConditions:
    """Set Ready, and remove Stalled and Reconciling: nothing is in progress, and no user has to act."""
    rest = remove_conditions(conditions, ConditionType.STALLED, ConditionType.RECONCILING)
    return set_condition(rest, ConditionType.READY, ready, reason, message, at=at)


def mark_failed(conditions: StatusConditions, error: StokerError, *, at: ConditionStamp) -> StatusConditions:
    """Set Ready to False for the error; its class decides whether a user must act (Stalled) or not."""
    rest = set_condition(conditions, ConditionType.READY, False, error.reason, error.message, at=at)
    if isinstance(error, Stalled):
        return mark_stalled(rest, error.reason, error.message, at=at)
    return mark_progressing(rest, error.reason, error.message, at=at)


def mark_stalled(
    conditions: StatusConditions, reason: str, message: str, *, at: ConditionStamp
) -> StatusConditions:
    """Set Stalled: no progress until a user acts. Tools that use kstatus show it as failed."""
    rest = remove_conditions(conditions, ConditionType.RECONCILING)
    return set_condition(rest, ConditionType.STALLED, True, reason, message, at=at)


def mark_progressing(
    conditions: StatusConditions, reason: str, message: str, *, at: ConditionStamp
) -> StatusConditions:
    """Set Reconciling: in progress, or retried without a user.

    Tools that use kstatus show it as in progress.
    """
    rest = remove_conditions(conditions, ConditionType.STALLED)
    return set_condition(rest, ConditionType.RECONCILING, True, reason, message, at=at)


def condition_message(text: str) -> str:
    """Return a message that may leave the process: one line, without credentials, truncated."""
    return one_line(redact_text(text), MAX_MESSAGE_LENGTH)


def _ready_first(conditions: StatusConditions) -> StatusConditions:
    return tuple(sorted(conditions, key=lambda each: each.type != ConditionType.READY))
