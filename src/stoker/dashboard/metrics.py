"""What a dashboard measures of itself: who is in, who was let in, and what was asked for.

One for the life of a process, however often the page is opened anew. No label names a person or a
resource: the log does, and the API server's audit.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import TYPE_CHECKING

from stoker.telemetry.metrics import MetricReading, Metrics

if TYPE_CHECKING:
    from stoker.dashboard.sessions import DashboardSessions
    from stoker.dashboard.sse import EventStreams


class SignInResult(StrEnum):
    """How somebody was answered who wanted in."""

    ACCEPTED = "accepted"
    REFUSED = "refused"
    LIMITED = "limited"
    FAILED = "failed"


class ActionResult(StrEnum):
    """What became of something that was asked for."""

    DONE = "done"
    REFUSED = "refused"
    LIMITED = "limited"
    FAILED = "failed"


class DashboardMetrics:
    """Takes what happened; without metrics it takes it and keeps nothing."""

    def __init__(self, metrics: Metrics | None = None) -> None:
        self._sessions: DashboardSessions | None = None
        self._streams: EventStreams | None = None
        self._logins = metrics and metrics.counter(
            "ignition_sync_dashboard_logins_total",
            "Logins at the dashboard, by how they ended.",
            ("result",),
        )
        self._orders = metrics and metrics.counter(
            "ignition_sync_dashboard_orders_total",
            "What people asked for on the dashboard, by what it was and what became of it.",
            ("kind", "result"),
        )
        if metrics is not None:
            metrics.collect_from(self._readings)

    def watch(self, sessions: DashboardSessions, streams: EventStreams) -> None:
        """Those of the page that is open now."""
        self._sessions, self._streams = sessions, streams

    def login(self, result: SignInResult) -> None:
        if self._logins:
            self._logins.inc(result=result)

    def order(self, action: str, result: ActionResult) -> None:
        if self._orders:
            self._orders.inc(kind=action, result=result)

    def _readings(self) -> Iterator[MetricReading]:
        sessions = len(self._sessions) if self._sessions is not None else 0
        streams = self._streams.open if self._streams is not None else 0
        yield MetricReading("ignition_sync_dashboard_sessions", "Sessions that are open.", sessions)
        yield MetricReading("ignition_sync_dashboard_streams", "Pages that listen for changes now.", streams)
