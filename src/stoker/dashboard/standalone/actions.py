"""The actions on `stoker sync --watch`: each records a pending action and wakes the sync loop.

The loop performs the action in its next iteration. A request for a rollback waits up to 15 s for the
result; after that, the view shows it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from stoker.dashboard.interfaces import ActionRefused, Visitor
from stoker.dashboard.standalone.pending_actions import PendingActions, PendingRollback
from stoker.dashboard.standalone.view import LocalViewSource
from stoker.dashboard.view_models import ActionBody, DashboardAction
from stoker.domain.clock import Clock
from stoker.domain.errors import InvalidValue
from stoker.domain.reasons import Reason
from stoker.domain.refs import CommitId
from stoker.kube.client.deadlines import deadline
from stoker.snapshots.ids import is_snapshot_id

ACTION_TIMEOUT_SECONDS = 15.0


class LocalActions:
    """Records pending actions and wakes the sync loop."""

    def __init__(
        self,
        desk: PendingActions,
        scene: LocalViewSource,
        nudge: Callable[[], None],
        clock: Clock,
    ) -> None:
        self._desk = desk
        self._scene = scene
        self._nudge = nudge
        self._clock = clock

    async def do(self, order: ActionBody, visitor: Visitor) -> str:
        if order.action is DashboardAction.STOP:
            return self._stop()
        if order.action is DashboardAction.GO_ON:
            return self._go_on()
        self._check_subject(order)
        match order.action:
            case DashboardAction.PAUSE:
                return self._pause()
            case DashboardAction.RESUME:
                return self._resume()
            case DashboardAction.SYNC:
                return self._sync()
            case DashboardAction.APPROVE:
                return self._approve(order.digest or "")
            case DashboardAction.ROLLBACK:
                return await self._done(PendingRollback(_rollback_target(order)))
            case _:
                return await self._done(PendingRollback(""))

    def _check_subject(self, order: ActionBody) -> None:
        subject = self._scene.subject
        wanted = (order.namespace, order.kind, order.name)
        if wanted != (subject.namespace, subject.kind, subject.name) or order.gateway not in (
            None,
            "",
            subject.gateway,
        ):
            raise ActionRefused(404, "this process keeps another folder than that")

    def _stop(self) -> str:
        self._desk.stop()
        self._changed()
        self._desk.note()
        return "Stopped until a user resumes it, also over a restart; a running sync is finished."

    def _go_on(self) -> str:
        if not self._desk.stopped:
            return "Nothing was stopped."
        self._desk.go_on()
        self._changed()
        self._desk.note()
        return "It goes on."

    def _pause(self) -> str:
        self._desk.paused = True
        self._changed()
        self._desk.note()
        return "Paused until a user resumes it, also over a restart."

    def _resume(self) -> str:
        if self._scene.subject.paused:
            raise ActionRefused(
                409, "the resource itself says paused; it is resumed in its file", Reason.PAUSED
            )
        self._desk.paused = False
        self._changed()
        self._desk.note()
        return "Resumed."

    def _sync(self) -> str:
        self._must_follow()
        self._nudge()
        return "The ref is looked at now."

    def _approve(self, digest: str) -> str:
        self._must_follow()
        waiting = self._scene.waits_for
        if not waiting or digest != waiting:
            raise ActionRefused(409, "another plan waits now, or none; look at it again", Reason.PLAN_PENDING)
        self._desk.agree(digest)
        self._changed()
        return f"Approved: plan {digest[:12]} is carried out now, and no other."

    async def _done(self, errand: PendingRollback) -> str:
        self._desk.ask(errand)
        self._nudge()
        try:
            async with deadline(self._clock, ACTION_TIMEOUT_SECONDS):
                return await asyncio.shield(errand.done)
        except TimeoutError:
            return "It is on its way; the page shows when it is done."

    def _must_follow(self) -> None:
        if self._desk.stopped:
            raise ActionRefused(409, "everything is stopped; let it go on first", Reason.PAUSED)
        if self._desk.paused or self._scene.subject.paused:
            raise ActionRefused(409, "it is paused; resume it first", Reason.PAUSED)

    def _changed(self) -> None:
        self._scene.refresh()
        self._nudge()


def _rollback_target(order: ActionBody) -> str:
    if bool(order.to_snapshot) == bool(order.to_commit):
        raise ActionRefused(400, "a rollback names one snapshot or one commit")
    if order.to_snapshot:
        if not is_snapshot_id(order.to_snapshot):
            raise ActionRefused(400, "that is not the name of a snapshot")
        return order.to_snapshot
    try:
        return str(CommitId(order.to_commit or ""))
    except InvalidValue as error:
        raise ActionRefused(400, error.message, error.reason) from None
