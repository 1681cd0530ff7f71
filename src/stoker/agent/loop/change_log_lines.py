"""Log lines along the way of a change: what set it off, when all of it lay ready, what became of it.

A hook like the others (`stoker.agent.sync.hooks`), and the first of them, so that a line is
written before a gateway or a script is asked for anything. A pass that finds nothing to
do calls none, hence says nothing. It must never hold a place or stop a pass. How the
pass ended as a whole is told by `stoker.agent.loop.log_dedup`.
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
    """The lines of one data folder (R-OBS-30)."""

    def __init__(self, clock: Clock, *, mappings: int, source: Callable[[], str]) -> None:
        """`source` says what set a pass off, in the words of the audit."""
        self._clock = clock
        self._mappings = mappings
        self._source = source
        self._began = 0.0

    async def hold(self, change: SyncChange) -> tuple[HeldPath, ...]:
        """The plan stands and will be carried out; from now on contents are fetched and staged."""
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
