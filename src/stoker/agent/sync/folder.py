"""Syncs one data folder, together with the gateway that reads it; shared by `stoker sync` and the agent.

    may it be synced?      finish an interrupted rollback; block a commit that was rolled back
    is it still held?      a sync that would only find the same paths held again is skipped
    fit the files          the gateway's own report may decide which files it gets
    sync the folder        lock it, open the ledger, run the steps of `stoker.agent.sync.run`
    settle the gateway     a sync without changes still completes gateway work that is pending
    judge the change       roll it back if the gateway fails because of it

A second sync follows the gateway's first boot and handles the files that the boot created. The ledger stays
in memory between syncs and is read again only if another process has written it meanwhile.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from stoker.agent.sync.builtin_source import BuiltinSource
from stoker.agent.sync.hooks import SyncHook
from stoker.agent.sync.jobs import SyncJob, SyncOptions
from stoker.agent.sync.noise_filter import drift_without_noise
from stoker.agent.sync.run import SyncPass
from stoker.agent.sync.shell_hooks import ShellHooks
from stoker.agent.sync.sync_report import DriftCheck, SyncReport
from stoker.agent.sync.threads import run_in_thread
from stoker.domain.clock import Clock, SystemClock
from stoker.domain.errors import Stalled, StokerError
from stoker.domain.git_objects import HeldPath
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

if TYPE_CHECKING:
    from stoker.agent.bidirectional.capture import ChangeCapture
    from stoker.agent.rollback.rollback import FolderRollback
    from stoker.ignition.content.noise import ResourceNoise
    from stoker.ignition.sync.gateway_hook import GatewayHook

FULL_SYNC = SyncOptions()

DriftFilter: TypeAlias = Callable[[FolderDrift, Ledger, DataFolder], Awaitable[FolderDrift]]


class FolderSync:
    """Syncs one data folder. One instance per folder and process; never two syncs at once.

    Close it with `aclose` if it has a gateway.
    """

    def __init__(
        self,
        job: SyncJob,
        reader: SourceReader,
        *,
        hooks: Sequence[SyncHook] = (),
        gateway: GatewayHook | None = None,
        rollback: FolderRollback | None = None,
        noise: ResourceNoise | None = None,
        clock: Clock | None = None,
        progress: StagingProgress | None = None,
    ) -> None:
        """`hooks` run in this order and include those of `gateway` and `rollback`."""
        self.job = job
        self.gateway = gateway
        self.rollback = rollback
        self.capture: ChangeCapture | None = None
        """Captures changes made on the gateway, if bidirectional sync is enabled."""
        self._files = job.files
        self._noise = noise
        self._reader = BuiltinSource(reader)
        self._hooks = (*hooks, ShellHooks(job.hooks, job.data_dir)) if job.hooks else tuple(hooks)
        self._clock = clock if clock is not None else SystemClock()
        self._progress = progress
        self._book: LedgerStore | None = None
        self._visits: CleanFolderCache | None = None
        self._unrestored = False
        self._ignored = DriftIgnoreRules(job.ignore)
        self._held: tuple[SyncOptions, SyncReport] | None = None

    async def resolve(self) -> CommitId:
        """Return the commit that the ref points to now."""
        return await self._reader.resolve(self.job.source.ref)

    async def sync(self, wish: SyncOptions = FULL_SYNC) -> SyncReport:
        """Bring the data folder to the ref's current commit and complete the gateway work.

        Raises when a guard or the source stops it, and when the gateway does not tolerate the change: then
        the change was rolled back.
        """
        rollback, job = self.rollback, self.job
        if rollback is None:
            return await self._sync_with_gateway(wish)
        try:
            await rollback.before(job, wish, self.resolve)
        except StokerError:
            await self._settle(wish)
            raise
        try:
            report = await self._sync_with_gateway(wish)
        except StokerError:
            if not wish.dry_run:
                await rollback.judge(job)  # the rollback trigger may concern the change before this one
            raise
        if not wish.dry_run:
            await rollback.judge(job)
        return report

    async def _sync_with_gateway(self, wish: SyncOptions) -> SyncReport:
        if self._held is not None:
            before, report = self._held
            # With a fixed commit the last report still holds; without one the ref must be resolved.
            if wish == before and wish.commit and await self._still_held(report.plan.held):
                return report
        self._held = None
        gateway = self.gateway
        second = gateway is not None and gateway.needs_second_sync
        if gateway is not None:
            if second:
                boot = await self._made_by_boot(gateway)
                wish = wish._replace(walk=True, first_contact=True, made_by_boot=boot)
            files = await gateway.fitting(self._files, dry_run=wish.dry_run)
            self.job = self.job._replace(files=files)
        try:
            report = await self._sync_folder(wish)
        except StokerError:
            await self._settle(wish)  # an unreachable source is no reason to leave a scan undone
            raise
        if gateway is not None:
            if second and report.result.in_place:
                gateway.commissioned()
            if report.applied is not None and not report.files_changed:
                owed = await gateway.settle()
                report = replace(report, unverified=tuple(dict.fromkeys((*report.unverified, *owed))))
        if report.plan.held:
            self._held = wish, report
        return report

    async def _sync_folder(self, wish: SyncOptions) -> SyncReport:
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

    async def _made_by_boot(self, gateway: GatewayHook) -> Mapping[str, str]:
        """Return the contents that the first boot changed.

        They are read from disk as soon as the boot has ended, and stored. The second sync may have to wait
        for days; a restart of the gateway meanwhile is not a first boot.
        """
        boot = gateway.first_boot
        if not boot.noted:
            boot.remember(await self._changed_contents() if boot.ended_just_now else {})
        return boot.changed

    async def _still_held(self, held: Sequence[HeldPath]) -> bool:
        changed = [one for one in held if one.reason == Reason.CHANGE_HELD]
        opened = [one for one in held if one.reason != Reason.CHANGE_HELD]
        if changed and not (self.capture is not None and self.capture.still_held(changed)):
            return False
        return not opened or (self.gateway is not None and await self.gateway.still_held(opened))

    async def _settle(self, wish: SyncOptions) -> None:
        if self.gateway is not None and not wish.dry_run:
            await self.gateway.settle()

    async def verify(self) -> DriftCheck:
        """Return the drift since the last sync, without differences that are noise or ignored."""
        return await verify_folder(self.job.data_dir, self._quieted, self._ignored)

    async def _changed_contents(self) -> dict[str, str]:
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

    async def aclose(self) -> None:
        if self.gateway is not None:
            await self.gateway.aclose()

    async def _quieted(self, found: FolderDrift, ledger: Ledger, folder: DataFolder) -> FolderDrift:
        if any(self._ignored.pointers(path) for path in found.modified):
            # Transformed contents exist only during a sync, so compare by a dry run of the ledger's commit.
            try:
                dry = SyncOptions(dry_run=True, commit=CommitId(ledger.commit))
                return (await self._sync_folder(dry)).drift
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
                (
                    f"data folder {data_dir} has no ledger (.sync-state): it was never synced, or the ledger "
                    "was deleted"
                ),
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
