"""Makes the status of a resource from what the steps of a reconcile found. Pure.

The same findings give the same status, and a status equal to the server's is not written.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import msgspec

from stoker.api.spec.status import SyncStatus
from stoker.controller.bidirectional.step import accepted_changes, is_bidirectional
from stoker.controller.context import ReconcileContext, require_value
from stoker.controller.owned.metadata import build_rollback_request
from stoker.controller.rollout.approval import future_approval_message
from stoker.controller.spec.effective_ref import followed_ref_reason
from stoker.controller.status import gateway_conditions
from stoker.controller.status.gateway_conditions import ConditionVerdict
from stoker.controller.status.gateways import gateway_statuses, last_sync_time, rollback_outcome
from stoker.controller.status.webhook_condition import receiver_condition
from stoker.domain.clock import Clock
from stoker.domain.errors import StokerError, Wait
from stoker.domain.intent.source import GitAuthKind, SourceIntent
from stoker.domain.reasons import ConditionType, Reason
from stoker.git.auth.ssh import UNVERIFIED_HOST_WARNING
from stoker.kube.client.errors import AlreadyExists, Conflict
from stoker.kube.leader.fencing import LeadershipLost
from stoker.kube.runtime.conditions import (
    ConditionStamp,
    StatusConditions,
    find_condition,
    mark_failed,
    mark_progressing,
    mark_ready,
    mark_settled,
    remove_conditions,
    set_condition,
)
from stoker.kube.runtime.steps import StepsOutcome

# A concurrent write is no error of the resource, and the next reconcile follows at once.
_TRANSIENT_ERRORS = (Conflict, AlreadyExists, LeadershipLost)


@dataclass(frozen=True, slots=True)
class ReceiverState:
    """The parts of the receiver's state that the condition WebhookReady depends on."""

    port: int | None = None
    operator_key: bool = False


