"""One of a gateway's two scans as far as it can be locked, and the changes that wait meanwhile.

A lock is taken by a client, waits for the gateway's own change and for a scan
under way, and ends with the next scan that is asked for or when its time is over.
While it is held, the gateway's own changes queue.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from enum import StrEnum

WAIT_INTERVAL = 0.02


class ScanLockKind(StrEnum):
    PROJECTS = "projects"
    CONFIG = "config"


class ScanLockResult(StrEnum):
    """The result of an attempt to take the scan lock."""

    TAKEN = "taken"
    BY_ANOTHER = "held by another"
    NOT_IN_TIME = "not in time"


class Scanning:
    """One of the two scans, and the lock that goes with it."""

    def __init__(self, write: Callable[[str, bytes], None]) -> None:
        self.active = False
        self.again = False
        self.releases = False
        """The scan under way was asked for from outside: it gives the lock back."""
        self.finished_ms = 0
        self.took_ms = 0
        self.saving = False
        """The gateway is in the middle of a change of its own: the lock must wait for it."""
        self.queue: list[tuple[str, bytes]] = []
        self._write = write
        self._ends: float | None = None

    async def take(self, acquire: float, hold: float) -> ScanLockResult:
        deadline = time.monotonic() + acquire
        while self.saving or self.active:
            if time.monotonic() >= deadline:
                return ScanLockResult.NOT_IN_TIME
            await asyncio.sleep(WAIT_INTERVAL)
        if self.locked():
            return ScanLockResult.BY_ANOTHER
        self._ends = time.monotonic() + hold
        asyncio.get_running_loop().call_later(hold + WAIT_INTERVAL, self.locked)
        return ScanLockResult.TAKEN

    def locked(self) -> bool:
        """Whether a client holds it; an expired one is released here."""
        if self._ends is not None and time.monotonic() >= self._ends:
            self.unlock()
        return self._ends is not None

    def left(self) -> float:
        """Seconds until it expires."""
        return max(0.0, (self._ends or 0.0) - time.monotonic())

    def unlock(self) -> None:
        self._ends = None
        queued, self.queue = self.queue, []
        for path, content in queued:
            self._write(path, content)

    def save(self, path: str, content: bytes) -> bool:
        """Whether it was written at once and not queued."""
        if self.locked():
            self.queue.append((path, content))
            return False
        self._write(path, content)
        return True

    def forget(self) -> None:
        """A restart: no lock is held, and waiting requests are lost."""
        self._ends, self.queue = None, []
