"""Wires the parts of the `stoker sync --watch` dashboard together and attaches them to the sync loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from stoker.agent.desired_state import ReportAddress
from stoker.agent.identity import AgentIdentity
from stoker.agent.status.status_report import AddressedReport, CurrentReport
from stoker.dashboard.standalone import history
from stoker.dashboard.standalone.actions import LocalActions
from stoker.dashboard.standalone.pending_actions import PendingActions
from stoker.dashboard.standalone.sync_observer import RollbackCommands, SyncObserver
from stoker.dashboard.standalone.view import FolderHold, FolderSubject, LocalViewSource
from stoker.domain.clock import Clock
from stoker.domain.errors import StokerError
from stoker.domain.refs import GitRef
from stoker.engine.layout.protected_paths import STATE
from stoker.ignition.sync.state_files import StateFiles
from stoker.telemetry.logs import get_logger

log = get_logger(__name__)


class StandaloneDashboard:
    """The dashboard of one data folder; it lives as long as the folder's sync loop."""

    def __init__(
        self,
        subject: FolderSubject,
        data_dir: Path,
        ways: RollbackCommands,
        nudge: Callable[[], None],
        clock: Clock,
    ) -> None:
        self._ways = ways
        self.desk = PendingActions(clock, StateFiles(data_dir / STATE))
        self.scene = LocalViewSource(self.desk, clock, subject)
        self.hands = LocalActions(self.desk, self.scene, nudge, clock)
        identity = AgentIdentity("", subject.namespace, subject.name)
        self._board = CurrentReport(identity, subject.gateway, ReportAddress("", ""), clock, self._told)
        entries = history.read_history(data_dir)
        self.scene.begin(entries)
        self._board.seed(history.restored_report(subject.gateway, entries))
        self.scene.told(self._board.report)
        self._listing: asyncio.Task[None] | None = None
        self._stale = True

    def next_sync(self, subject: FolderSubject, ref: GitRef) -> SyncObserver | None:
        """Apply the pending actions of users; return the observer of the next sync, None if it is paused."""
        self._release()
        self.scene.about(subject, self._held())
        wants_pause = subject.paused or self.desk.paused
        if self.desk.stopped or (wants_pause and not self.desk.goes_back):
            self._board.paused(self._board.report.commit)
            return None
        return SyncObserver(
            self._ways, self._board, self.desk, ref, following=not wants_pause, looked=self._looked
        )

    async def aclose(self) -> None:
        self.desk.stop()
        if self._listing is not None:
            self._listing.cancel()
            await asyncio.gather(self._listing, return_exceptions=True)

    def _told(self, posting: AddressedReport) -> None:
        self.scene.about(self.scene.subject, self._held())
        self.scene.told(posting.report)

    def _held(self) -> FolderHold:
        return FolderHold(self._ways.pin, self._ways.quarantine)

    def _release(self) -> None:
        errand = self.desk.release()
        if errand is None:
            return
        try:
            told = self._ways.release()
        except StokerError as error:
            errand.fail(error)
            return
        errand.succeed(f"{'; '.join(told).capitalize()}." if told else "Nothing was held.")

    def _looked(self, changed: bool) -> None:
        """List snapshots in a background task, one at a time: their storage may be remote and slow."""
        self._stale = self._stale or changed
        if self._stale and (self._listing is None or self._listing.done()):
            self._listing = asyncio.create_task(self._list(), name="dashboard snapshots")

    async def _list(self) -> None:
        while self._stale:
            self._stale = False
            try:
                self.scene.kept(await asyncio.to_thread(self._ways.snapshots))
            except (StokerError, OSError) as error:
                log.warning("dashboard.snapshots_unknown", error=str(error))
