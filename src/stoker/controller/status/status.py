"""The status of a resource, out of what the steps of a pass found.

Pure: the same findings give the same status, and one that is equal to what the
server has is not written.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import msgspec

from stoker.api.spec.status import SyncStatus
from stoker.controller.bidirectional.step import accepted_in, is_on
from stoker.controller.context import ReconcileContext, known
from stoker.controller.owned.metadata import rollback_request
from stoker.controller.rollout.approval import ahead
from stoker.controller.spec.effective_ref import why_followed
from stoker.controller.status import gateway_conditions
from stoker.controller.status.gateway_conditions import ConditionVerdict
from stoker.controller.status.gateways import gateway_statuses, last_sync, rollback_outcome
from stoker.controller.status.webhook_condition import standing
from stoker.domain.clock import Clock
from stoker.domain.errors import StokerError, Wait
from stoker.domain.intent.source import GitAuthKind, SourceIntent
from stoker.domain.reasons import ConditionType, Reason
from stoker.git.auth.ssh import UNVERIFIED
from stoker.kube.client.errors import AlreadyExists, Conflict
from stoker.kube.leader.fencing import LeadershipLost
from stoker.kube.runtime.conditions import (
    ConditionStamp,
    StatusConditions,
    fail,
    find,
    progress,
    put,
    remove,
    settle,
    succeed,
)
from stoker.kube.runtime.steps import StepsOutcome

# Somebody was quicker; that says nothing about the resource, and the next pass is a moment away.
_PASSING = (Conflict, AlreadyExists, LeadershipLost)


@dataclass(frozen=True, slots=True)
class ReceiverState:
    """The receiver, as far as a resource's condition depends on it."""

    port: int | None = None
    operator_key: bool = False


class StatusSummarizer:
    """Makes statuses; the clock is for transition times."""

    def __init__(self, clock: Clock, listener: ReceiverState | None = None) -> None:
        """Without a listener nothing is said about webhooks."""
        self._clock = clock
        self._listener = listener

    def __call__(self, context: ReconcileContext, outcome: StepsOutcome) -> SyncStatus:
        before, error = context.status, outcome.error
        if isinstance(error, _PASSING):
            return before
        at = ConditionStamp(context.kept.header.metadata.generation, self._clock.now())
        conditions = before.conditions or ()
        status = msgspec.structs.replace(before, observed_generation=at.generation)
        if context.understood is not None:
            status = msgspec.structs.replace(status, secret_names=context.understood.secret_names)
        if context.effective is not None:
            status = self._with_gateways(context, status)
            for verdict in self._verdicts(context):
                conditions = _given(conditions, verdict, at)
        conditions = _repository(context, error, conditions, at)
        return msgspec.structs.replace(status, conditions=_ready(context, error, conditions, at))

    def _with_gateways(self, context: ReconcileContext, status: SyncStatus) -> SyncStatus:
        effective, what = known(context.effective), context.what
        gateways = gateway_statuses(
            context.fleet.gateways, context.key.object.namespace, accepted_in(context)
        )
        asked = rollback_request(known(context.understood).intent.rollback)
        status = msgspec.structs.replace(
            status,
            requested_ref=effective.recorded,
            discovered_gateways=gateways or None,
            last_sync_time=last_sync(gateways) or status.last_sync_time,
            rollback=rollback_outcome(asked, context.fleet.gateways),
            repo_clone_status=_reached(context) or status.repo_clone_status,
        )
        if what is None:
            return status
        status = msgspec.structs.replace(
            status, release=context.release.progress, approval=context.release.approval
        )
        if what.commit is None:
            return status
        return msgspec.structs.replace(status, last_sync_ref=str(what.ref), last_sync_commit=str(what.commit))

    def _verdicts(self, context: ReconcileContext) -> Iterator[ConditionVerdict]:
        fleet, what = context.fleet, context.what
        yield gateway_conditions.all_synced(
            fleet, wanted_commit(context), what.triggered_at if what is not None else "", context.release
        )
        yield gateway_conditions.agents(fleet)
        yield gateway_conditions.injected(fleet, context.outdated)
        yield gateway_conditions.skew(
            fleet, str(what.ref) if what is not None and what.commit is not None else ""
        )
        yield gateway_conditions.drift(fleet)
        yield gateway_conditions.verified(fleet)
        given = known(context.understood).intent.requests.approval
        yield gateway_conditions.pending(
            fleet, context.release, ahead(given, context.status, self._clock.now())
        )
        yield gateway_conditions.dependencies(context.release)
        yield gateway_conditions.canary(context.release)
        intent = known(context.understood).intent
        yield gateway_conditions.taken_back(fleet, on=bool(intent.deployment.auto_rollback))
        if context.accepted is not None:
            yield gateway_conditions.way_back(context.fleet, context.accepted, on=is_on(context))
            yield gateway_conditions.conflicts(context.accepted, on=is_on(context))
        if self._listener is not None:
            listener, receiver = self._listener, known(context.understood).intent.receiver
            said = standing(
                receiver, port=listener.port, operator_key=listener.operator_key, missing=context.missing
            )
            yield ConditionVerdict(ConditionType.WEBHOOK_READY, said.ready, said.reason, said.message)