class StatusSummarizer:
    """Makes the status of a resource; the clock gives transition times."""

    def __init__(self, clock: Clock, listener: ReceiverState | None = None) -> None:
        """Without a listener there is no condition about webhooks."""
        self._clock = clock
        self._listener = listener

    def __call__(self, context: ReconcileContext, outcome: StepsOutcome) -> SyncStatus:
        before, error = context.status, outcome.error
        if isinstance(error, _TRANSIENT_ERRORS):
            return before
        at = ConditionStamp(context.kept.header.metadata.generation, self._clock.now())
        conditions = before.conditions or ()
        status = msgspec.structs.replace(before, observed_generation=at.generation)
        if context.understood is not None:
            status = msgspec.structs.replace(status, secret_names=context.understood.secret_names)
        if context.effective is not None:
            status = self._with_gateways(context, status)
            for verdict in self._verdicts(context):
                conditions = _add_verdict(conditions, verdict, at)
        conditions = _repository_condition(context, error, conditions, at)
        return msgspec.structs.replace(status, conditions=_ready_condition(context, error, conditions, at))

    def _with_gateways(self, context: ReconcileContext, status: SyncStatus) -> SyncStatus:
        effective, what = require_value(context.effective), context.what
        gateways = gateway_statuses(
            context.fleet.gateways, context.key.object.namespace, accepted_changes(context)
        )
        asked = build_rollback_request(require_value(context.understood).intent.rollback)
        status = msgspec.structs.replace(
            status,
            requested_ref=effective.recorded,
            discovered_gateways=gateways or None,
            last_sync_time=last_sync_time(gateways) or status.last_sync_time,
            rollback=rollback_outcome(asked, context.fleet.gateways),
            repo_clone_status=_repository_phase(context) or status.repo_clone_status,
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
        yield gateway_conditions.all_synced_verdict(
            fleet, wanted_commit(context), what.triggered_at if what is not None else "", context.release
        )
        yield gateway_conditions.agents_verdict(fleet)
        yield gateway_conditions.injection_verdict(fleet, context.outdated)
        yield gateway_conditions.ref_skew_verdict(
            fleet, str(what.ref) if what is not None and what.commit is not None else ""
        )
        yield gateway_conditions.drift_verdict(fleet)
        yield gateway_conditions.verification_verdict(fleet)
        given = require_value(context.understood).intent.requests.approval
        yield gateway_conditions.pending_verdict(
            fleet, context.release, future_approval_message(given, context.status, self._clock.now())
        )
        yield gateway_conditions.dependencies_verdict(context.release)
        yield gateway_conditions.canary_verdict(context.release)
        intent = require_value(context.understood).intent
        yield gateway_conditions.rolled_back_verdict(fleet, on=bool(intent.deployment.auto_rollback))
        if context.accepted is not None:
            yield gateway_conditions.bidirectional_verdict(
                context.fleet, context.accepted, on=is_bidirectional(context)
            )
            yield gateway_conditions.conflicts_verdict(context.accepted, on=is_bidirectional(context))
        if self._listener is not None:
            listener, receiver = self._listener, require_value(context.understood).intent.receiver
            said = receiver_condition(
                receiver, port=listener.port, operator_key=listener.operator_key, missing=context.missing
            )
            yield ConditionVerdict(ConditionType.WEBHOOK_READY, said.ready, said.reason, said.message)


def _repository_phase(context: ReconcileContext) -> Literal["Cloning", "Cloned", "Error"] | None:
    """The value of `repoCloneStatus`; None while the resource is paused."""
    if context.paused_by:
        return None
    if context.answer is None:
        return "Cloning"
    return "Error" if context.answer.error is not None else "Cloned"


def wanted_commit(context: ReconcileContext) -> str:
    """The commit that gateways should have; a requested rollback takes precedence."""
    if context.understood is not None and context.understood.intent.rollback.to_commit is not None:
        return str(context.understood.intent.rollback.to_commit)
    return str(context.what.commit or "") if context.what is not None else ""


def _add_verdict(
    conditions: StatusConditions, verdict: ConditionVerdict, at: ConditionStamp
) -> StatusConditions:
    if verdict.status is None:
        return remove_conditions(conditions, verdict.type)
    return set_condition(conditions, verdict.type, verdict.status, verdict.reason, verdict.message, at=at)


def _repository_condition(
    context: ReconcileContext, error: StokerError | None, conditions: StatusConditions, at: ConditionStamp
) -> StatusConditions:
    """RepoCloned: the result of the ref lookup, or the error that prevented the lookup."""
    cloned, answer = ConditionType.REPO_CLONED, context.answer
    if answer is not None and answer.commit is not None and context.effective is not None:
        message = f"ref {context.effective.ref} is at {answer.commit.short}"
        why = followed_ref_reason(context.effective.recorded)
        message = f"{message}, {why}" if why else message
        return set_condition(conditions, cloned, True, Reason.REF_RESOLVED, message, at=at)
    if answer is not None and answer.error is not None:
        return set_condition(conditions, cloned, False, answer.error.reason, answer.error.message, at=at)
    if error is not None and context.effective is None and find_condition(conditions, cloned) is None:
        return set_condition(conditions, cloned, False, error.reason, error.message, at=at)
    if isinstance(error, Wait) and error.reason is Reason.REF_RESOLVING:
        return set_condition(conditions, cloned, False, error.reason, error.message, at=at)
    return conditions


def _ready_condition(
    context: ReconcileContext, error: StokerError | None, conditions: StatusConditions, at: ConditionStamp
) -> StatusConditions:
    if context.paused_by and (error is None or error.reason is Reason.REF_RESOLVING):
        message = f"{context.paused_by}: nothing is synced"
        return mark_settled(conditions, False, Reason.PAUSED, message, at=at)
    if error is not None:
        return mark_failed(conditions, error, at=at)
    injected = find_condition(conditions, ConditionType.SIDECAR_INJECTED)
    if injected is not None and injected.status == "False":
        return mark_settled(conditions, False, Reason.SIDECAR_MISSING, injected.message, at=at)
    synced = find_condition(conditions, ConditionType.ALL_GATEWAYS_SYNCED)
    if synced is not None and synced.status == "False":
        own = synced.reason in (Reason.SYNC_FAILED, Reason.PENDING_APPROVAL)
        reason = Reason(synced.reason) if own else Reason.GATEWAYS_SYNCING
        conditions = mark_progressing(conditions, reason, synced.message, at=at)
        return set_condition(conditions, ConditionType.READY, False, reason, synced.message, at=at)
    reason = Reason.GATEWAYS_SYNCED if context.fleet.gateways else Reason.REF_RESOLVED
    return mark_ready(conditions, reason, _ready_message(context), at=at)


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
        if _skips_tls_verification(context.understood.intent.source):
            parts.append(UNVERIFIED_HOST_WARNING)
    return "; ".join(parts)


def _skips_tls_verification(source: SourceIntent) -> bool:
    return source.auth.kind is GitAuthKind.SSH and source.auth.known_hosts is None
