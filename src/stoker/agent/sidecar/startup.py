"""The first sync of a pod, for which its gateway waits.

Whether it has been done is written on the volume that lives as long as the pod
(C-101): a container that is started again beside a running gateway must not take its
next sync for one that nobody sees. The gateway is let go when the first sync is done,
or, if that cannot be had within the startup budget, when an earlier one left files to
start with (C-111). From that moment on nothing counts as initial any more.
"""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from pathlib import Path

from stoker.agent.identity import AgentPaths
from stoker.agent.sync.outcomes import SyncResult
from stoker.agent.sync.sync_report import SyncReport
from stoker.domain.clock import Clock
from stoker.domain.failpoints import reach_failpoint
from stoker.fs.ledger_store import MANIFEST
from stoker.kube.client.deadlines import deadline
from stoker.telemetry.logs import get_logger

MARKER = ".stoker-initial-sync-done"
INITIAL_SYNC_SECONDS = 300.0
POLL_SECONDS = 1.0

log = get_logger(__name__)


class StartupGate:
    """Whether the gateway may start, and whether it may have."""

    def __init__(self, places: AgentPaths, clock: Clock) -> None:
        self._marker = places.temporary / MARKER
        self._manifest = places.data / MANIFEST
        self._clock = clock
        self._began = clock.monotonic()
        self._trouble = "no sync has been done yet"
        self.budget = INITIAL_SYNC_SECONDS
        """What the resource says, as soon as it is known."""
        self.done = asyncio.Event()
        if self._marker.exists():
            self.done.set()

    @property
    def initial(self) -> bool:
        """The gateway has not been started: nobody can be asked, and nothing has to be scanned."""
        return not self.done.is_set()

    @property
    def synced_before(self) -> bool:
        """Whether an earlier sync, of this pod or another, left a ledger on the data volume."""
        return self._manifest.exists()

    def passed(self, report: SyncReport) -> None:
        """A pass came to its end."""
        if report.result is SyncResult.PARTIAL:
            self._trouble = "the first sync could not deliver everything"
        elif self.initial:
            self._finish("done")

    def stays(self) -> None:
        """A commit was taken back: what lies there is what the gateway last bore."""
        if self.initial:
            self._finish("a commit is kept out; the gateway starts with what it had before")

    def failed(self, why: str) -> None:
        self._trouble = why

    def why_not(self) -> str | None:
        """For the startup and the readiness probe."""
        if self.initial and self._clock.monotonic() - self._began >= self.budget and self.synced_before:
            self._finish("out of time; the gateway starts with what an earlier sync left")
        return self._trouble if self.initial else None

    async def over(self) -> None:
        """Wait until the gateway may start; for who is asked by no probe."""
        while self.why_not() is not None:
            with suppress(TimeoutError):
                async with deadline(self._clock, POLL_SECONDS):
                    await self.done.wait()

    def _finish(self, how: str) -> None:
        log.info("startup.over", how=how, seconds=round(self._clock.monotonic() - self._began, 3))
        reach_failpoint("startup.mark.before")
        try:
            _touch(self._marker)
            reach_failpoint("startup.mark.after")
        except OSError as error:
            # Without it a restarted container would skip one scan, which the next change makes up for.
            log.warning("startup.unmarked", path=str(self._marker), error=error.strerror)
        self.done.set()


def _touch(path: Path) -> None:
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
