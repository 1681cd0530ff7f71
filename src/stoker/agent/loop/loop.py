"""The sync loop of a data folder: poll, check drift, react to triggers, back off.

It runs one sync at a time. A trigger (a webhook, a signal, an edited file) ends a pause at once. Any number
of triggers during a sync cause exactly one more sync. Failures are retried with growing, bounded pauses. On
`stop` the loop finishes the running sync within its grace period and returns. It logs through
`stoker.agent.loop.log_lines`: one line for each change, one for each new error, one when the error is over.

The loop does not know where its assignments come from (`assign`) or where reports go; the standalone command
and the sidecar both run it.
"""

from __future__ import annotations

import asyncio
import math
import random as chance
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Protocol

from stoker.agent.loop.log_lines import LogDedup
from stoker.agent.sync.jobs import SyncResult
from stoker.agent.sync.sync_report import SyncReport
from stoker.domain.clock import Clock, SystemClock
from stoker.domain.errors import Retry, Stalled, StokerError, Wait
from stoker.domain.intent.policies import DriftMode, DriftPolicy
from stoker.domain.reasons import Reason
from stoker.engine.plan.drift import FolderDrift
from stoker.kube.client.deadlines import wait_for_first
from stoker.kube.runtime.backoff import Backoff
from stoker.telemetry.health import Heartbeat
from stoker.telemetry.logs import bind_pass, get_logger

if TYPE_CHECKING:
    from stoker.agent.loop.metrics import SyncMetrics

GRACE = 30.0
HOLD_CHECK_SECONDS = 5.0
"""Seconds until the loop checks again whether a held path is free."""
JITTER = 0.1
MAX_RETRY_SECONDS = 60.0
MAX_PAUSE_SECONDS = 3600.0
STUCK_SECONDS = 7200.0

log = get_logger(__name__)


class SyncableFolder(Protocol):
    """A data folder that can be synced and checked for drift."""

    async def sync(self, *, walk: bool) -> SyncReport: ...

    async def verify(self) -> FolderDrift: ...


@dataclass(frozen=True, slots=True)
class SyncAssignment:
    """The folder to sync, and how often; requested before each iteration, because it may have changed."""

    kept: SyncableFolder | None
    """None: paused, no sync starts."""
    interval: float = 30.0
    """Seconds between two polls of the source; infinite: sync only when triggered."""
    drift: DriftPolicy = field(default_factory=DriftPolicy)


