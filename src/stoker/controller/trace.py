"""Chooses the trace of a reconcile: that of the requesting webhook, or that of the commit being rolled out.

A request counts from when the controller sees it until the gateways are synced, and for `MAX_TRACE_AGE` at
most: its annotation stays on the resource, and a reconcile days later has nothing to do with it. Every other
reconcile begins a new trace. Only spans depend on this choice.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

from stoker.api.spec.status import SyncStatus
from stoker.api.to_intent.annotations.annotation_requests import NUDGED_AT, REQUESTED_AT, TRACEPARENT
from stoker.controller.cache.objects import ResourceKey
from stoker.domain.clock import rfc3339_or
from stoker.domain.protocol import AgentMetadata
from stoker.domain.reasons import ConditionType
from stoker.domain.traces import valid_traceparent
from stoker.kube.runtime.conditions import find_condition

MAX_TRACE_AGE = timedelta(minutes=10)


class TraceTracker:
    """Remembers which requests are completed."""

    def __init__(self) -> None:
        self._done: dict[ResourceKey, str] = {}

    def trace_of(
        self,
        key: ResourceKey,
        annotations: Mapping[str, str],
        group: str,
        before: SyncStatus,
        published: AgentMetadata | None,
        now: datetime,
    ) -> str:
        """Return the traceparent that the next reconcile continues; empty for a new trace."""
        asked = _recent_traceparent(annotations, group, now)
        if asked and self._done.get(key) != asked:
            return asked
        return published.traceparent if published is not None and not is_ready(before) else ""

    def ended(self, key: ResourceKey, annotations: Mapping[str, str], group: str, *, ready: bool) -> None:
        asked = valid_traceparent(annotations.get(f"{group}/{TRACEPARENT}"))
        if ready and asked:
            self._done[key] = asked

    def forget(self, key: ResourceKey) -> None:
        self._done.pop(key, None)


def is_ready(status: SyncStatus) -> bool:
    ready = find_condition(status.conditions or (), ConditionType.READY)
    return ready is not None and ready.status == "True"


def _recent_traceparent(annotations: Mapping[str, str], group: str, now: datetime) -> str:
    asked = valid_traceparent(annotations.get(f"{group}/{TRACEPARENT}"))
    if not asked:
        return ""
    times = [rfc3339_or(annotations.get(f"{group}/{name}"), None) for name in (REQUESTED_AT, NUDGED_AT)]
    newest = max((each for each in times if each is not None), default=None)
    return asked if newest is not None and now - newest <= MAX_TRACE_AGE else ""
