"""A sync that writes files and sends no request to the gateway (`--files-only`, `spec.gateway.filesOnly`).

Replaces `gateway_hook` among the hooks of a sync and of a rollback. It records on the data
volume that a scan is pending, so that the first sync that calls the gateway again makes it load
the files written meanwhile. The stored inventory of modules and tag providers still applies
(`stored_inventory`). It must never open a connection.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Protocol

from stoker.domain.git_objects import HeldPath, PathNote
from stoker.domain.intent.files import FilesIntent
from stoker.domain.intent.policies import IgnitionPolicy
from stoker.engine.plan.plan import SyncPlan
from stoker.ignition.content.modules import modules_changed
from stoker.ignition.content.projects import AffectedContent
from stoker.ignition.sync.pending_work import PendingWork, PendingWorkStore
from stoker.ignition.sync.state_files import StateFiles
from stoker.ignition.sync.stored_inventory import StoredInventory


class FilesOnlyChange(Protocol):
    """The planned or applied change (`stoker.agent.sync.hooks`)."""

    @property
    def plan(self) -> SyncPlan: ...


class FilesOnlyHook:
    """The hook of a data folder whose gateway is not called."""

    def __init__(self, state_dir: Path, policy: IgnitionPolicy | None = None) -> None:
        self._marks = StateFiles(state_dir)
        self._policy = policy if policy is not None else IgnitionPolicy()
        self._pending = PendingWorkStore(self._marks)

    def fitted(self, files: FilesIntent) -> FilesIntent:
        """Return the files without content that the gateway gets elsewhere, by the stored inventory."""
        return StoredInventory.read(self._marks).fitted(files, self._policy)

    async def hold(self, change: FilesOnlyChange) -> tuple[HeldPath, ...]:
        return ()

    @asynccontextmanager
    async def around(self, change: FilesOnlyChange) -> AsyncIterator[None]:
        """Record the scan before the first live change, so that a kill in between does not lose it."""
        if change.plan.actions:
            gone = AffectedContent.by(change.plan).gone
            self._pending.incur(PendingWork(True, gone, frozenset(modules_changed(change.plan))))
        yield

    async def after(self, change: FilesOnlyChange, applied: object) -> tuple[PathNote, ...]:
        return ()
