"""Sends alerts for one term as leader: collects them from reconciles and sends in the background.

A reconcile calls `saw` after it wrote the status; `saw` must never wait, raise or fill the memory. `run`
sends due alerts, several at a time, with pauses after failures. A target that cannot be reached is reported
once, as an Event AlertFailed on the resource, until an alert to it succeeds again. `stop` tries all queued
alerts once more.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from stoker.api.spec.status import SyncStatus
from stoker.controller.alerting.alert_filter import is_wanted, sends_resolved
from stoker.controller.alerting.alerts import (
    Alert,
    Incident,
    alerts_for_events,
    open_incidents,
    presumed_open,
)
from stoker.controller.alerting.queue import AlertQueue, AlertSlot, QueuedAlert
from stoker.controller.alerting.send import AlertSender, target_title
from stoker.controller.cache.objects import ResourceKey, object_ref
from stoker.controller.context import ReconcileContext
from stoker.controller.status.events import StatusEvent
from stoker.domain.clock import Clock
from stoker.domain.errors import Retry, StokerError
from stoker.domain.intent.delivery import AlertTarget
from stoker.domain.reasons import Reason
from stoker.kube.client.deadlines import wait_for_end, wait_for_event
from stoker.kube.events.recorder import EventRecorder
from stoker.kube.events.series import ObjectRef
from stoker.kube.runtime.result import as_stoker_error
from stoker.telemetry.logs import get_logger

log = get_logger(__name__)

MAX_CONCURRENT_SENDS = 8
FLUSH_GRACE = 5.0

AlertCounter = Callable[[ResourceKey, str, str], None]
"""Resource, kind of target, and the result of an alert: sent, failed or dropped."""


@dataclass(slots=True)
class _AlertedResource:
    """The alerting state of one resource."""

    about: ObjectRef
    targets: tuple[AlertTarget, ...] = ()
    open: dict[Incident, bool] = field(default_factory=dict)
    """Open incidents; true if only inferred from a status that another leader wrote."""


class Alerter:
    """Sends alerts to the targets of resources, for one term."""

    def __init__(
        self,
        sender: AlertSender,
        events: EventRecorder,
        clock: Clock,
        *,
        cluster: str = "",
        counted: AlertCounter = lambda key, kind, result: None,
        outbox: AlertQueue | None = None,
    ) -> None:
        self._sender = sender
        self._events = events
        self._clock = clock
        self._cluster = cluster
        self._counted = counted
        self._outbox = outbox if outbox is not None else AlertQueue()
        self._known: dict[ResourceKey, _AlertedResource] = {}
        self._failing: set[tuple[ResourceKey, str]] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._wake = asyncio.Event()
        self._stopping = False
        self._runner: asyncio.Task[None] | None = None

    def saw(self, context: ReconcileContext, after: SyncStatus, told: Sequence[StatusEvent]) -> None:
        """Process a written status and the Events that it caused."""
        key, about = context.key, object_ref(context.key, context.kept)
        known = self._known.get(key)
        if known is None or known.about.uid != about.uid:
            presumed = dict.fromkeys(presumed_open(context.status), True)
            known = self._known[key] = _AlertedResource(about, open=presumed)
        # If the spec cannot be loaded, the earlier targets stay, so that they get an alert about that error.
        if context.understood is not None:
            known.targets = context.understood.intent.alerts
        now, there = self._clock.now(), open_incidents(after)
        for incident in [one for one in known.open if one not in there]:
            self._end(key, known, incident, now)
        for alarm in alerts_for_events(told, about, now, self._cluster):
            if alarm.incident in there:
                known.open[alarm.incident] = False
            self._begin(key, known, alarm)
        self._wake.set()

    def forget(self, key: ResourceKey) -> None:
        """End all incidents of a deleted resource."""
        known = self._known.pop(key, None)
        if known is None:
            return
        for incident in list(known.open):
            self._end(key, known, incident, self._clock.now())
        self._outbox.forget(key)
        self._failing = {one for one in self._failing if one[0] != key}
        self._wake.set()

    async def run(self) -> None:
        """Send due alerts, until `stop` was called and the queue is empty."""
        self._runner = asyncio.current_task()
        try:
            while not self._stopping or len(self._outbox):
                now = self._clock.monotonic()
                for letter in self._outbox.take(now, MAX_CONCURRENT_SENDS - len(self._tasks)):
                    task = asyncio.create_task(self._deliver(letter), name=f"alert {letter.slot.resource}")
                    self._tasks.add(task)
                    task.add_done_callback(self._delivered)
                full = len(self._tasks) >= MAX_CONCURRENT_SENDS
                await self._sleep(math.inf if full else self._outbox.next_due() - now)
        finally:
            self._stopping = True
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def stop(self, grace: float = FLUSH_GRACE) -> None:
        """Try all queued alerts once more; give up what is unsent after `grace` seconds."""
        self._stopping = True
        self._outbox.hurry(self._clock.monotonic())
        self._wake.set()
        if self._runner is not None:
            await wait_for_end(self._runner, self._clock, grace, self._give_up)

    def _give_up(self) -> None:
        log.warning("alerts.given_up", pending=len(self._outbox))

    def _begin(self, key: ResourceKey, known: _AlertedResource, alarm: Alert) -> None:
        now = self._clock.monotonic()
        for name, target in _name_targets(known.targets):
            if is_wanted(target, alarm):
                self._drop(self._outbox.begins(AlertSlot(key, alarm.incident, name), alarm, target, now))

    def _end(self, key: ResourceKey, known: _AlertedResource, incident: Incident, moment: datetime) -> None:
        presumed = known.open.pop(incident)
        alarm = Alert(known.about, incident, f"{incident.reason} is over", moment, cluster=self._cluster)
        now = self._clock.monotonic()
        for name, target in _name_targets(known.targets):
            slot = AlertSlot(key, incident, name)
            tells = sends_resolved(target) and (is_wanted(target, alarm) or not presumed)
            if tells:
                self._drop(self._outbox.ends(slot, alarm, target, now, presumed=presumed))
            else:
                self._outbox.withdraw(slot, now)

    def _drop(self, letters: Sequence[QueuedAlert]) -> None:
        for letter in letters:
            log.warning(
                "alert.dropped", resource=str(letter.slot.resource), reason=letter.slot.incident.reason
            )
            self._counted(letter.slot.resource, letter.target.kind, "dropped")

    async def _sleep(self, seconds: float) -> None:
        self._wake.clear()
        await wait_for_event(self._wake, self._clock, max(0.0, seconds))

    def _delivered(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._wake.set()

    async def _deliver(self, letter: QueuedAlert) -> None:
        slot = letter.slot
        try:
            namespace = slot.resource.object.namespace
            await self._sender.send(namespace, letter.target, letter.alarm, over=letter.over)
        except Exception as error:  # defects of ours too: they must not block other alerts
            self._failed(letter, as_stoker_error(error))
            return
        self._outbox.sent(letter, self._clock.monotonic())
        self._failing.discard((slot.resource, slot.target))
        self._counted(slot.resource, letter.target.kind, "sent")

    def _failed(self, letter: QueuedAlert, error: StokerError) -> None:
        again = isinstance(error, Retry) and not self._stopping
        after = error.after if isinstance(error, Retry) else None
        if not self._outbox.failed(letter, self._clock.monotonic(), final=not again, after=after):
            log.info("alert.postponed", resource=str(letter.slot.resource), error=error.message)
            return
        slot, target = letter.slot, letter.target
        self._counted(slot.resource, target.kind, "failed")
        log.warning(
            "alert.failed", resource=str(slot.resource), target=target_title(target), error=error.message
        )
        if (slot.resource, slot.target) not in self._failing:
            self._failing.add((slot.resource, slot.target))
            message = (
                f"could not send alert {slot.incident.reason} to {target_title(target)}: {error.message}"
            )
            self._events.warning(letter.alarm.about, Reason.ALERT_FAILED, message)


def _name_targets(targets: Sequence[AlertTarget]) -> list[tuple[str, AlertTarget]]:
    """Each target with a name that is stable as long as the target is."""
    return [
        (
            f"{one.kind}/{one.secret.name}/{one.secret.key}"
            if one.secret is not None
            else f"{one.kind}/{index}",
            one,
        )
        for index, one in enumerate(targets)
    ]
