"""The dashboard's own metrics: open sessions, logins and actions.

One instance lives as long as the process, even if the dashboard restarts in it. No label names a user or
a resource; the log and the API server's audit log do.
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
    """The result of a login."""

    ACCEPTED = "accepted"
    REFUSED = "refused"
    LIMITED = "limited"
    FAILED = "failed"


class ActionResult(StrEnum):
    """The result of an action."""

    DONE = "done"
    REFUSED = "refused"
    LIMITED = "limited"
    FAILED = "failed"


class DashboardMetrics:
    """Counts logins and actions; without a `Metrics` it counts nothing."""

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
        """Report the sessions and streams of the server that runs now."""
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
