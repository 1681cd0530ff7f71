"""Conditions of an object's status, as pure functions from the old tuple to the new one.

The summarizer of a pass calls these and compares what comes out with what the
server has: doing the same again gives an equal tuple, so that nothing is written
when nothing changed. The transition time is honest: it moves when the status
moves, never because a reason, a message or the observed generation did.

What goes in here is seen by everybody who may read the object: messages pass
the redaction and are cut. Nothing here knows a kind of object or talks to a server.
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
from stoker.kube.client.errors import one_line
from stoker.telemetry.redaction import redact_text

MAX_MESSAGE_LENGTH = 1024  # the API takes 32,768; people do not

StatusConditions: TypeAlias = tuple[Condition, ...]

_WORD = re.compile(r"[A-Z][A-Za-z0-9]{0,99}")
_STATUS: dict[bool | None, ConditionStatus] = {True: "True", False: "False", None: "Unknown"}


@dataclass(frozen=True, slots=True)
class ConditionStamp:
    """What a pass stamps on its conditions: the generation it looked at, and when."""

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
    """Set one condition (none is Unknown); it keeps its place, and Ready stands first."""
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
    """Ready, and so neither stalled nor on the way."""
    return mark_settled(conditions, True, reason, message, at=at)


def mark_settled(
    conditions: StatusConditions, ready: bool, reason: Reason, message: str, *, at: ConditionStamp
) -> StatusConditions:
    """Things stand where they are meant to, ready or not: nobody has to act, nothing goes on."""
    rest = remove_conditions(conditions, ConditionType.STALLED, ConditionType.RECONCILING)
    return set_condition(rest, ConditionType.READY, ready, reason, message, at=at)


def mark_failed(conditions: StatusConditions, error: StokerError, *, at: ConditionStamp) -> StatusConditions:
    """Not ready, for the error's reason, which also says whether a human must act (C-139)."""
    rest = set_condition(conditions, ConditionType.READY, False, error.reason, error.message, at=at)
    if isinstance(error, Stalled):
        return mark_stalled(rest, error.reason, error.message, at=at)
    return mark_progressing(rest, error.reason, error.message, at=at)


def mark_stalled(
    conditions: StatusConditions, reason: str, message: str, *, at: ConditionStamp
) -> StatusConditions:
    """Nothing goes on until a human acts: what tools that know kstatus call failed."""
    rest = remove_conditions(conditions, ConditionType.RECONCILING)
    return set_condition(rest, ConditionType.STALLED, True, reason, message, at=at)


def mark_progressing(
    conditions: StatusConditions, reason: str, message: str, *, at: ConditionStamp
) -> StatusConditions:
    """It is on its way, or tried again by itself: what tools that know kstatus call in progress."""
    rest = remove_conditions(conditions, ConditionType.STALLED)
    return set_condition(rest, ConditionType.RECONCILING, True, reason, message, at=at)


def condition_message(text: str) -> str:
    """A message as it may leave the process: one line, without credentials, not too long."""
    return one_line(redact_text(text), MAX_MESSAGE_LENGTH)


def _ready_first(conditions: StatusConditions) -> StatusConditions:
    return tuple(sorted(conditions, key=lambda each: each.type != ConditionType.READY))
