"""A sync that writes files and asks the gateway nothing (`--files-only`, `spec.gateway.filesOnly`).

Takes the place of `gateway_hook` among the hooks of a pass. It remembers on the data volume
that a scan is pending, so that the first sync that asks the gateway again makes it load what
was written meanwhile. It must never open a connection.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Protocol

from stoker.domain.git_objects import Held, Note
from stoker.engine.plan.plan import Plan
from stoker.ignition.content.modules import modules_changed
from stoker.ignition.content.projects import Touched
from stoker.ignition.sync.pending_work import Debt, ScanDebt
from stoker.ignition.sync.state_files import Marks


class Change(Protocol):
    """What is about to happen, or has (`stoker.agent.sync.hooks`)."""

    @property
    def plan(self) -> Plan: ...


class FilesOnly:
    """The hook of one data folder whose gateway is not asked."""

    def __init__(self, state_dir: Path) -> None:
        self._pending = ScanDebt(Marks(state_dir))

    async def hold(self, change: Change) -> tuple[Held, ...]:
        return ()

    @asynccontextmanager
    async def around(self, change: Change) -> AsyncIterator[None]:
        """Remember the scan before the first live change, so that a kill in between does not lose it."""
        if change.plan.actions:
            gone = Touched.by(change.plan).gone
            self._pending.incur(Debt(True, gone, frozenset(modules_changed(change.plan))))
        yield

    async def after(self, change: Change, applied: object) -> tuple[Note, ...]:
        return ()