def _reached(context: ReconcileContext) -> Literal["Cloning", "Cloned", "Error"] | None:
    """The papers' word for a repository that was reached (C-023); None while it is paused."""
    if context.paused_by:
        return None
    if context.answer is None:
        return "Cloning"
    return "Error" if context.answer.error is not None else "Cloned"


def wanted_commit(context: ReconcileContext) -> str:
    """Where the gateways shall be; a request to go back comes before all else."""
    if context.understood is not None and context.understood.intent.rollback.to_commit is not None:
        return str(context.understood.intent.rollback.to_commit)
    return str(context.what.commit or "") if context.what is not None else ""


def _given(conditions: StatusConditions, verdict: ConditionVerdict, at: ConditionStamp) -> StatusConditions:
    if verdict.status is None:
        return remove(conditions, verdict.type)
    return put(conditions, verdict.type, verdict.status, verdict.reason, verdict.message, at=at)


def _repository(
    context: ReconcileContext, error: StokerError | None, conditions: StatusConditions, at: ConditionStamp
) -> StatusConditions:
    """Only the repository's own answer speaks here, or whatever kept it from being asked."""
    cloned, answer = ConditionType.REPO_CLONED, context.answer
    if answer is not None and answer.commit is not None and context.effective is not None:
        message = f"ref {context.effective.ref} is at {answer.commit.short}"
        why = why_followed(context.effective.recorded)
        message = f"{message}, {why}" if why else message
        return put(conditions, cloned, True, Reason.REF_RESOLVED, message, at=at)
    if answer is not None and answer.error is not None:
        return put(conditions, cloned, False, answer.error.reason, answer.error.message, at=at)
    if error is not None and context.effective is None and find(conditions, cloned) is None:
        return put(conditions, cloned, False, error.reason, error.message, at=at)
    if isinstance(error, Wait) and error.reason is Reason.REF_RESOLVING:
        return put(conditions, cloned, False, error.reason, error.message, at=at)
    return conditions


def _ready(
    context: ReconcileContext, error: StokerError | None, conditions: StatusConditions, at: ConditionStamp
) -> StatusConditions:
    if context.paused_by and (error is None or error.reason is Reason.REF_RESOLVING):
        message = f"{context.paused_by}: the ref is not followed and nothing is synced"
        return settle(conditions, False, Reason.PAUSED, message, at=at)
    if error is not None:
        return fail(conditions, error, at=at)
    injected = find(conditions, ConditionType.SIDECAR_INJECTED)
    if injected is not None and injected.status == "False":
        return settle(conditions, False, Reason.SIDECAR_MISSING, injected.message, at=at)
    synced = find(conditions, ConditionType.ALL_GATEWAYS_SYNCED)
    if synced is not None and synced.status == "False":
        own = synced.reason in (Reason.SYNC_FAILED, Reason.PENDING_APPROVAL)
        reason = Reason(synced.reason) if own else Reason.GATEWAYS_SYNCING
        conditions = progress(conditions, reason, synced.message, at=at)
        return put(conditions, ConditionType.READY, False, reason, synced.message, at=at)
    reason = Reason.GATEWAYS_SYNCED if context.fleet.gateways else Reason.REF_RESOLVED
    return succeed(conditions, reason, _ready_message(context), at=at)


def _ready_message(context: ReconcileContext) -> str:
    what = context.what
    commit = what.commit.short if what is not None and what.commit is not None else "an unknown commit"
    count = len(context.fleet.gateways)
    parts = [
        f"{count} of {count} gateways synced, the ref is at {commit}" if count else f"the ref is at {commit}"
    ]
    if context.understood is not None:
        if context.understood.idle_fields:
            parts.append(f"without effect in this version: {', '.join(context.understood.idle_fields)}")
        if _believes_any_server(context.understood.intent.source):
            parts.append(UNVERIFIED)
    return "; ".join(parts)


def _believes_any_server(source: SourceIntent) -> bool:
    return source.auth.kind is GitAuthKind.SSH and source.auth.known_hosts is None
