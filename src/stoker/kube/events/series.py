"""Aggregates reports into Events: many reports, few writes.

Equal reports about the same object form one series, and a series is one Event with a growing count. The
first report is due at once, its count later and at growing intervals. An object with many different reports
exhausts its rate limit. `stoker.kube.events.recorder` writes the due series.

It does no I/O and has no clock of its own: the caller passes the time to every method. It must never grow
beyond its capacity, whatever is reported.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from stoker.domain.reasons import Reason


@dataclass(frozen=True, slots=True)
class ObjectRef:
    """The object that an Event is about; the namespace of a cluster-scoped object is empty."""

    api_version: str
    kind: str
    name: str
    namespace: str = ""
    uid: str = ""


class EventType(StrEnum):
    NORMAL = "Normal"
    WARNING = "Warning"


@dataclass(frozen=True, slots=True)
class EventReport:
    """One report; equal reports form one series."""

    about: ObjectRef
    type: EventType
    reason: Reason
    message: str


@dataclass(frozen=True, slots=True)
class EventLimits:
    """Limits on writes and memory."""

    window: float = 600.0  # seconds without a report after which the same report is a new Event
    write_every: float = (
        30.0  # seconds from the first write of a count to the next; then twice that, and so on
    )
    burst: int = 25  # new Events about one object at once …
    refill_every: float = 300.0  # … and one more after so many seconds
    capacity: int = 2000  # series held at a time


class EventReportResult(StrEnum):
    """The outcome of a report."""

    ACCEPTED = "accepted"
    RATE_LIMITED = "rate_limited"
    FULL = "full"


@dataclass(slots=True, eq=False)
class EventSeries:
    """One Event, pending or already written."""

    report: EventReport
    first: datetime
    last: datetime
    last_seen: float
    due: float
    pause: float
    name: str = ""  # of the Event, once it has one
    count: int = 1
    written: int = 0  # the count that the server has


class EventSeriesTracker:
    """All series, and the rate limit of each object."""

    def __init__(self, limits: EventLimits) -> None:
        self._limits = limits
        self._series: OrderedDict[EventReport, EventSeries] = OrderedDict()  # least recently seen first
        self._pending: dict[EventReport, EventSeries] = {}  # series that the server does not have yet in full
        self._next_free: OrderedDict[ObjectRef, float] = OrderedDict()

    def __len__(self) -> int:
        return len(self._series)

    @property
    def pending(self) -> int:
        return len(self._pending)

    def accept(self, report: EventReport, now: float, moment: datetime) -> EventReportResult:
        """Count the report in its series, or begin one."""
        series = self._series.get(report)
        if series is not None and (series.count > series.written or self._recent(series, now)):
            series.count += 1
            series.last, series.last_seen = moment, now
        else:
            self._make_room(now)
            if len(self._pending) >= self._limits.capacity:
                return EventReportResult.FULL
            if not self._has_credit(report.about, now):
                return EventReportResult.RATE_LIMITED
            pause = self._limits.write_every
            series = self._series[report] = EventSeries(
                report, moment, moment, last_seen=now, due=now, pause=pause
            )
        self._series.move_to_end(report)
        self._pending[report] = series
        return EventReportResult.ACCEPTED

    def next(self) -> EventSeries | None:
        """Return the pending series that is due first."""
        return min(self._pending.values(), key=lambda series: series.due, default=None)

    def wrote(self, series: EventSeries, count: int, now: float) -> None:
        """Record the written count; the next write of this series is delayed longer each time."""
        series.written = count
        series.due = now + series.pause
        series.pause = min(2 * series.pause, self._limits.window / 2)
        if series.count == count:
            del self._pending[series.report]

    def drop(self, series: EventSeries) -> None:
        """Remove a series that the server refuses."""
        del self._pending[series.report]
        del self._series[series.report]

    def _recent(self, series: EventSeries, now: float) -> bool:
        return now - series.last_seen < self._limits.window

    def _make_room(self, now: float) -> None:
        """Remove ended series and, if that is not enough, the least recently seen ones."""
        if len(self._series) < self._limits.capacity:
            return
        for series in [each for each in self._series.values() if each.report not in self._pending]:
            if self._recent(series, now) and len(self._series) < self._limits.capacity:
                return
            del self._series[series.report]

    def _has_credit(self, about: ObjectRef, now: float) -> bool:
        """Use one Event of the object's rate limit, if any is left.

        One number stores it: when the next Event would be allowed if they were spaced evenly. A burst allows
        it
        to be early by that many spacings.
        """
        spacing = self._limits.refill_every
        slot = max(self._next_free.get(about, -math.inf), now - (self._limits.burst - 1) * spacing)
        if slot > now:
            return False
        self._next_free[about] = slot + spacing
        self._next_free.move_to_end(about)
        while len(self._next_free) > self._limits.capacity:
            self._next_free.popitem(last=False)
        return True
