"""Records Events on objects, which `kubectl describe` shows.

A reconcile reports and continues; `run` writes to the API server in the background, at the rate that
`stoker.kube.events.series` allows. Reporting must never wait, raise or fill the memory: while the server is
unreachable counts add up; reports beyond the capacity are dropped and counted, with a log line at most every
ten minutes. On `stop` all pending Events are written at once, within a deadline.
"""

from __future__ import annotations

import asyncio
import math
import re
import secrets
from dataclasses import dataclass

from stoker.domain.clock import Clock, SystemClock, rfc3339
from stoker.domain.errors import Retry
from stoker.domain.reasons import Reason
from stoker.kube.client.client import KubeClient
from stoker.kube.client.deadlines import wait_for_end, wait_for_event
from stoker.kube.client.errors import AlreadyExists, NotFound
from stoker.kube.client.objects import ObjectHeader
from stoker.kube.client.resources import EVENTS
from stoker.kube.events.series import (
    EventLimits,
    EventReport,
    EventReportResult,
    EventSeries,
    EventSeriesTracker,
    EventType,
    ObjectRef,
)
from stoker.kube.runtime.backoff import Backoff
from stoker.kube.runtime.conditions import condition_message
from stoker.telemetry.logs import get_logger

log = get_logger(__name__)

FLUSH_GRACE = 5.0
REPEAT_SECONDS = 600.0
OUTAGE_BACKOFF = Backoff(base=1.0, ceiling=60.0, jitter=0.2)

_MAX_STEM_LENGTH = 200  # of the 253 characters that a name may have


@dataclass(frozen=True, slots=True)
class EventCounts:
    """Counts of all reports so far, by outcome."""

    reported: int
    written: int  # API writes, each of one Event or of its count
    rate_limited: int
    overflowed: int
    lost: int  # series that the server refused, or that were still pending at the end
    pending: int