class SyncLoop:
    """Runs syncs until `stop`."""

    def __init__(
        self,
        assign: Callable[[], Awaitable[SyncAssignment]],
        *,
        meter: SyncMetrics | None = None,
        told: Callable[[SyncReport], None] | None = None,
        clock: Clock | None = None,
        backoff: Backoff | None = None,
        random: Callable[[], float] = chance.random,
        grace: float = GRACE,
    ) -> None:
        self._assign = assign
        self._meter = meter
        self._told = told
        self._clock = clock if clock is not None else SystemClock()
        self._backoff = backoff if backoff is not None else Backoff(base=1.0, ceiling=300.0)
        self._random = random
        self._grace = grace
        self._wake = asyncio.Event()
        self._stopping = asyncio.Event()
        self._nudged_by = "start"
        self._next_look = self._next_drift = self._not_before = -math.inf
        self._opens: datetime | None = None
        self.trigger = ""
        """The trigger of the last sync."""
        self._failures = 0
        self._story = LogDedup()
        self.heartbeat = Heartbeat(self._clock, STUCK_SECONDS)

    def nudge(self, by: str) -> None:
        """Sync now, or as soon as the running sync is over."""
        self._nudged_by = by
        self._wake.set()

    def stop(self) -> None:
        """Make `run` return after the running sync."""
        self._stopping.set()
        self._wake.set()

    def why_not_ready(self) -> str | None:
        """For the readiness probe: return why no sync has succeeded yet; None once the files are in place."""
        if self._story.commit:
            return None
        return self._story.trouble or "no sync has finished yet"

    async def run(self) -> None:
        while not self._stopping.is_set():
            self.heartbeat.beat()
            await self._finished(self._turn())
            if not self._stopping.is_set():
                await self._rest()
        log.info("watch.stopped")

    async def _turn(self) -> None:
        """Run the work that is due; no error leaves this method."""
        nudged_by, self._nudged_by = self._nudged_by, ""
        self._wake.clear()  # triggers from now on cause another iteration
        try:
            now = await self._assign()
            if now.kept is None:
                self._story.paused()
                self._opens = None
                self._next_look = self._next_drift = self._in(now.interval)
                return
            await self._due(now.kept, now, nudged_by)
        except StokerError as error:
            self._failed(error)
        except Exception as error:
            log.exception("sync.crashed")  # a bug in Stoker must not end the loop
            self._failed(StokerError(f"{type(error).__name__}: {error}"))
        else:
            self._not_before = -math.inf

    async def _due(self, kept: SyncableFolder, now: SyncAssignment, nudged_by: str) -> None:
        moment = self._clock.monotonic()
        if now.drift.mode is DriftMode.OFF:
            self._next_drift = math.inf
        elif self._next_drift > moment + now.drift.interval:  # off or less frequent until now
            self._next_drift = moment
        drift_is_due = moment >= self._next_drift
        restore = drift_is_due and now.drift.mode is DriftMode.RESTORE
        opened = self._until_opened() <= 0
        trouble: StokerError | None = None
        if restore or nudged_by or opened or moment >= self._next_look:
            self.trigger = nudged_by or ("window" if opened else "drift" if restore else "poll")
            with bind_pass(trigger=self.trigger):
                try:
                    self._next_look = self._in(await self._look(kept, now.interval, walk=restore))
                except StokerError as error:  # an unreachable source is no reason to skip the drift check
                    trouble = error
                    self._tell(error)  # log here, where the line gets the id of its sync
        if drift_is_due:
            if not restore or (trouble is not None and not isinstance(trouble, _RepeatSync | Wait)):
                await self._check(kept)
            self._next_drift = self._in(now.drift.interval)
        if trouble is not None:
            raise trouble

    async def _check(self, kept: SyncableFolder) -> None:
        """Check the disk for drift; a folder that was never synced has none."""
        try:
            self._drift_found(await kept.verify())
        except Stalled as error:
            if error.reason is not Reason.NEVER_SYNCED:
                raise

    async def _look(self, kept: SyncableFolder, interval: float, *, walk: bool) -> float:
        """Sync; return the seconds until the next sync."""
        self._opens = None
        report = await kept.sync(walk=walk)
        self._opens = report.waits.until if report.waits is not None else None
        if self._meter is not None:
            self._meter.passed(report)
        if walk:
            self._story.drifted(report.drift)
        if self._story.passed(report) and self._told is not None:
            self._told(report)
        if walk:  # drift has been restored, unless it waits or is held
            self._drift_found(report.drift_left)
        if report.result not in (SyncResult.DONE, SyncResult.HELD, SyncResult.WAITING):
            raise _RepeatSync("sync incomplete; retrying with backoff")
        self._failures = 0
        return min(HOLD_CHECK_SECONDS, interval) if report.result is SyncResult.HELD else interval

    def _drift_found(self, drift: FolderDrift) -> None:
        if self._meter is not None:
            self._meter.drifted(_drifted_file_count(drift))
        self._story.drifted(drift)

    def _failed(self, error: StokerError) -> None:
        self._failures += 1
        if not isinstance(error, _RepeatSync):
            result = SyncResult.STALLED if isinstance(error, Stalled) else SyncResult.FAILED
            if self._meter is not None:
                self._meter.failed(result, error.reason)
        self._tell(error)
        self._not_before = self._clock.monotonic() + self._pause(error)
        self._next_look = self._not_before

    def _tell(self, error: StokerError) -> None:
        """Log the error, unless the report of the sync was already logged."""
        if not isinstance(error, _RepeatSync):
            self._story.failed(error)

    def _pause(self, error: StokerError) -> float:
        if isinstance(error, Wait):  # nothing failed, so the pause does not grow
            return min(max(self._backoff.delay(1), error.after), MAX_PAUSE_SECONDS)
        pause = self._backoff.delay(self._failures)
        after = error.after if isinstance(error, Retry) else None
        return pause if after is None else min(max(pause, after), MAX_PAUSE_SECONDS)

    def _in(self, interval: float) -> float:
        """Return a time slightly before the interval ends, at random: many gateways must not poll at once."""
        return self._clock.monotonic() + interval * (1.0 - JITTER * self._random())

    def _until_opened(self) -> float:
        """Return the seconds until the awaited window opens, by the wall clock, which may be adjusted."""
        return math.inf if self._opens is None else (self._opens - self._clock.now()).total_seconds()

    async def _rest(self) -> None:
        moment = self._clock.monotonic()
        due = min(self._next_look, self._next_drift, moment + self._until_opened())
        pause = min(max(due, self._not_before) - moment, MAX_RETRY_SECONDS)
        if pause > 0:
            await wait_for_first(self._clock.sleep(pause), self._wake.wait())

    async def _finished(self, work: Coroutine[object, object, None]) -> None:
        """Wait for the work to end; once `stop` is called, wait at most for the grace period."""
        task = asyncio.ensure_future(work)
        try:
            await wait_for_first(asyncio.shield(task), self._stopping.wait())
            if not task.done():
                await wait_for_first(asyncio.shield(task), self._clock.sleep(self._grace))
            if not task.done():
                log.warning("watch.cut_off", grace=self._grace)
        finally:
            task.cancel()
            await asyncio.wait([task])


def _drifted_file_count(drift: FolderDrift) -> int:
    return len(drift.modified) + len(drift.missing) + len(drift.extra)


class _RepeatSync(StokerError):
    """An incomplete sync that was already reported and has to be repeated."""

    default_reason = Reason.TRANSIENT_ERROR
