"""Decides which Events a new status causes: only for what changed, never for what persists. Pure.

Agents write no Events themselves, so this module covers their reports too. Everything is derived from the
status before and the status after, which is written first: a controller that crashes in between loses an
Event, and no Event is emitted twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from stoker.api.meta import Condition
from stoker.api.spec.status import GatewayStatus, SyncStatus
from stoker.controller.context import ReconcileContext
from stoker.controller.rollout.approval import is_for_another_plan
from stoker.controller.spec.effective_ref import followed_ref_reason
from stoker.controller.status.metrics import has_rolled_back
from stoker.domain.reasons import ConditionType as Type
from stoker.domain.reasons import Reason
from stoker.kube.events.series import EventType
from stoker.kube.runtime.conditions import find_condition

WARNING, NORMAL = EventType.WARNING, EventType.NORMAL
_PATHS_NAMED = 5

_SUCCESS_REASONS = frozenset(
    {
        Reason.REF_RESOLVED,
        Reason.PAUSED,
        Reason.GATEWAYS_SYNCED,
        Reason.GATEWAYS_SYNCING,
        Reason.SYNC_FAILED,
        Reason.PENDING_APPROVAL,
    }
)
# Gateways or other conditions report these, or they end before a user could read them.
_SEPARATELY_REPORTED_REASONS = frozenset(
    {
        Reason.SYNC_FAILED,
        Reason.GATEWAYS_SYNCING,
        Reason.SIDECAR_MISSING,
        Reason.REF_RESOLVING,
        Reason.PENDING_APPROVAL,
    }
)


class StatusEvent(NamedTuple):
    type: EventType
    reason: Reason
    message: str
    gateway: str = ""
    """The gateway that it is about; empty if it is about the resource."""
    cause: str = ""
    """The gateway's own reason."""


# Conditions that cause an Event when they change to this status and reason.
_EVENT_TYPES: dict[tuple[Type, str, str], EventType] = {
    (Type.AGENT_READY, "False", Reason.AGENT_UNREACHABLE): WARNING,
    (Type.SIDECAR_INJECTED, "False", Reason.SIDECAR_MISSING): WARNING,
    (Type.SIDECAR_INJECTED, "True", Reason.SIDECAR_OUTDATED): WARNING,
    (Type.DRIFT_DETECTED, "True", Reason.GATEWAY_FILES_MODIFIED): WARNING,
    (Type.VERIFIED, "False", Reason.NOT_VERIFIED): WARNING,
    (Type.PENDING_APPROVAL, "True", Reason.PLAN_PENDING): NORMAL,
    (Type.PENDING_APPROVAL, "True", Reason.PENDING_APPROVAL): NORMAL,
    (Type.PENDING_APPROVAL, "False", Reason.APPROVED): NORMAL,
    (Type.PENDING_APPROVAL, "False", Reason.APPROVAL_IGNORED): WARNING,
    (Type.ALL_GATEWAYS_SYNCED, "False", Reason.SYNC_QUEUE_GROWING): WARNING,
    (Type.DEPENDENCIES_MET, "False", Reason.DEPENDENCY_WAITING): NORMAL,
    (Type.CONFLICT_DETECTED, "True", Reason.CONFLICT_DETECTED): WARNING,
    (Type.BIDIRECTIONAL_READY, "False", Reason.FORGE_REFUSED): WARNING,
    (Type.REF_SKEW, "True", Reason.REF_SKEW_DETECTED): WARNING,
}


def status_events(context: ReconcileContext, after: SyncStatus) -> Iterator[StatusEvent]:
    """Yield the Events for the change from the previous status to this status."""
    before = context.status
    yield from _generation_events(context, before, after)
    yield from _ref_request_events(before, after)
    yield from _commit_events(context, before, after)
    yield from _ready_events(before, after)
    yield from _condition_events(context, before, after)
    yield from _approval_events(before, after)
    yield from _gateway_events(before.discovered_gateways or (), after.discovered_gateways or ())
    yield from _release_completed_events(before, after)