class EventRecorder:
    """Accepts reports from one event loop, and writes them while `run` runs."""

    def __init__(
        self,
        client: KubeClient,
        *,
        component: str,
        instance: str,
        limits: EventLimits | None = None,
        backoff: Backoff = OUTAGE_BACKOFF,
        clock: Clock | None = None,
    ) -> None:
        self._client = client
        self._component = component
        self._instance = instance
        self._clock = clock or SystemClock()
        self._book = EventSeriesTracker(limits or EventLimits())
        self._backoff = backoff
        self._failures = 0
        self._blocked_until = 0.0
        self._wake = asyncio.Event()
        self._stopping = False
        self._writer: asyncio.Task[None] | None = None
        self._fates = dict.fromkeys(EventReportResult, 0)
        self._say_again = -math.inf
        self._written = 0
        self._lost = 0

    def normal(self, about: ObjectRef, reason: Reason, message: str) -> None:
        self._record(EventReport(about, EventType.NORMAL, reason, message))

    def warning(self, about: ObjectRef, reason: Reason, message: str) -> None:
        self._record(EventReport(about, EventType.WARNING, reason, message))

    def snapshot(self) -> EventCounts:
        return EventCounts(
            reported=sum(self._fates.values()),
            written=self._written,
            rate_limited=self._fates[EventReportResult.RATE_LIMITED],
            overflowed=self._fates[EventReportResult.FULL],
            lost=self._lost,
            pending=self._book.pending,
        )

    async def run(self) -> None:
        """Write due series, until `stop` was called and none is pending."""
        self._writer = asyncio.current_task()
        try:
            while (series := self._book.next()) is not None or not self._stopping:
                now = self._clock.monotonic()
                wait = math.inf if series is None else max(series.due, self._blocked_until) - now
                if series is not None and (wait <= 0 or self._stopping):
                    await self._write(series)
                else:
                    await self._sleep(wait)
        finally:
            self._stopping = True
            self._lost += self._book.pending

    async def stop(self, grace: float = FLUSH_GRACE) -> None:
        """Write all pending series; those still pending after `grace` seconds are dropped."""
        self._stopping = True
        self._wake.set()
        if self._writer is not None:
            await wait_for_end(self._writer, self._clock, grace, self._tell_loss)

    def _tell_loss(self) -> None:
        log.warning("events.given_up", pending=self._book.pending)

    def _record(self, report: EventReport) -> None:
        fate = (
            EventReportResult.FULL
            if self._stopping
            else self._book.accept(report, self._clock.monotonic(), self._clock.now())
        )
        self._fates[fate] += 1
        if fate is not EventReportResult.ACCEPTED:
            self._tell_dropped(report)
        self._wake.set()

    def _tell_dropped(self, report: EventReport) -> None:
        """Log dropped reports once per interval: a source that reports so much would fill the log too."""
        now = self._clock.monotonic()
        if now < self._say_again:
            return
        self._say_again = now + REPEAT_SECONDS
        log.warning(
            "events.dropped",
            component=self._component,
            about=report.about,
            reason=report.reason,
            rate_limited=self._fates[EventReportResult.RATE_LIMITED],
            overflowed=self._fates[EventReportResult.FULL],
        )

    async def _sleep(self, seconds: float) -> None:
        """Sleep until a report arrives or the time has passed."""
        self._wake.clear()
        await wait_for_event(self._wake, self._clock, seconds)

    async def _write(self, series: EventSeries) -> None:
        count = series.count
        try:
            await (self._patch(series) if series.written else self._create(series))
        except Retry as error:
            self._postpone(series, error)
        except Exception as error:  # refused, or a bug of ours: the other series must not wait
            log.warning("event.refused", about=series.report.about, reason=series.report.reason, error=error)
            self._give_up(series)
        else:
            self._failures = 0
            self._written += 1
            self._book.wrote(series, count, self._clock.monotonic())

    async def _create(self, series: EventSeries) -> None:
        report, about = series.report, series.report.about
        # The name stays the same over attempts: an Event that was created although its response was lost is
        # found.
        series.name = series.name or event_name(about.name)
        namespace = about.namespace or "default"
        body = {
            "apiVersion": EVENTS.api_version,
            "kind": EVENTS.kind,
            "metadata": {"name": series.name, "namespace": namespace},
            "involvedObject": {
                "apiVersion": about.api_version,
                "kind": about.kind,
                "name": about.name,
                "namespace": about.namespace,
                "uid": about.uid,
            },
            "type": report.type,
            "reason": report.reason,
            "message": condition_message(report.message),
            "source": {"component": self._component},
            "reportingComponent": self._component,
            "reportingInstance": self._instance,
            "firstTimestamp": rfc3339(series.first),
            **_series_fields(series),
        }
        try:
            await self._client.create(EVENTS, body, namespace, into=ObjectHeader)
        except AlreadyExists:
            await self._client.patch(
                EVENTS, _series_fields(series), series.name, namespace, into=ObjectHeader
            )

    async def _patch(self, series: EventSeries) -> None:
        namespace = series.report.about.namespace or "default"
        try:
            await self._client.patch(
                EVENTS, _series_fields(series), series.name, namespace, into=ObjectHeader
            )
        except NotFound:  # the server deletes Events after an hour
            series.name = ""
            await self._create(series)

    def _postpone(self, series: EventSeries, error: Retry) -> None:
        """Delay all series, because the server is unreachable or busy."""
        if self._stopping:
            self._give_up(series)
            return
        self._failures += 1
        pause = max(self._backoff.delay(self._failures), error.after or 0.0)
        self._blocked_until = self._clock.monotonic() + pause
        log.info("events.postponed", error=error, pending=self._book.pending, retry_seconds=round(pause, 1))

    def _give_up(self, series: EventSeries) -> None:
        self._book.drop(series)
        self._lost += 1


def event_name(about: str) -> str:
    """Return a new, valid name that begins with the name of the object."""
    stem = re.sub(r"[^a-z0-9]+", "-", about.lower())[:_MAX_STEM_LENGTH].strip("-")
    return f"{stem or 'object'}.{secrets.token_hex(8)}"


def _series_fields(series: EventSeries) -> dict[str, object]:
    return {"count": series.count, "lastTimestamp": rfc3339(series.last)}
