"""What goes on inside the test gateway: its state, its scans, its scan locks, its own changes.

No HTTP here; `gateway_api` asks it. Everything runs in one event loop, only the
reading of the folder is handed to a thread. A scan is asked for now, reads the
folder a while later and then publishes what it loaded, as the real one does.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from stoker.testing.gateway_loading import LoadedProject, LoadedResource, Loader

WAIT_INTERVAL = 0.02


class State(StrEnum):
    STARTING = "STARTING"
    RUNNING = "RUNNING"
    FAULTED = "FAULTED"


class Kind(StrEnum):
    PROJECTS = "projects"
    CONFIG = "config"


class Held(StrEnum):
    """What an attempt to take the scan lock came to."""

    TAKEN = "taken"
    BY_ANOTHER = "held by another"
    NOT_IN_TIME = "not in time"


@dataclass(frozen=True, slots=True)
class Designer:
    """Somebody who has a project open."""

    id: str
    user: str
    project: str
    address: str = "10.0.0.7"


@dataclass(slots=True)
class Scanning:
    """One of the two scans, and the lock that goes with it."""

    active: bool = False
    again: bool = False
    finished_ms: int = 0
    took_ms: int = 0
    lock_ends: float | None = None
    """When the lock expires, by the monotonic clock; none while it is free."""
    saving: bool = False
    """The gateway is in the middle of a change of its own: the lock must wait for it."""
    queue: list[tuple[str, bytes]] = field(default_factory=list)


class GatewayMind:
    """One gateway without its web server."""

    def __init__(self, data_dir: Path, *, scan_seconds: float, runs_as: int) -> None:
        self.state = State.STARTING
        self.scan_seconds = scan_seconds
        self.projects: Mapping[str, LoadedProject] = {}
        self.config: Mapping[str, LoadedResource] = {}
        self.designers: dict[str, Designer] = {}
        self.kinds = {kind: Scanning() for kind in Kind}
        self.scans_done = 0
        self._uid = runs_as
        self._loader = Loader(data_dir)
        self._tasks: set[asyncio.Task[None]] = set()

    async def boot(self, seconds: float = 0.0) -> None:
        """Start, or start again: everything is read anew, and nothing that was read badly is remembered."""
        self.state = State.STARTING
        self._loader = Loader(self._loader.data_dir)
        for scanning in self.kinds.values():
            scanning.lock_ends, scanning.queue = None, []
        await asyncio.sleep(seconds)
        if await asyncio.to_thread(self._loader.unwritable, self._uid):
            self.state = State.FAULTED
            return
        await self._load(Kind.PROJECTS)
        await self._load(Kind.CONFIG)
        self.state = State.RUNNING

    def ask_for_scan(self, kind: Kind) -> None:
        """Accepted at once; one that is asked for during another runs after it."""
        scanning = self.kinds[kind]
        if scanning.active:
            scanning.again = True
            return
        scanning.active = True
        task = asyncio.get_running_loop().create_task(self._scan(kind))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def take_lock(self, kind: Kind, acquire: float, hold: float) -> Held:
        """Wait for the gateway's own changes and for a scan that is about to give the lock back."""
        scanning = self.kinds[kind]
        deadline = time.monotonic() + acquire
        while scanning.saving or scanning.active:
            if time.monotonic() >= deadline:
                return Held.NOT_IN_TIME
            await asyncio.sleep(WAIT_INTERVAL)
        if self.locked(kind):
            return Held.BY_ANOTHER
        scanning.lock_ends = time.monotonic() + hold
        asyncio.get_running_loop().call_later(hold + WAIT_INTERVAL, self.locked, kind)
        return Held.TAKEN

    def locked(self, kind: Kind) -> bool:
        """Whether somebody outside holds it; one that expired is given back here."""
        ends = self.kinds[kind].lock_ends
        if ends is not None and time.monotonic() >= ends:
            self._unlock(kind)
        return self.kinds[kind].lock_ends is not None

    def save(self, path: str, content: bytes) -> bool:
        """A change from a Designer: written in place now, or queued while the lock is held."""
        kind = Kind.CONFIG if path.startswith("config/") else Kind.PROJECTS
        if self.locked(kind):
            self.kinds[kind].queue.append((path, content))
            return False
        self._write(path, content)
        return True

    def stale(self) -> list[str]:
        return self._loader.stale()

    async def _scan(self, kind: Kind) -> None:
        scanning = self.kinds[kind]
        try:
            while True:
                scanning.again = False
                await asyncio.sleep(self.scan_seconds)
                await self._load(kind)
                if not scanning.again:
                    break
        finally:
            scanning.active = False
            self._unlock(kind)

    async def _load(self, kind: Kind) -> None:
        began = time.monotonic()
        if kind is Kind.PROJECTS:
            self.projects = await asyncio.to_thread(self._loader.projects)
        else:
            self.config = await asyncio.to_thread(self._loader.config)
        scanning = self.kinds[kind]
        scanning.finished_ms = int(time.time() * 1000)
        scanning.took_ms = int((time.monotonic() - began) * 1000)
        self.scans_done += 1

    def _unlock(self, kind: Kind) -> None:
        scanning = self.kinds[kind]
        scanning.lock_ends = None
        queued, scanning.queue = scanning.queue, []
        for path, content in queued:
            self._write(path, content)

    def _write(self, path: str, content: bytes) -> None:
        target = self._loader.data_dir / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
