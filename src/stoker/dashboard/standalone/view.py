"""The view of `stoker sync --watch`: one resource with one gateway, from the current report.

The report (`stoker.agent.status.status_report`) arrives after each sync, in the same form as that of an
agent in a cluster; this module converts it to a view. The history is longer than a report allows: it
starts with the audit log and continues with each sync of this process.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import NamedTuple

import msgspec

from stoker.agent.rollback.state import QuarantineRecord, RollbackPin
from stoker.agent.status.fields import pending_plan
from stoker.dashboard.interfaces import STANDALONE, GatewayKey, VisibleScope
from stoker.dashboard.standalone.pending_actions import PendingActions
from stoker.dashboard.versioned_store import ChangeLog
from stoker.dashboard.view_models import (
    ApprovalView,
    ChangedPathView,
    ChangesView,
    DashboardAction,
    DashboardView,
    DesignerHoldView,
    EmergencyStopView,
    GatewayHistoryView,
    GatewayView,
    PlannedGatewayView,
    ResourceView,
    RollbackView,
    SnapshotView,
    SyncDiffView,
    SyncHistoryView,
)
from stoker.domain.clock import Clock, rfc3339
from stoker.domain.protocol import DiffReport, GatewayReport, HistoryEntryReport, SyncState
from stoker.domain.reasons import Reason
from stoker.snapshots.types import Snapshot

MAX_ENTRIES = 200
MAX_SNAPSHOTS = 200
PAUSED = "Paused on this page: nothing is followed until a user resumes it, also over a restart."

_STOP = ""
_READY = {SyncState.SYNCED: "True", SyncState.ERROR: "False"}
_ALWAYS_ALLOWED_ACTIONS = (
    DashboardAction.PAUSE,
    DashboardAction.RESUME,
    DashboardAction.SYNC,
    DashboardAction.ROLLBACK,
)


class FolderSubject(NamedTuple):
    """The synced folder, in the terms of its assignment."""

    namespace: str
    kind: str
    name: str
    gateway: str
    ref: str
    paused: bool = False
    """The resource's own spec is paused."""

    @property
    def id(self) -> str:
        return f"{self.namespace}/{self.kind}/{self.name}"


class FolderHold(NamedTuple):
    """Why the folder does not follow its ref: a rollback or a quarantine."""

    pin: RollbackPin | None = None
    quarantine: QuarantineRecord | None = None


