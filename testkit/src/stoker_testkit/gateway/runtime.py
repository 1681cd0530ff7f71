"""The runtime of the test gateway: its state, its scans, its restarts.

No HTTP here; `rest_api` asks it. Everything runs in one event loop, only the
reading of the folder is handed to a thread. A scan is asked for at once, reads the
folder a while later and then publishes what it loaded, as the real one does.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from enum import StrEnum
from pathlib import Path

from stoker_testkit.gateway.atomic_write import put_file
from stoker_testkit.gateway.resource_reader import look_at
from stoker_testkit.gateway.scan_loader import LoadedProject, LoadedResource, ScanLoader
from stoker_testkit.gateway.scan_lock import ScanLockKind, ScanLockResult, Scanning
from stoker_testkit.gateway.sessions import Designer, PerspectiveBrowser, Sessions
from stoker_testkit.gateway.settings import GatewaySettings, Role
from stoker_testkit.gateway.startup import Modules, commission, installed_modules
from stoker_testkit.gateway.tag_providers import Tags, read_tags
from stoker_testkit.gateway.torn_reads.scan_recorder import ScanRecorder

__all__ = ["Designer", "GatewayRuntime", "PerspectiveBrowser", "ScanLockKind", "ScanLockResult", "State"]


class State(StrEnum):
    STARTING = "STARTING"
    RUNNING = "RUNNING"
    FAULTED = "FAULTED"


class GatewayRuntime:
    """One gateway without its web server."""

    def __init__(
        self,
        data_dir: Path,
        settings: GatewaySettings,
        *,
        scan_seconds: float,
        runs_as: int,
        commissions: bool,
    ) -> None:
        self.settings = settings
        self.state = State.STARTING
        self.faults: list[str] = []
        """Why it faulted: the files that it cannot write."""
        self.active = settings.role is not Role.BACKUP
        """Of a redundant pair, whether it is the one that works."""
        self.scan_seconds = scan_seconds
        self.projects: Mapping[str, LoadedProject] = {}
        self.config: Mapping[str, LoadedResource] = {}
        self.tags = Tags()
        self.modules = Modules()
        self.pending: list[str] = []
        """Tasks that wait for a restart."""
        self.sessions = Sessions()
        self.witness = ScanRecorder()
        self.kinds = {kind: Scanning(self._write) for kind in ScanLockKind}
        self.scans_done = 0
        self.random_scans = 0
        self.after_scan: Callable[[], Awaitable[None]] | None = None
        """Awaited after each scan that was asked for: how a master reaches its backup."""
        self._uid = runs_as
        self._commissions = commissions
        self._loader = ScanLoader(data_dir, self.witness)
        self._reading = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()
        self._wandering: asyncio.Task[None] | None = None

    @property
    def data_dir(self) -> Path:
        return self._loader.data_dir

    @property
    def refuses_edits(self) -> bool:
        """A backup takes its configuration from its master as long as there is one."""
        return self.settings.role is Role.BACKUP and not self.active

    async def boot(self, seconds: float = 0.0) -> None:
        """Start, or start again: everything is read anew, and nothing that was read badly is held."""
        self.state, self.faults = State.STARTING, []
        self._loader = loader = ScanLoader(self.data_dir, self.witness)
        self.sessions.end_all()
        for scanning in self.kinds.values():
            scanning.forget()
        await asyncio.sleep(seconds)
        if self._commissions:
            await asyncio.to_thread(commission, self.data_dir)
        self.faults = await asyncio.to_thread(loader.unwritable, self._uid)
        if loader is not self._loader:
            return  # it was asked to start once more meanwhile
        if self.faults:
            self.state = State.FAULTED
            return
        self.modules = await asyncio.to_thread(installed_modules, self.data_dir)
        for kind in ScanLockKind:
            await self.load(kind, rewrites=True)
        if loader is self._loader:
            self.pending = []
            self.state = State.RUNNING

    def restart(self, seconds: float) -> None:
        """Start again, and be STARTING from now on."""
        self.state = State.STARTING
        self._start(self.boot(seconds))

    def restart_soon(self) -> None:
        """The same as the gateway does it when it is asked to: not at once."""
        loop = asyncio.get_running_loop()
        loop.call_later(self.settings.restart_delay, self.restart, self.settings.restart_seconds)

    def ask_for_scan(self, kind: ScanLockKind, *, releases: bool) -> None:
        """Accepted at once; one that is asked for during another runs after it."""
        scanning = self.kinds[kind]
        scanning.releases |= releases
        if scanning.active:
            scanning.again = True
            return
        scanning.active = True
        self._start(self._scan(kind))

    def scan_at_random(self, rate: float, seed: int | None = None) -> None:
        """Scan everything `rate` times a second on average, even while a lock is held; 0 ends it."""
        if self._wandering is not None:
            self._wandering.cancel()
            self._wandering = None
        if rate > 0:
            chance = random.Random(seed)  # noqa: S311 - nothing is protected by it
            self._wandering = self._start(self._wander(rate, chance))

    def save(self, path: str, content: bytes) -> bool:
        """A change from a Designer: written now, or queued while the lock is held."""
        return self.kinds[ScanLockKind.CONFIG if path.startswith("config/") else ScanLockKind.PROJECTS].save(
            path, content
        )

    async def stale(self) -> list[str]:
        """Every resource that any scan ever read wrong."""
        async with self._reading:
            return await asyncio.to_thread(self.witness.stale, lambda name: look_at(self.data_dir / name))

    def poisoned(self) -> list[str]:
        """The resources that are held wrong now."""
        return self._loader.poisoned()

    async def load(self, kind: ScanLockKind, *, rewrites: bool) -> None:
        """Read the folder and publish what is there."""
        async with self._reading:
            loader, began = self._loader, time.monotonic()
            writes = rewrites and self.settings.rewrites and not self.refuses_edits
            if kind is ScanLockKind.PROJECTS:
                projects = await asyncio.to_thread(loader.projects, rewrites=writes)
            else:
                config = await asyncio.to_thread(loader.config, rewrites=writes)
                tags = await asyncio.to_thread(read_tags, self.data_dir, config)
            if loader is not self._loader:
                return  # it was restarted meanwhile
            if kind is ScanLockKind.PROJECTS:
                self.projects = projects
            else:
                self.config, self.tags = config, tags
        scanning = self.kinds[kind]
        scanning.finished_ms = int(time.time() * 1000)
        scanning.took_ms = int((time.monotonic() - began) * 1000)
        self.scans_done += 1

    async def _scan(self, kind: ScanLockKind) -> None:
        scanning = self.kinds[kind]
        try:
            while True:
                scanning.again = False
                await asyncio.sleep(self.scan_seconds)
                # A scan of its own that runs while a client holds the lock only reads.
                await self.load(kind, rewrites=scanning.releases or not scanning.locked())
                if not scanning.again:
                    break
            if self.after_scan is not None:
                await self.after_scan()
        finally:
            scanning.active = False
            if scanning.releases:
                scanning.releases = False
                scanning.unlock()

    async def _wander(self, rate: float, chance: random.Random) -> None:
        """Looks only: what it finds is published and remembered, and nothing is written."""
        while True:
            await asyncio.sleep(chance.expovariate(rate))
            if self.state is State.RUNNING:
                for kind in ScanLockKind:
                    await self.load(kind, rewrites=False)
                self.random_scans += 1

    def _start(self, work: Coroutine[object, object, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _write(self, path: str, content: bytes) -> None:
        put_file(self.data_dir, self.data_dir / path, content)
