"""A sync hook that logs the start of a change, the end of its staging, and its result.

It is the first of the hooks (`stoker.agent.sync.hooks`), so that it logs before any other hook contacts a
gateway or runs a script. A sync without changes calls no hook and so logs nothing here. This hook must never
hold a path or stop a sync. `stoker.agent.loop.log_dedup` logs the result of the whole sync.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from stoker.agent.sync.hooks import SyncChange
from stoker.domain.clock import Clock
from stoker.domain.git_objects import HeldPath, PathNote
from stoker.fs.apply_plan import ApplyResult
from stoker.telemetry.logs import get_logger

log = get_logger(__name__)


class ChangeLogHook:
    """Logs the changes of one data folder."""

    def __init__(self, clock: Clock, *, mappings: int, source: Callable[[], str]) -> None:
        """`source` returns the trigger of the sync, in the words of the audit log."""
        self._clock = clock
        self._mappings = mappings
        self._source = source
        self._began = 0.0

    async def hold(self, change: SyncChange) -> tuple[HeldPath, ...]:
        """Log the start: the plan is accepted; fetching and staging of contents begins."""
        log.info("sync.triggered", commit=change.commit.short, ref=str(change.ref), source=self._source())
        self._began = self._clock.monotonic()
        return ()

    @asynccontextmanager
    async def around(self, change: SyncChange) -> AsyncIterator[None]:
        log.info(
            "staging.built",
            mappings=self._mappings,
            files=len(change.plan.writes),
            seconds=round(self._clock.monotonic() - self._began, 3),
        )
        yield

    async def after(self, change: SyncChange, applied: ApplyResult) -> tuple[PathNote, ...]:
        log.info(
            "merge.done",
            commit=change.commit.short,
            added=len(applied.added),
            modified=len(applied.modified),
            deleted=len(applied.deleted),
            skipped=len(change.plan.skipped) + len(change.plan.held),
            failed=len(applied.errors),
        )
        return ()
