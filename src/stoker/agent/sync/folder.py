"""Syncs one data folder with its source; shared by `stoker sync` and the agent.

A `FolderSync` keeps the ledger in memory between syncs and reads it again only if another process has written
it meanwhile. `stoker.agent.sync.run` has the steps of a single sync.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TypeAlias

from stoker.agent.sync.builtin_source import BuiltinSource
from stoker.agent.sync.hooks import NoiseFilter, SyncHook
from stoker.agent.sync.jobs import SyncJob, SyncOptions
from stoker.agent.sync.noise_filter import drift_without_noise
from stoker.agent.sync.run import SyncPass
from stoker.agent.sync.shell_hooks import ShellHooks
from stoker.agent.sync.sync_report import DriftCheck, SyncReport
from stoker.agent.sync.threads import run_in_thread
from stoker.domain.clock import Clock, SystemClock
from stoker.domain.errors import Stalled, StokerError
from stoker.domain.reasons import Reason
from stoker.domain.refs import CommitId
from stoker.engine.plan.drift import FolderDrift, find_drift
from stoker.engine.plan.drift_ignore import NO_DRIFT_IGNORED, DriftIgnoreRules
from stoker.engine.plan.ledger import Ledger
from stoker.engine.plan.live import entry_content
from stoker.engine.source_protocol import SourceReader
from stoker.fs.apply_plan import StagingProgress
from stoker.fs.clean_folders import CleanFolderCache
from stoker.fs.data_folder import DataFolder
from stoker.fs.find_changes import scan_folder
from stoker.fs.ledger_store import LedgerStore, lock_folder

FULL_SYNC = SyncOptions()

DriftFilter: TypeAlias = Callable[[FolderDrift, Ledger, DataFolder], Awaitable[FolderDrift]]


class FolderSync:
    """Syncs one data folder. One instance per folder and process; never two syncs at once."""

    def __init__(
        self,
        job: SyncJob,
        reader: SourceReader,
        *,
        hooks: Sequence[SyncHook] = (),
        noise: NoiseFilter | None = None,
        clock: Clock | None = None,
        progress: StagingProgress | None = None,
    ) -> None:
        self.job = job
        self._noise = noise
        self._reader = BuiltinSource(reader)
        self._hooks = (*hooks, ShellHooks(job.hooks, job.data_dir)) if job.hooks else tuple(hooks)
        self._clock = clock if clock is not None else SystemClock()
        self._progress = progress
        self._book: LedgerStore | None = None
        self._visits: CleanFolderCache | None = None
        self._unrestored = False
        self._ignored = DriftIgnoreRules(job.ignore)

    async def resolve(self) -> CommitId:
        """Return the commit that the ref points to now."""
        return await self._reader.resolve(self.job.source.ref)

    async def sync(self, wish: SyncOptions = FULL_SYNC) -> SyncReport:
        """Bring the data folder to the ref's current commit; raise when a guard or the source stops it."""
        started = self._clock.monotonic()
        if self._unrestored:  # only a walk over the folder finds the drift that waits to be restored
            wish = wish._replace(walk=True)
        commit = wish.commit if wish.commit is not None else await self.resolve()
        with DataFolder.opened(self.job.data_dir) as folder, _sync_lock(folder, wish):
            book, visits = self._open(folder), self._visits
            this = SyncPass(
                self.job,
                wish,
                commit,
                self._reader,
                self._hooks,
                folder,
                book,
                visits,
                self._progress,
                self._noise,
                ignored=self._ignored,
            )
            report = await this.run()
        if not wish.dry_run:
            self._unrestored = report.waits is not None and bool(report.drift)
        self._book = book  # a `forget` during the sync was too early: keep the store that the sync used
        if self._visits is None:
            self._visits = (
                CleanFolderCache()
            )  # only a second sync profits from the cache, so `stoker sync` never builds it
        return report.lasting(self._clock.monotonic() - started)

    async def verify(self) -> DriftCheck:
        """Return the drift since the last sync, without differences that are noise or ignored."""
        return await verify_folder(self.job.data_dir, self._quieted, self._ignored)

    async def changed_contents(self) -> dict[str, str]:
        """Map each changed file of the ledger to its content on disk now; empty for a missing file."""
        with DataFolder.opened(self.job.data_dir) as folder:
            ledger = self._open(folder).ledger
            if ledger is None:
                return {}
            live = await run_in_thread(
                lambda stop: scan_folder(
                    folder,
                    ledger,
                    managed_folders=ledger.folders,
                    digits=len(ledger.commit) or 40,
                    stopped=stop.is_set,
                )
            )
        return {path: entry_content(live.found[path]) for path in ledger.files if path in live.found}

    @property
    def ledger(self) -> Ledger | None:
        """The ledger as far as this instance has read it; None before the first sync."""
        return self._book.ledger if self._book is not None else None

    @property
    def reader(self) -> SourceReader:
        return self._reader

    def add_hook(self, hook: SyncHook) -> None:
        """Add a hook that needs this instance; it runs after all others."""
        self._hooks = (*self._hooks, hook)

    def read(self, folder: DataFolder) -> Ledger | None:
        """Return the ledger as it is on disk now, for callers that look at the folder between two syncs."""
        return self._open(folder).ledger

    def forget(self) -> None:
        """Release the cached ledger and folder cache; the next sync reads them again."""
        self._book = self._visits = None

    async def _quieted(self, found: FolderDrift, ledger: Ledger, folder: DataFolder) -> FolderDrift:
        if any(self._ignored.pointers(path) for path in found.modified):
            # Transformed contents exist only during a sync, so compare by a dry run of the ledger's commit.
            try:
                return (await self.sync(SyncOptions(dry_run=True, commit=CommitId(ledger.commit)))).drift
            except StokerError:  # a file that cannot be compared is reported as drift
                return found
        if self._noise is None:
            return found
        return await drift_without_noise(
            found, self._noise, ledger=ledger, folder=folder, reader=self._reader
        )

    def _open(self, folder: DataFolder) -> LedgerStore:
        if self._book is None or not self._book.unchanged_on_disk(folder):
            self._book = LedgerStore.load(folder)
        return self._book


async def verify_folder(
    data_dir: Path, quieted: DriftFilter | None = None, ignored: DriftIgnoreRules = NO_DRIFT_IGNORED
) -> DriftCheck:
    """Return the drift since the last sync, found from the folder and its ledger alone.

    `quieted` removes noise; it is called only if files differ. Paths that are `ignored` as a whole are never
    reported.
    """
    with DataFolder.opened(data_dir) as folder:
        book = LedgerStore.load(folder)
        ledger = book.ledger
        if ledger is None:
            raise Stalled(
                f"data folder {data_dir} has no ledger: nothing was ever synced there, or it was taken away",
                reason=Reason.NEVER_SYNCED,
            )
        digits = len(ledger.commit) or 40
        live = await run_in_thread(
            lambda stop: scan_folder(
                folder, ledger, managed_folders=ledger.folders, digits=digits, stopped=stop.is_set
            )
        )
        found = find_drift(ledger, ignored.without(live, ledger))
        if quieted is not None and found.modified:
            found = await quieted(found, ledger, folder)
    return DriftCheck(ledger.commit, found, book.trouble)


def _sync_lock(folder: DataFolder, wish: SyncOptions) -> AbstractContextManager[None]:
    """Lock the folder; a dry run writes nothing, so it takes no lock."""
    return nullcontext() if wish.dry_run else lock_folder(folder)
