"""The log lines of a sync: the steps of a change, and the results of the loop without repetition.

`ChangeLogHook` is the first of the hooks (`stoker.agent.sync.hooks`), so that it logs before any other hook
contacts a gateway or runs a script. A sync without changes calls no hook and so logs nothing there. It must
never hold a path or stop a sync. `LogDedup` writes one line for each result that is new, one for each new
error and one when the error is over. It writes nothing while nothing happens.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from stoker.agent.sync.hooks import SyncChange
from stoker.agent.sync.jobs import SyncResult
from stoker.agent.sync.sync_report import SyncReport
from stoker.domain.clock import Clock
from stoker.domain.errors import StokerError
from stoker.domain.git_objects import HeldPath, PathNote
from stoker.domain.reasons import Reason
from stoker.engine.plan.drift import FolderDrift
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


class LogDedup:
    """Remembers the last logged state and logs only differences."""

    def __init__(self) -> None:
        self.commit = ""
        self.trouble = ""
        self._left: tuple[object, ...] = ()
        self._happened: object = ""
        self._drift: tuple[object, ...] = ()
        self._is_paused = False
        self._skipped: tuple[str, ...] = ()

    def passed(self, report: SyncReport) -> bool:
        """Log the report where it is new; return whether it was."""
        done, held = report.done, (PathNote(one.place, one.why) for one in report.plan.held)
        left = (*report.errors, *report.plan.conflicts, *report.unverified, *held)
        dry = report.applied is None
        # A dry run finds the same changes each time, so compare its digest; an apply does not repeat.
        happened = (report.plan.digest if dry else report.files_changed) or ""
        changed = self.commit != report.commit or (happened != self._happened if dry else bool(happened))
        if changed or left != self._left or self.trouble:
            say = log.info if report.result in (SyncResult.DONE, SyncResult.WAITING) else log.warning
            if dry and report.waits is None:
                log.info(f"dry run: would change {report.files_changed} files")
            say(
                f"sync.{report.result}",
                ref=report.ref,
                commit=report.commit.short,
                added=len(done.added),
                modified=len(done.modified),
                deleted=len(done.deleted),
                seconds=round(report.duration_seconds, 3),
                **({"dry_run": True} if dry else {}),
                **({"waits": report.waits.message} if report.waits is not None else {}),
                **({"left": [f"{note.path}: {note.why}" for note in left[:10]]} if left else {}),
            )
        skipped = report.skipped.lines
        if skipped != self._skipped and skipped:
            log.warning("sync.skipped", total=report.skipped.total, skipped=list(skipped))
        elif skipped != self._skipped:
            log.info("sync.nothing_skipped")
        told = changed or left != self._left or skipped != self._skipped
        self._skipped = skipped
        self.commit, self.trouble, self._left, self._is_paused = report.commit, "", left, False
        self._happened = happened
        return told

    def failed(self, error: StokerError) -> None:
        sentence = f"{error.reason}: {error.message}"
        if sentence != self.trouble:
            log.warning("sync.failed", reason=error.reason, error=error.message)
        self.trouble = sentence

    def drifted(self, drift: FolderDrift) -> None:
        found = (drift.modified, drift.missing, drift.extra)
        if found != self._drift and any(found):
            counts = {"modified": drift.modified, "missing": drift.missing, "extra": drift.extra}
            log.warning("drift.found", **{word: list(paths[:10]) for word, paths in counts.items() if paths})
        elif found != self._drift and any(self._drift):
            log.info("drift.gone")
        self._drift = found

    def paused(self) -> None:
        if not self._is_paused:
            log.info("sync.paused", reason=Reason.PAUSED)
        self._is_paused = True
