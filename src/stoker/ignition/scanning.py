"""The gateway around a pass: lock, write, scan, verify.

`GatewayScan` is what a pass is wrapped in. Before the first live change it takes the
gateway's scan locks, where they are offered, so that the gateway's own changes wait
and nothing half-written is read; afterwards it asks for the scans, which also let
go of the locks, and proves by reading back that every project is there, because a
scan's 200 only means that it was asked for.

A gateway that is down, starting or refuses the key never stops files from being
written: it reads them when it starts, and the scan stays owed until one succeeds.
Only a lock in somebody else's hands does, because a scan of ours would end it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from stoker.domain.clock import Clock, SystemClock
from stoker.domain.errors import Retry, StokerError
from stoker.domain.intent.policies import ScanOrder
from stoker.engine.objects import Note
from stoker.ignition.answers import LockRefused, NotOffered
from stoker.ignition.gateway import Gateway, ScanKind, sentence
from stoker.ignition.layout import project_folders, projects_removed
from stoker.ignition.owing import ScanDebt

ACQUIRE_SECONDS = 10
HOLD_SECONDS = 60
LONGEST_HOLD = 600
ACTIONS_PER_SECOND = 50
TRIES = 3
FIRST_PAUSE = 1.0
VERIFY_SECONDS = 10.0
VERIFY_INTERVAL = 0.25

_ORDERS = {
    ScanOrder.PROJECTS_FIRST: (ScanKind.PROJECTS, ScanKind.CONFIG),
    ScanOrder.CONFIG_FIRST: (ScanKind.CONFIG, ScanKind.PROJECTS),
}


class Planned(Protocol):
    """What of a plan matters here: how much there is to do."""

    @property
    def actions(self) -> Collection[object]: ...


class Changes(Protocol):
    """What of an applied plan matters here."""

    @property
    def added(self) -> Collection[str]: ...
    @property
    def modified(self) -> Collection[str]: ...
    @property
    def deleted(self) -> Collection[str]: ...


@dataclass(frozen=True, slots=True)
class ScanOutcome:
    """What became of the gateway's side of the last pass, for the status."""

    lock: str = ""
    """`held`, or why there was none."""
    result: str = ""
    """`projects=200 config=200`, as far as it came."""
    trust: str = ""
    verified: bool = False


class GatewayScan:
    """One gateway and the data folder that it reads; reused for every pass."""

    def __init__(
        self,
        gateway: Gateway,
        data_dir: Path,
        *,
        order: ScanOrder = ScanOrder.PROJECTS_FIRST,
        clock: Clock | None = None,
    ) -> None:
        self.outcome = ScanOutcome()
        self._gateway = gateway
        self._data_dir = data_dir
        self._kinds = _ORDERS[order]
        self._clock = clock if clock is not None else SystemClock()
        self._debt = ScanDebt(data_dir)
        self._ours_until: dict[ScanKind, float] = {}

    @asynccontextmanager
    async def around(self, plan: Planned) -> AsyncIterator[None]:
        """Hold the scan locks while the files change; raises, nothing written, if others hold them."""
        actions = len(plan.actions)
        if actions:
            self.outcome = ScanOutcome(lock=await self._lock(actions), trust=self._gateway.trust)
            self._debt.incur()
        yield

    async def after(self, applied: Changes, *, initial: bool) -> tuple[Note, ...]:
        """Scan and verify; what the gateway did not do or show comes back as notes.

        `initial` means that the gateway has not been started yet: it reads
        everything by itself when it is.
        """
        if initial:
            self._debt.settle()
            return ()
        if applied.added or applied.modified or applied.deleted:
            self._debt.incur()
        elif not self._debt.owed():
            return ()
        self.outcome = replace(self.outcome, result="", verified=False)
        try:
            await self._gateway.check()
            for kind in self._kinds:
                await self._scan(kind)
            notes = await self._not_shown(applied)
        except StokerError as error:
            return (Note(str(self._gateway.address), sentence(error)),)
        if not notes:
            self.outcome = replace(self.outcome, verified=True)
            self._debt.settle()
        return notes

    async def aclose(self) -> None:
        await self._gateway.aclose()

    async def _lock(self, actions: int) -> str:
        hold = min(LONGEST_HOLD, HOLD_SECONDS + actions // ACTIONS_PER_SECOND)
        try:
            await self._gateway.check()
            for kind in self._kinds:
                await self._hold(kind, hold)
        except LockRefused:
            await self._let_go()
            raise
        except NotOffered:
            return "not offered by this gateway"
        except StokerError as error:
            return f"not taken: {sentence(error)}"
        return "held"

    async def _hold(self, kind: ScanKind, hold: int) -> None:
        try:
            await self._gateway.lock(kind, acquire=ACQUIRE_SECONDS, hold=hold)
        except LockRefused:
            # A pass of ours that broke off left it behind: it is still ours.
            if self._clock.monotonic() >= self._ours_until.get(kind, 0.0):
                raise
        else:
            self._ours_until[kind] = self._clock.monotonic() + hold

    async def _let_go(self) -> None:
        """A scan is the only way to give a lock back; no file has changed yet, so it finds nothing."""
        for kind in tuple(self._ours_until):
            try:
                await self._scan(kind)
            except StokerError:
                continue  # it ends by itself

    async def _scan(self, kind: ScanKind) -> None:
        """What may work next time is tried three times; the rest is told at once."""
        for attempt in range(1, TRIES + 1):
            try:
                status = await self._gateway.scan(kind)
            except Retry:
                if attempt == TRIES:
                    raise
                await self._clock.sleep(FIRST_PAUSE * 2 ** (attempt - 1))
            else:
                self._ours_until.pop(kind, None)
                result = f"{self.outcome.result} {kind}={status}".strip()
                self.outcome = replace(self.outcome, result=result, trust=self._gateway.trust)
                return

    async def _not_shown(self, applied: Changes) -> tuple[Note, ...]:
        """Read back until the gateway shows what the folder says, or time is up."""
        expected = project_folders(self._data_dir)
        removed = projects_removed(applied.deleted, expected)
        deadline = self._clock.monotonic() + VERIFY_SECONDS
        while True:
            shown = await self._gateway.project_names()
            missing, left = expected - shown, removed & shown
            if not (missing or left) or self._clock.monotonic() >= deadline:
                break
            await self._clock.sleep(VERIFY_INTERVAL)
        why = f"after the scan and {VERIFY_SECONDS:g} s"
        return (
            *(Note(f"projects/{name}", f"the gateway does not show it {why}") for name in sorted(missing)),
            *(Note(f"projects/{name}", f"the gateway still shows it {why}") for name in sorted(left)),
        )