def _generation_events(
    context: ReconcileContext, before: SyncStatus, after: SyncStatus
) -> Iterator[StatusEvent]:
    """Emit the notices of a generation once, when a reconcile of it first succeeds."""
    understood = context.understood
    same = before.observed_generation == after.observed_generation
    if understood is None or not _has_succeeded(after) or (same and _has_succeeded(before)):
        return
    for notice in understood.intent.notices:
        yield StatusEvent(WARNING, notice.reason, notice.message)
    if understood.idle_fields:
        message = f"without effect in this version: {', '.join(understood.idle_fields)}"
        yield StatusEvent(WARNING, Reason.FEATURE_NOT_RUNNING, message)


def _ref_request_events(before: SyncStatus, after: SyncStatus) -> Iterator[StatusEvent]:
    """The followed ref changed to a requested ref, or back to the spec's."""
    old, new = before.requested_ref, after.requested_ref
    if (old and old.ref) == (new and new.ref):
        return
    why = followed_ref_reason(new)
    if new is not None and why:
        yield StatusEvent(NORMAL, Reason.REF_REQUESTED, f"following ref {new.ref}, {why}")
    elif followed_ref_reason(old):
        yield StatusEvent(NORMAL, Reason.REF_REQUESTED, "following spec.git.ref again")


def _commit_events(context: ReconcileContext, before: SyncStatus, after: SyncStatus) -> Iterator[StatusEvent]:
    old, new = before.last_sync_commit, after.last_sync_commit
    if new is None or old == new:
        return
    if old is None:
        message = f"the repository was read: ref {after.last_sync_ref} is at {new[:8]}"
        yield StatusEvent(NORMAL, Reason.REPO_CLONED, message)
        return
    by = f", found by {context.what.trigger}" if context.what is not None and context.what.trigger else ""
    message = (
        f"the ref moved from {old[:8]} ({before.last_sync_ref}) to {new[:8]} ({after.last_sync_ref}){by}"
    )
    yield StatusEvent(NORMAL, Reason.REF_UPDATED, message)


def _ready_events(before: SyncStatus, after: SyncStatus) -> Iterator[StatusEvent]:
    """Emit each error once, when it begins."""
    old, new = _find_condition(before, Type.READY), _find_condition(after, Type.READY)
    if new is None or new.status != "False" or new.reason in _SEPARATELY_REPORTED_REASONS:
        return
    if old is None or (old.status, old.reason) != (new.status, new.reason):
        kind = NORMAL if new.reason == Reason.PAUSED else WARNING
        yield StatusEvent(kind, Reason(new.reason), new.message)


def _condition_events(
    context: ReconcileContext, before: SyncStatus, after: SyncStatus
) -> Iterator[StatusEvent]:
    for (type_, status, reason), kind in _EVENT_TYPES.items():
        old, new = _find_condition(before, type_), _find_condition(after, type_)
        if new is None or (new.status, new.reason) != (status, reason):
            continue
        if old is not None and (old.status, old.reason) == (status, reason):
            continue
        if type_ is Type.REF_SKEW and not any(one.override for one in context.fleet.gateways):
            continue  # the gateways are only syncing to a new ref
        yield StatusEvent(kind, Reason(reason), new.message)


def _approval_events(before: SyncStatus, after: SyncStatus) -> Iterator[StatusEvent]:
    """An approval for something else, or a withdrawn approval; a new request because a plan changed."""
    old, new = before.approval, after.approval
    if new is None:
        return
    if is_for_another_plan(new.message) and (old is None or old.message != new.message):
        yield StatusEvent(WARNING, Reason.APPROVAL_IGNORED, new.message or "")
        return
    same = old is not None and (old.commit, old.stage) == (new.commit, new.stage)
    if same and old is not None and old.state == "Approved" and new.state in ("Planning", "Pending"):
        message = f"the plan of commit {new.commit[:8]} is not the one that {old.approved_by} approved"
        yield StatusEvent(WARNING, Reason.APPROVAL_IGNORED, message)


