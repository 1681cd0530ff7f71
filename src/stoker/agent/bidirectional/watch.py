"""The loop of bidirectional sync: notice changes, wait until writes have settled, run a step.

Nothing runs while nothing happens: the kernel reports the changed paths, and only those are looked at.
Because the kernel can lose events, the loop also compares everything every few minutes. A failed step is
retried with growing pauses, and then compares everything.
"""

from __future__ import annotations

import asyncio
import math
from contextlib import suppress
from pathlib import Path

from stoker.agent.bidirectional.capture import ChangeCapture
from stoker.domain.clock import Clock
from stoker.domain.errors import StokerError
from stoker.fs.watch.paths import ChangedPaths, PathWatch
from stoker.kube.client.deadlines import wait_for_first
from stoker.kube.runtime.backoff import Backoff
from stoker.telemetry.logs import get_logger

COMPARE_SECONDS = 300.0
UNWATCHED_COMPARE_SECONDS = 60.0
"""Used if the kernel cannot watch all folders."""
RETRY_SECONDS = 2.0
MAX_DEBOUNCE_FACTOR = 10
"""After this many debounce times, a file that is still being written is looked at anyway."""

log = get_logger(__name__)


class CaptureLoop:
    """Runs the steps of one gateway; `start` it and `aclose` it."""

    def __init__(
        self,
        capturing: ChangeCapture,
        root: Path,
        clock: Clock,
        *,
        debounce: float,
        compare: float = COMPARE_SECONDS,
    ) -> None:
        self.capturing = capturing
        self._clock = clock
        self._debounce = debounce
        self._compare = min(compare, COMPARE_SECONDS)
        self._backoff = Backoff(base=1.0, ceiling=60.0)
        self.notices = PathWatch(root, capturing.allowed.enters, capturing.allowed.takes, self._heard)
        self._told = asyncio.Event()
        self._last = -math.inf
        self._next = -math.inf
        self._retry_at = math.inf
        self._failures = 0
        self._trouble = ""
        self._task: asyncio.Task[None] | None = None
        self._resting = False

    @property
    def rests(self) -> bool:
        """Whether all noticed changes have been processed."""
        return self._resting and not self._told.is_set() and not self.capturing.poked.is_set()

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="capturing")

    async def aclose(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
        self.notices.close()

    def _heard(self) -> None:
        self._last = self._clock.monotonic()
        self._told.set()

    async def _run(self) -> None:
        await self.notices.start()
        log.info("changes.watched", folders=self.notices.watches, blind=self.notices.blind)
        while True:
            await self._until_due()
            await self._until_quiet()
            self._told.clear()
            self.capturing.poked.clear()
            now = self._clock.monotonic()
            noticed = self.notices.take()
            if now >= min(self._next, self._retry_at):
                noticed = ChangedPaths(everything=True)
            await self._step(noticed)

    async def _step(self, noticed: ChangedPaths) -> None:
        self._retry_at = math.inf
        try:
            if noticed.everything and self.capturing.may:
                await self.capturing.check_sent()
            async with self.capturing.lock:
                step = await self.capturing.step(noticed)
            if step.parcel is not None:
                await self.capturing.post(step.parcel)
        except StokerError as error:
            self._failed(f"{error.reason}: {error.message}")
        except Exception as error:
            log.exception("changes.crashed")  # a bug in Stoker must not end the loop
            self._failed(f"{type(error).__name__}: {error}")
        else:
            self._failures, self._trouble = self._failures + 1 if step.again else 0, ""
            if step.again:
                pause = max(self._debounce, self._backoff.delay(self._failures))
                self._retry_at = self._clock.monotonic() + pause
            elif not step.done:
                self._retry_at = self._clock.monotonic() + RETRY_SECONDS
        if noticed.everything:
            every = min(self._compare, UNWATCHED_COMPARE_SECONDS) if self.notices.blind else self._compare
            self._next = self._clock.monotonic() + every

    def _failed(self, what: str) -> None:
        if what != self._trouble:
            log.warning("changes.failed", error=what)
        self._trouble = what
        self._failures += 1
        self._retry_at = self._clock.monotonic() + self._backoff.delay(self._failures)

    async def _until_due(self) -> None:
        pause = min(self._next, self._retry_at) - self._clock.monotonic()
        if pause <= 0 or self._told.is_set() or self.capturing.poked.is_set():
            return
        self._resting = True
        try:
            await wait_for_first(self._clock.sleep(pause), self._told.wait(), self.capturing.poked.wait())
        finally:
            self._resting = False

    async def _until_quiet(self) -> None:
        """Wait until no change was noticed for the debounce time, so that a burst of saves is one change."""
        began = self._clock.monotonic()
        while self._told.is_set():
            now = self._clock.monotonic()
            quiet_at = min(self._last + self._debounce, began + MAX_DEBOUNCE_FACTOR * self._debounce)
            if now >= quiet_at:
                return
            await self._clock.sleep(quiet_at - now)
