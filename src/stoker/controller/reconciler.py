"""Reconciles one resource: runs the steps, writes the status once, emits events, sets the requeue time.

The queue's workers call `SyncReconciler.reconcile` with a key. `stoker.controller.steps` lists the steps,
`stoker.controller.status.status` makes the status from their outcome. Nothing else writes the status of a
resource.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from stoker.api.spec.status import SyncStatus
from stoker.controller.alerting.alerter import Alerter
from stoker.controller.cache.objects import SYNCED_KINDS, CachedResource, ResourceKey, object_ref
from stoker.controller.context import ReconcileContext
from stoker.controller.status.audit_events import audit_events
from stoker.controller.status.events import StatusEvent, status_events
from stoker.controller.status.metrics import ControllerMetrics
from stoker.controller.status.status import StatusSummarizer
from stoker.controller.steps import ReconcilerParts, ReconcilerSteps
from stoker.controller.trace import TraceTracker, is_ready
from stoker.kube.client.kinds import rest_resource
from stoker.kube.events.recorder import EventRecorder
from stoker.kube.events.series import EventType, ObjectRef
from stoker.kube.runtime.controller import ReconcileResult
from stoker.kube.runtime.steps import ReconcilePass, StepsOutcome
from stoker.telemetry import tracing


class _ResourceWithStatus(msgspec.Struct):
    status: SyncStatus = SyncStatus()


class SyncReconciler:
    """Reconciles one resource at a time. All state that its parts keep can be rebuilt from the cluster."""

    def __init__(
        self,
        parts: ReconcilerParts,
        summarize: StatusSummarizer,
        events: EventRecorder,
        meter: ControllerMetrics,
        alerter: Alerter,
        *,
        audit: EventRecorder | None = None,
    ) -> None:
        self._parts = parts
        self._summarizer = summarize
        self._events = events
        self._meter = meter
        self._alerter = alerter
        self._audit = audit
        self._following = TraceTracker()
        self._pass = ReconcilePass(
            steps=ReconcilerSteps(parts).listed(),
            observed=lambda context: context.status,
            summarize=self._summarize,
            write=self._write_status,
            clock=parts.clock,
        )

    async def reconcile(self, key: ResourceKey) -> ReconcileResult:
        kept = self._parts.observed.find(key)
        if kept is None:
            self.forget(key)
            # A key that only a pod or a ConfigMap names has no finalizer of ours to remove.
            if key in self._parts.unseen:
                await self._parts.finalizer.outgrown(key)
                self._parts.unseen.discard(key)
            return ReconcileResult()
        if kept.header.metadata.deletion_timestamp is not None:
            await self._parts.finalizer.part(key, kept)
            return ReconcileResult()
        context = ReconcileContext(key, kept, decode_status(kept))
        if not tracing.is_tracing():
            return ReconcileResult(after=(await self._pass.run(context)).again_in)
        return await self._traced(context)

    async def _traced(self, context: ReconcileContext) -> ReconcileResult:
        key, parts = context.key, self._parts
        said = context.kept.header.metadata.annotations
        trace = self._following.trace_of(
            key, said, context.group, context.status, parts.publisher.published(key), parts.clock.now()
        )
        where = {"kind": str(key.kind), "namespace": key.object.namespace, "name": key.object.name}
        with tracing.span("controller.reconcile", parent=trace, **where) as told:
            ended = await self._pass.run(context)
            told.say(commit=str(ended.what.commit or "") if ended.what is not None else "")
        seen = parts.observed.find(key)
        ready = seen is not None and is_ready(decode_status(seen))
        self._following.ended(key, said, context.group, ready=ready)
        return ReconcileResult(after=ended.again_in)

    def forget(self, key: ResourceKey) -> None:
        """Drop all state that the parts keep for a deleted resource."""
        parts = self._parts
        for memory in (
            parts.resolver,
            parts.understanding,
            parts.publisher,
            parts.references,
            parts.waiting,
            parts.finalizer,
            parts.way_back,
            parts.releaser,
        ):
            memory.forget(key)
        parts.validator.forget_others(lambda secret: bool(parts.references.users(secret)))
        self._following.forget(key)
        self._meter.forget(key)
        self._alerter.forget(key)

    def _summarize(self, context: ReconcileContext, outcome: StepsOutcome) -> SyncStatus:
        status = self._summarizer(context, outcome)
        self._meter.saw(context.key, status)
        return status

    async def _write_status(self, context: ReconcileContext, status: SyncStatus) -> None:
        """Write with PUT and the resourceVersion that was read, so that a concurrent change wins.

        The write then fails with a conflict, and the resource is reconciled again.
        """
        body = msgspec.json.decode(context.kept.raw, type=dict[str, object])
        body["status"] = status
        key = context.key.object
        kind = SYNCED_KINDS[context.key.kind]
        request = self._parts.client.replace(
            rest_resource(kind), body, key.name, key.namespace, into=msgspec.Raw, subresource="status"
        )
        with tracing.step("status.write"):
            await self._parts.observed.resources[context.key.kind].write(key, request)
        about = object_ref(context.key, context.kept)
        events = tuple(status_events(context, status))
        _emit_events(self._events, about, events)
        if self._audit is not None:
            _emit_events(self._audit, about, audit_events(context, status))
        self._alerter.saw(context, status, events)
        self._meter.wrote(context.key, context.status, status, _scan_durations(context))
        self._meter.let_go(context.key, context.release.begun)


def _emit_events(recorder: EventRecorder, about: ObjectRef, events: Iterable[StatusEvent]) -> None:
    for told in events:
        report = recorder.warning if told.type is EventType.WARNING else recorder.normal
        report(about, told.reason, told.message)


def _scan_durations(context: ReconcileContext) -> dict[str, tuple[str, ...]]:
    """How long each gateway took to answer its last scans, by pod: for metrics, not for the status."""
    reports = ((one.pod.name, one.report) for one in context.fleet.gateways)
    return {pod: report.scan_durations for pod, report in reports if report is not None}


def decode_status(kept: CachedResource) -> SyncStatus:
    """Return the status from the API server, or an empty status if it cannot be decoded."""
    try:
        return msgspec.json.decode(kept.raw, type=_ResourceWithStatus).status
    except msgspec.ValidationError:
        return SyncStatus()
