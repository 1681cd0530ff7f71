"""A data folder and the gateway that reads it, brought to their source together.

What the watcher turns, in the sidecar and in `stoker sync --watch` alike. The keeper
has the files, the attendant has the gateway; here is what neither can know alone:
which files the gateway shall have may depend on what it says of itself, a pass that
changed nothing still pays what an earlier one owes it, a pass that would find the same
places held again is not made, and one more is made over what a gateway's first boot
has left behind.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from types import TracebackType
from typing import Protocol, Self

from stoker.agent.hooks import PassHook
from stoker.agent.jobs import Wish
from stoker.agent.keeping import Keeper
from stoker.agent.outcomes import Result
from stoker.agent.reporting import SyncReport
from stoker.domain.errors import StokerError
from stoker.domain.intent.files import FilesIntent
from stoker.engine.drifting import Drift
from stoker.engine.objects import Held, Note


class Attendant(PassHook, Protocol):
    """The gateway's side of a pass (`stoker.ignition.attending`)."""

    @property
    def needs_second_sync(self) -> bool:
        """Whether the gateway's first boot came after the first sync, and is over."""
        ...

    def commissioned(self) -> None:
        """What the first boot made has been met."""
        ...

    async def fitting(self, files: FilesIntent, *, dry_run: bool) -> FilesIntent:
        """Before a pass: the files without what this gateway has from elsewhere."""
        ...

    async def settle(self) -> tuple[Note, ...]:
        """After a pass without changes: what is still owed, and what of it the gateway did not verify."""
        ...

    async def still_held(self, held: Sequence[Held]) -> bool: ...

    async def aclose(self) -> None: ...


class Tended:
    """One keeper with its gateway, if it has one; closed by `aclose`."""

    def __init__(self, keeper: Keeper, attendant: Attendant | None = None) -> None:
        self.keeper = keeper
        self._attendant = attendant
        self._files = keeper.job.files
        self._held: tuple[Wish, SyncReport] | None = None

    async def sync(self, wish: Wish) -> SyncReport:
        """One pass, and what the gateway makes of it."""
        if self._attendant is not None and self._held is not None:
            before, report = self._held
            # Who only pins the commit can be answered from memory; without one the source has to be asked.
            if wish == before and wish.commit and await self._attendant.still_held(report.plan.held):
                return report
        self._held = None
        second = self._attendant is not None and self._attendant.needs_second_sync
        if second:
            wish = wish._replace(walk=True, first_contact=True)
        if self._attendant is not None:
            files = await self._attendant.fitting(self._files, dry_run=wish.dry_run)
            self.keeper.job = self.keeper.job._replace(files=files)
        try:
            report = await self.keeper.sync(wish)
        except StokerError:
            if self._attendant is not None and not wish.dry_run:
                await self._attendant.settle()  # a source that is away is no reason to leave a scan undone
            raise
        if second and self._attendant is not None and report.result in (Result.DONE, Result.UNVERIFIED):
            self._attendant.commissioned()
        if self._attendant is not None and report.applied is not None and not report.files_changed:
            owed = await self._attendant.settle()
            report = replace(report, unverified=tuple(dict.fromkeys((*report.unverified, *owed))))
        if report.plan.held:
            self._held = wish, report
        return report

    async def verify(self) -> Drift:
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
