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

LONGEST_MESSAGE = 1024  # the API takes 32,768; people do not

StatusConditions: TypeAlias = tuple[Condition, ...]

_WORD = re.compile(r"[A-Z][A-Za-z0-9]{0,99}")
_STATUS: dict[bool | None, ConditionStatus] = {True: "True", False: "False", None: "Unknown"}


@dataclass(frozen=True, slots=True)
class ConditionStamp:
    """What a pass stamps on its conditions: the generation it looked at, and when."""

    generation: int
    now: datetime


def find(conditions: StatusConditions, kind: ConditionType) -> Condition | None:
    return next((each for each in conditions if each.type == kind), None)


def put(
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
    before = find(conditions, kind)
    said = _STATUS[status]
    unmoved = before is not None and before.status == said
    after = Condition(
        type=str(kind),
        status=said,
        reason=str(reason),
        message=sentence(message),
        last_transition_time=before.last_transition_time if before and unmoved else rfc3339(at.now),
        observed_generation=at.generation,
    )
    if before is None:
        return _ready_first((*conditions, after))
    return _ready_first(tuple(after if each.type == kind else each for each in conditions))


def remove(conditions: StatusConditions, *kinds: ConditionType) -> StatusConditions:
    return tuple(each for each in conditions if each.type not in kinds)


def succeed(
    conditions: StatusConditions, reason: Reason, message: str, *, at: ConditionStamp
) -> StatusConditions:
    """Ready, and so neither stalled nor on the way."""
    return settle(conditions, True, reason, message, at=at)


def settle(
    conditions: StatusConditions, ready: bool, reason: Reason, message: str, *, at: ConditionStamp
) -> StatusConditions:
    """Things stand where they are meant to, ready or not: nobody has to act, nothing goes on."""
    rest = remove(conditions, ConditionType.STALLED, ConditionType.RECONCILING)
    return put(rest, ConditionType.READY, ready, reason, message, at=at)


def fail(conditions: StatusConditions, error: StokerError, *, at: ConditionStamp) -> StatusConditions:
    """Not ready, for the error's reason, which also says whether a human must act (C-139)."""
    rest = put(conditions, ConditionType.READY, False, error.reason, error.message, at=at)
    if isinstance(error, Stalled):
        return stall(rest, error.reason, error.message, at=at)
    return progress(rest, error.reason, error.message, at=at)


def stall(conditions: StatusConditions, reason: str, message: str, *, at: ConditionStamp) -> StatusConditions:
    """Nothing goes on until a human acts: what tools that know kstatus call failed."""
    rest = remove(conditions, ConditionType.RECONCILING)
    return put(rest, ConditionType.STALLED, True, reason, message, at=at)


def progress(
    conditions: StatusConditions, reason: str, message: str, *, at: ConditionStamp
) -> StatusConditions:
    """It is on its way, or tried again by itself: what tools that know kstatus call in progress."""
    rest = remove(conditions, ConditionType.STALLED)
    return put(rest, ConditionType.RECONCILING, True, reason, message, at=at)


def sentence(text: str) -> str:
    """A message as it may leave the process: one line, without credentials, not too long."""
    return one_line(redact_text(text), LONGEST_MESSAGE)


def _ready_first(conditions: StatusConditions) -> StatusConditions:
    return tuple(sorted(conditions, key=lambda each: each.type != ConditionType.READY))
