"""A data folder and the gateway that reads it, brought to their source together.

What the watcher turns, in the sidecar and in `stoker sync --watch` alike. The keeper
has the files, the attendant has the gateway; here is what neither can know alone:
which files the gateway shall have may depend on what it says of itself, a pass that
changed nothing still pays what an earlier one owes it, a pass that would find the same
places held again is not made, and one more is made over what a gateway's first boot
has left behind.
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
    """The gateway's side of a pass (`stoker.ignition.sync.gateway_hook`)."""

    @property
    def needs_second_sync(self) -> bool:
        """Whether the gateway's first boot came after the first sync, and is over."""
        ...

    @property
    def first_boot(self) -> FirstBoot:
        """What is known of the gateway's first boot."""
        ...

    def commissioned(self) -> None:
        """What the first boot made has been met."""
        ...

    async def fitting(self, files: FilesIntent, *, dry_run: bool) -> FilesIntent:
        """Before a pass: the files without what this gateway has from elsewhere."""
        ...

    async def settle(self) -> tuple[PathNote, ...]:
        """After a pass without changes: what is still owed, and what of it the gateway did not verify."""
        ...

    async def still_held(self, held: Sequence[HeldPath]) -> bool: ...

    async def aclose(self) -> None: ...


class FolderAndGatewaySync:
    """One keeper with its gateway, if it has one; closed by `aclose`."""

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
        """One pass, and what the gateway makes of it; a change that it does not bear is taken back."""
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
                await undoing.judge(job)  # what it is about may be the change before this one
            raise
        if not wish.dry_run:
            await undoing.judge(job)
        return report

    async def _sync(self, wish: SyncOptions) -> SyncReport:
        if self._held is not None:
            before, report = self._held
            # Who only pins the commit can be answered from memory; without one the source has to be asked.
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
            await self._settle(wish)  # a source that is away is no reason to leave a scan undone
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
        """What the first boot changed: read from disk the moment it has ended, and remembered.

        A second sync may have to wait for days; a restart of the gateway meanwhile is no first boot.
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