class LocalViewSource:
    """The view of one folder; the sync loop and the actions change it, only on the event loop's thread."""

    mode = STANDALONE

    def __init__(self, desk: PendingActions, clock: Clock, subject: FolderSubject) -> None:
        self._desk = desk
        self._clock = clock
        self._subject = subject
        self._report = GatewayReport(subject.gateway)
        self._held = FolderHold()
        self._snapshots: tuple[SnapshotView, ...] = ()
        self._entries: deque[SyncHistoryView] = deque(maxlen=MAX_ENTRIES)
        self._newest: HistoryEntryReport | None = None
        self._waits_since = ("", "")
        self._seen: ChangeLog[ResourceView | EmergencyStopView] = ChangeLog()
        self.refresh()

    def begin(self, entries: Sequence[HistoryEntryReport]) -> None:
        """Load the history from before this process, newest first."""
        for entry in reversed(entries):
            self._add(entry, None)
        self._newest = entries[0] if entries else None

    def about(self, subject: FolderSubject, held: FolderHold) -> None:
        """Set the subject of the loop's next sync, and what holds it."""
        if subject.id != self._subject.id:
            self._seen.remove(self._subject.id)
        self._subject, self._held = subject, held
        self.refresh()

    def told(self, report: GatewayReport) -> None:
        """Take the current report."""
        self._report = report
        newest = report.history[0] if report.history else None
        if newest is not None and newest != self._newest:
            self._newest = newest
            diff = report.diff if report.diff is not None and newest.diff is not None else newest.diff
            self._add(newest, diff)
        self.refresh()

    def kept(self, snapshots: Sequence[Snapshot]) -> None:
        """Take the list of snapshots that a rollback can restore."""
        usable = sorted((one for one in snapshots if not one.trouble), key=lambda one: -one.taken_at)
        self._snapshots = tuple(
            SnapshotView(
                id=one.id, size=one.size, timestamp=rfc3339(datetime.fromtimestamp(one.taken_at, UTC))
            )
            for one in usable[:MAX_SNAPSHOTS]
        )

    def refresh(self) -> None:
        """Rebuild the view; unchanged values cause no event."""
        since = self._desk.stopped_since
        self._seen.set(_STOP, EmergencyStopView(active=bool(since), since=since or None))
        self._seen.set(self._subject.id, self._resource())

    def version(self) -> int:
        return self._seen.version

    async def changed(self, seen: int) -> int:
        return await self._seen.changed(seen)

    def picture(self, sight: VisibleScope) -> DashboardView:
        return DashboardView(
            version=self._seen.version,
            mode=self.mode,
            at=rfc3339(self._clock.now()),
            stop=self._stop(sight),
            resources=self._resources((self._subject.id,), sight),
        )

    def changes(self, seen: int, sight: VisibleScope) -> ChangesView | None:
        since = self._seen.since(seen)
        if since is None:
            return None
        return ChangesView(
            version=self._seen.version,
            resources=self._resources(since.changed, sight),
            gone=since.gone,
            stop=self._stop(sight) if _STOP in since.changed else None,
        )

    def gateway(self, key: GatewayKey, sight: VisibleScope) -> GatewayHistoryView | None:
        subject = self._subject
        mine = GatewayKey(subject.namespace, subject.kind, subject.name, subject.gateway)
        if key != mine or not sight.sees(subject.namespace):
            return None
        history = tuple(
            msgspec.structs.replace(one, number=number)
            for number, one in enumerate(reversed(self._entries), 1)
        )
        return GatewayHistoryView(gateway=self._gateway(), history=history, snapshots=self._snapshots)

    @property
    def subject(self) -> FolderSubject:
        return self._subject

    @property
    def waits_for(self) -> str:
        """The digest of the plan that a user can approve; empty if there is none."""
        approval = self._approval()
        return approval.digest if approval is not None else ""

    def _resources(self, ids: Sequence[str], sight: VisibleScope) -> tuple[ResourceView, ...]:
        if not sight.sees(self._subject.namespace):
            return ()
        found = [value for one in ids if isinstance(value := self._seen.get(one), ResourceView)]
        namespace = self._subject.namespace
        return tuple(
            msgspec.structs.replace(
                one, may=tuple(word for word in one.may if sight.may(DashboardAction(word), namespace))
            )
            for one in found
        )

    def _stop(self, sight: VisibleScope) -> EmergencyStopView:
        since = self._desk.stopped_since
        return EmergencyStopView(active=bool(since), since=since or None, may=sight.may_stop)

    def _resource(self) -> ResourceView:
        subject, report, paused = self._subject, self._report, self._desk.paused
        approval, going_back = self._approval(), self._rollback()
        may = [*_ALWAYS_ALLOWED_ACTIONS]
        if approval is not None:
            may.append(DashboardAction.APPROVE)
        if going_back is not None:
            may.append(DashboardAction.RELEASE)
        return ResourceView(
            id=subject.id,
            namespace=subject.namespace,
            kind=subject.kind,
            name=subject.name,
            ref=subject.ref,
            commit=report.synced_commit,
            paused=paused or subject.paused,
            ready=_READY.get(report.sync_status, "Unknown"),
            reason=Reason.PAUSED if paused else report.reason,
            message=PAUSED if paused else report.error_message,
            last_sync=report.synced_at or None,
            may=tuple(may),
            approval=approval,
            rollback=going_back,
            gateways=(self._gateway(),),
        )

    def _gateway(self) -> GatewayView:
        report, drift = self._report, self._report.drift
        return GatewayView(
            name=self._subject.gateway,
            state=report.sync_status,
            ref=report.synced_ref or report.ref,
            commit=report.synced_commit,
            synced_at=report.synced_at or None,
            drift=drift.files if drift is not None else 0,
            drift_paths=drift.paths if drift is not None else (),
            held_by=tuple(
                DesignerHoldView(user=one.user, project=one.project) for one in report.held_projects
            ),
            taken_back=self._rollback() is not None,
            reason=report.reason,
            message=report.error_message
            or next(iter((*report.warnings, *(f"skipped {line}" for line in report.skipped))), ""),
        )

    def _approval(self) -> ApprovalView | None:
        """Return a plan that a guard holds, that of a rollback first.

        A plan needs approval only if it caused the current error. Foreign files that a sync leaves in place
        do not.
        """
        report, plan, rollback = self._report, self._report.pending_plan, self._desk.held_rollback
        if rollback is not None:
            plan = pending_plan(rollback.held.plan, rollback.held.reason)
        elif plan is None or plan.reason != report.reason or report.sync_status is not SyncState.ERROR:
            return None
        if self._waits_since[0] != plan.digest:
            self._waits_since = plan.digest, rfc3339(self._clock.now())
        added, modified, deleted = plan.files_added, plan.files_modified, plan.files_deleted
        return ApprovalView(
            state="Approved" if plan.digest in self._desk.approved else "Pending",
            commit=plan.commit,
            ref=self._subject.ref,
            digest=plan.digest,
            since=self._waits_since[1],
            added=added,
            modified=modified,
            deleted=deleted,
            gateways=(
                PlannedGatewayView(
                    name=self._subject.gateway, added=added, modified=modified, deleted=deleted
                ),
            ),
        )

    def _rollback(self) -> RollbackView | None:
        pin, quarantine = self._held
        if pin is not None:
            return RollbackView(
                to_commit=None if pin.snapshot else pin.commit,
                to_snapshot=pin.snapshot or None,
                state="Failed" if pin.reason else "Succeeded",
                message=pin.message or "The files stay there until a user releases them.",
            )
        if quarantine is not None:
            return RollbackView(
                to_snapshot=quarantine.snapshot or None,
                state="Succeeded" if quarantine.restored else "Pending",
                message=quarantine.message,
            )
        return None

    def _add(self, entry: HistoryEntryReport, diff: DiffReport | None) -> None:
        self._entries.append(
            SyncHistoryView(
                number=0,  # numbered from the newest back in gateway()
                timestamp=entry.timestamp,
                result=entry.result,
                commit=entry.commit,
                ref=entry.ref,
                files_changed=entry.files_changed,
                duration=entry.duration,
                snapshot_id=entry.snapshot_id,
                diff=None if diff is None else _diff_view(diff),
            )
        )


def _diff_view(diff: DiffReport) -> SyncDiffView:
    return SyncDiffView(
        from_commit=diff.from_commit,
        to_commit=diff.to_commit,
        added=diff.files_added,
        modified=diff.files_modified,
        deleted=diff.files_deleted,
        changes=tuple(ChangedPathView(action=one.action, path=one.path) for one in diff.changes),
    )