def _gateway_events(
    before: tuple[GatewayStatus, ...], after: tuple[GatewayStatus, ...]
) -> Iterator[StatusEvent]:
    known = {one.pod_name: one for one in before}
    for new in after:
        old = known.get(new.pod_name)
        commit = new.synced_commit if new.sync_status == "Synced" else None
        if commit and (old is None or old.synced_commit != commit or old.sync_status == "Error"):
            message = f"Gateway {new.name} synced to {commit[:8]} ({new.files_changed or 0} files changed)"
            yield StatusEvent(NORMAL, Reason.SYNC_COMPLETED, message)
        yield from _pull_request_events(old, new)
        yield from _rollback_events(old, new)
        yield from _drift_restored_events(old, new)
        yield from _skipped_content_events(old, new)
        failed_before = old is not None and (old.sync_status, old.reason) == ("Error", new.reason)
        if new.sync_status == "Error" and not failed_before:
            why = new.error_message or new.reason or "the agent gives no reason"
            message = f"Gateway {new.name} sync failed: {why}"
            yield StatusEvent(WARNING, Reason.SYNC_FAILED, message, new.name, new.reason or "")


def _rollback_events(old: GatewayStatus | None, new: GatewayStatus) -> Iterator[StatusEvent]:
    """The agent rolled back to the previous commit."""
    now = new.quarantine
    if now is None or not has_rolled_back(old, new):
        return
    scan = now.reason == Reason.SCAN_FAILURE_AUTO_ROLLBACK
    reason = Reason.SCAN_FAILURE_AUTO_ROLLBACK if scan else Reason.AUTO_ROLLBACK
    message = f"Gateway {new.name} rolled commit {now.commit[:8]} back: {now.message or now.reason or reason}"
    yield StatusEvent(WARNING, reason, message, new.name)


def _drift_restored_events(old: GatewayStatus | None, new: GatewayStatus) -> Iterator[StatusEvent]:
    """The agent restored files that were changed on the gateway."""
    done = new.drift_restored
    if done is None or old is None or old.drift_restored == done:
        return
    named = ", ".join((done.paths or ())[:_PATHS_NAMED])
    message = f"Gateway {new.name} restored {done.files} files that were changed there: {named}"
    yield StatusEvent(WARNING, Reason.DRIFT_RESTORED, message, new.name)


def _skipped_content_events(old: GatewayStatus | None, new: GatewayStatus) -> Iterator[StatusEvent]:
    """Content that the gateway does not get, by name; repeated only if the content differs."""
    if not new.skipped or (
        old is not None and (old.skipped, old.skipped_total) == (new.skipped, new.skipped_total)
    ):
        return
    total = max(new.skipped_total or 0, len(new.skipped))
    more = f"; and {total - len(new.skipped)} more" if total > len(new.skipped) else ""
    message = f"Gateway {new.name} skipped {total} entries of the repository or its mappings: "
    yield StatusEvent(WARNING, Reason.CONTENT_SKIPPED, f"{message}{'; '.join(new.skipped)}{more}", new.name)


def _pull_request_events(old: GatewayStatus | None, new: GatewayStatus) -> Iterator[StatusEvent]:
    before = old.changes.pull_request if old is not None and old.changes is not None else None
    now = new.changes.pull_request if new.changes is not None else None
    if now and now != before:
        yield StatusEvent(NORMAL, Reason.PR_CREATED, f"Gateway {new.name}: pull request {now} was opened")


def _release_completed_events(before: SyncStatus, after: SyncStatus) -> Iterator[StatusEvent]:
    old, new = (_find_condition(one, Type.ALL_GATEWAYS_SYNCED) for one in (before, after))
    if new is None or new.reason != Reason.GATEWAYS_SYNCED or not after.last_sync_commit:
        return
    moved = before.last_sync_commit != after.last_sync_commit
    if old is None or old.reason != Reason.GATEWAYS_SYNCED or moved:
        count = len(after.discovered_gateways or ())
        yield StatusEvent(
            NORMAL, Reason.SYNC_COMPLETED, f"{count} gateways synced to {after.last_sync_commit[:8]}"
        )


def _has_succeeded(status: SyncStatus) -> bool:
    """Whether the reconcile that wrote this status had no error."""
    ready = _find_condition(status, Type.READY)
    return ready is not None and ready.reason in _SUCCESS_REASONS


def _find_condition(status: SyncStatus, type_: Type) -> Condition | None:
    return find_condition(status.conditions or (), type_)
