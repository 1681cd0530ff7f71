"""The startup gate: the gateway of a pod starts only after the pod's first sync.

A marker on the volume that lives as long as the pod records that the first sync is done. Without it, a
container that restarts beside a running gateway would treat its next sync as initial and skip the gateway.
The gate opens when the first sync is done. If that does not happen within the startup budget, it opens when
an earlier sync has left files to start with. After that no sync counts as initial.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from stoker.agent.identity import AgentPaths
from stoker.agent.sync.jobs import SyncResult
from stoker.agent.sync.sync_report import SyncReport
from stoker.domain.clock import Clock
from stoker.domain.failpoints import reach_failpoint
from stoker.fs.ledger_store import MANIFEST
from stoker.kube.client.deadlines import wait_for_event
from stoker.telemetry.logs import get_logger

MARKER = ".stoker-initial-sync-done"
INITIAL_SYNC_SECONDS = 300.0
POLL_SECONDS = 1.0

log = get_logger(__name__)


class StartupGate:
    """Whether the gateway may start, and so whether it may be running."""

    def __init__(self, places: AgentPaths, clock: Clock) -> None:
        self._marker = places.temporary / MARKER
        self._manifest = places.data / MANIFEST
        self._clock = clock
        self._began = clock.monotonic()
        self._trouble = "no sync has finished yet"
        self.budget = INITIAL_SYNC_SECONDS
        """The startup budget in seconds; set from the resource as soon as it is known."""
        self.done = asyncio.Event()
        if self._marker.exists():
            self.done.set()

    @property
    def initial(self) -> bool:
        """Whether the gateway has not been started: it answers no requests and needs no scan."""
        return not self.done.is_set()

    @property
    def synced_before(self) -> bool:
        """Whether an earlier sync, of this pod or another, left a ledger on the data volume."""
        return self._manifest.exists()

    def passed(self, report: SyncReport) -> None:
        """Record a finished sync."""
        if report.result is SyncResult.PARTIAL:
            self._trouble = "the first sync could not deliver everything"
        elif self.initial:
            self._finish("done")

    def stays(self) -> None:
        """Open the gate after a rollback: the files on disk are those the gateway last ran with."""
        if self.initial:
            self._finish(
                "the commit was rolled back and is not retried; the gateway starts with its previous files"
            )

    def failed(self, why: str) -> None:
        self._trouble = why

    def why_not(self) -> str | None:
        """For the startup and readiness probes: return why the gateway may not start; None once it may."""
        if self.initial and self._clock.monotonic() - self._began >= self.budget and self.synced_before:
            self._finish("startup timeout reached; the gateway starts with the files of an earlier sync")
        return self._trouble if self.initial else None

    async def over(self) -> None:
        """Wait until the gateway may start; for an init container, which has no probes."""
        while self.why_not() is not None:
            await wait_for_event(self.done, self._clock, POLL_SECONDS)

    def _finish(self, how: str) -> None:
        log.info("startup.over", how=how, seconds=round(self._clock.monotonic() - self._began, 3))
        reach_failpoint("startup.mark.before")
        try:
            _touch(self._marker)
            reach_failpoint("startup.mark.after")
        except OSError as error:
            # Without the marker, a restarted container skips one scan; the next change scans again.
            log.warning("startup.unmarked", path=str(self._marker), error=error.strerror)
        self.done.set()


def _touch(path: Path) -> None:
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
