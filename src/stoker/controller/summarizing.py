"""The status of a resource, out of what the steps of a pass found.

Pure: the same findings give the same status, and one that is equal to what the
server has is not written.
"""

from __future__ import annotations

import msgspec

from stoker.api.blocks.status import SyncStatus
from stoker.controller.passing import Context
from stoker.domain.clock import Clock
from stoker.domain.errors import StokerError
from stoker.domain.intent.source import AuthKind, Source
from stoker.domain.reasons import ConditionType, Reason
from stoker.git.ssh import UNVERIFIED
from stoker.kube.conditions import Conditions, Moment, fail, put, settle, succeed
from stoker.kube.stepping import Outcome


class Summarizer:
    """Makes statuses; the clock is for transition times."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def __call__(self, context: Context, outcome: Outcome) -> SyncStatus:
        at = Moment(context.kept.header.metadata.generation, self._clock.now())
        before = context.status
        status = msgspec.structs.replace(
            before,
            observed_generation=at.generation,
            conditions=_conditions(context, outcome.error, before.conditions or (), at),
        )
        if context.intent is None or context.commit is None:
            return status
        return msgspec.structs.replace(
            status,
            repo_clone_status="Cloned",
            last_sync_ref=str(context.intent.source.ref),
            last_sync_commit=str(context.commit),
        )


def _conditions(
    context: Context, error: StokerError | None, conditions: Conditions, at: Moment
) -> Conditions:
    cloned = ConditionType.REPO_CLONED
    if context.intent is not None and context.commit is not None:
        message = f"ref {context.intent.source.ref} is at {context.commit.short}"
        conditions = put(conditions, cloned, True, Reason.REF_RESOLVED, message, at=at)
    elif error is not None:
        conditions = put(conditions, cloned, False, error.reason, error.message, at=at)
    if error is not None:
        return fail(conditions, error, at=at)
    if context.intent is not None and context.intent.paused:
        message = "spec.paused is true: the ref is not followed"
        return settle(conditions, False, Reason.PAUSED, message, at=at)
    return succeed(conditions, Reason.REF_RESOLVED, _ready_message(context), at=at)


def _ready_message(context: Context) -> str:
    parts = [f"the ref is at {context.commit.short if context.commit else 'an unknown commit'}"]
    if context.idle_fields:
        parts.append(f"without effect in this version: {', '.join(context.idle_fields)}")
    if context.intent is not None and _believes_any_server(context.intent.source):
        parts.append(UNVERIFIED)
    return "; ".join(parts)


def _believes_any_server(source: Source) -> bool:
    return source.auth.kind is AuthKind.SSH and source.auth.known_hosts is None
