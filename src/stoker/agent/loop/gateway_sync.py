"""Syncs a data folder together with the gateway that reads it.

`stoker.agent.loop.loop` runs it, in the sidecar and in `stoker sync --watch` alike. `FolderSync` handles the
files, the gateway hook handles the gateway. This module has the steps that need both:

- the gateway's own report may decide which files it gets
- a sync without changes still completes the gateway work that an earlier sync left pending
- a sync that would only find the same paths held again is skipped
- a second sync follows the gateway's first boot and handles the files that the boot created
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self

from stoker.agent.sync.folder import FolderSync
from stoker.agent.sync.hooks import SyncHook
from stoker.agent.sync.jobs import SyncOptions
from stoker.agent.sync.outcomes import SyncResult
from stoker.agent.sync.sync_report import SyncReport
from stoker.domain.errors import StokerError
from stoker.domain.git_objects import HeldPath, PathNote
from stoker.domain.intent.files import FilesIntent
from stoker.domain.reasons import Reason
from stoker.engine.plan.drift import FolderDrift

if TYPE_CHECKING:
    from stoker.agent.bidirectional.capture import ChangeCapture
    from stoker.agent.rollback.rollback import FolderRollback
    from stoker.ignition.sync.first_boot import FirstBoot


class GatewaySyncHook(SyncHook, Protocol):
    """The gateway's side of a sync (`stoker.ignition.sync.gateway_hook`)."""

    @property
    def needs_second_sync(self) -> bool:
        """Whether the gateway's first boot came after the first sync, and is over."""
        ...

    @property
    def first_boot(self) -> FirstBoot:
        """The state of the gateway's first boot."""
        ...

    def commissioned(self) -> None:
        """Record that the second sync has handled the files of the first boot."""
        ...

    async def fitting(self, files: FilesIntent, *, dry_run: bool) -> FilesIntent:
        """Before a sync: return the files without those that this gateway gets from elsewhere."""
        ...

    async def settle(self) -> tuple[PathNote, ...]:
        """After a sync without changes: complete pending gateway work; return notes on unverified files."""
        ...

    async def still_held(self, held: Sequence[HeldPath]) -> bool: ...

    async def aclose(self) -> None: ...


class FolderAndGatewaySync:
    """A `FolderSync` with its gateway, if it has one; close it with `aclose`."""

    def __init__(
        self,
        keeper: FolderSync,
        attendant: GatewaySyncHook | None = None,
        undoing: FolderRollback | None = None,
        capturing: ChangeCapture | None = None,
    ) -> None:
        self.keeper = keeper
        self.undoing = undoing
        self._attendant = attendant
        self._capturing = capturing
        self._files = keeper.job.files
        self._held: tuple[SyncOptions, SyncReport] | None = None

    async def sync(self, wish: SyncOptions) -> SyncReport:
        """Sync once and complete the gateway work; roll back a change that the gateway does not tolerate."""
        undoing, job = self.undoing, self.keeper.job
        if undoing is None:
            return await self._sync(wish)
        try:
            await undoing.before(job, wish, self.keeper.resolve)
        except StokerError:
            await self._settle(wish)
            raise
        try:
            report = await self._sync(wish)
        except StokerError:
            if not wish.dry_run:
                await undoing.judge(job)  # the rollback trigger may concern the change before this one
            raise
        if not wish.dry_run:
            await undoing.judge(job)
        return report

    async def _sync(self, wish: SyncOptions) -> SyncReport:
        if self._held is not None:
            before, report = self._held
            # With a fixed commit the last report still holds; without one the ref must be resolved.
            if wish == before and wish.commit and await self._still_held(report.plan.held):
                return report
        self._held = None
        second = self._attendant is not None and self._attendant.needs_second_sync
        if second:
            wish = wish._replace(walk=True, first_contact=True, made_by_boot=await self._made_by_boot())
        if self._attendant is not None:
            files = await self._attendant.fitting(self._files, dry_run=wish.dry_run)
            self.keeper.job = self.keeper.job._replace(files=files)
        try:
            report = await self.keeper.sync(wish)
        except StokerError:
            await self._settle(wish)  # an unreachable source is no reason to leave a scan undone
            raise
        if (
            second
            and self._attendant is not None
            and report.result in (SyncResult.DONE, SyncResult.UNVERIFIED)
        ):
            self._attendant.commissioned()
        if self._attendant is not None and report.applied is not None and not report.files_changed:
            owed = await self._attendant.settle()
            report = replace(report, unverified=tuple(dict.fromkeys((*report.unverified, *owed))))
        if report.plan.held:
            self._held = wish, report
        return report

    async def _made_by_boot(self) -> Mapping[str, str]:
        """Return the contents that the first boot changed.

        They are read from disk as soon as the boot has ended, and stored. The second sync may have to wait
        for days; a restart of the gateway meanwhile is not a first boot.
        """
        if self._attendant is None:
            return {}
        boot = self._attendant.first_boot
        if not boot.noted:
            boot.remember(await self.keeper.changed_contents() if boot.ended_just_now else {})
        return boot.changed

    async def _still_held(self, held: Sequence[HeldPath]) -> bool:
        changed = [one for one in held if one.reason == Reason.CHANGE_HELD]
        opened = [one for one in held if one.reason != Reason.CHANGE_HELD]
        if changed and not (self._capturing is not None and self._capturing.still_held(changed)):
            return False
        return not opened or (self._attendant is not None and await self._attendant.still_held(opened))

    async def _settle(self, wish: SyncOptions) -> None:
        if self._attendant is not None and not wish.dry_run:
            await self._attendant.settle()

    async def verify(self) -> FolderDrift:
        return (await self.keeper.verify()).drift

    async def aclose(self) -> None:
        if self._attendant is not None:
            await self._attendant.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()
