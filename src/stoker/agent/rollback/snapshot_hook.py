"""The sync hook that takes a snapshot before each change.

It runs after all hooks that may refuse a change and before the gateway's locks. If a snapshot cannot be
taken, the sync stops with nothing changed. Repeated snapshots cost little: each content is stored once, and
the ledger shows which files to read.

A sync that continues an interrupted one finds a mixture of both states. It takes no snapshot of that; the
snapshot from before the first of them stays valid. A retry that finds all files unchanged takes none either.
Old snapshots are pruned only when the change is in place: however often it is retried, the snapshot to roll
back to remains. A requested restore takes a new snapshot of the current files, so that it can be reverted,
and the snapshot being restored is not pruned meanwhile.
"""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from stoker.agent.rollback import scope
from stoker.agent.rollback.ledger_facts import encode_facts
from stoker.agent.rollback.state import RollbackProbation, RollbackRecords
from stoker.agent.rollback.storage import SnapshotLocation, local_rollback_policy
from stoker.agent.sync.hooks import SyncChange
from stoker.agent.sync.threads import run_in_thread
from stoker.domain.errors import Retry, StokerError
from stoker.domain.failpoints import reach_failpoint
from stoker.domain.git_objects import HeldPath, PathNote
from stoker.domain.intent.policies import SnapshotPolicy as Policy
from stoker.domain.intent.policies import SnapshotScope
from stoker.domain.reasons import Reason
from stoker.engine.plan.ledger import Ledger
from stoker.fs.apply_plan import ApplyResult
from stoker.fs.data_folder import DataFolder, open_regular
from stoker.fs.folder_cursor import DirWalk
from stoker.fs.stop_check import raise_if_stopped
from stoker.snapshots.repository import SnapshotRepository
from stoker.snapshots.types import Snapshot, SnapshotOrigin
from stoker.telemetry.logs import get_logger

if TYPE_CHECKING:
    from stoker.ignition.content.noise import ResourceNoise

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class AvailableSnapshots:
    """The newest snapshot and their number, as far as known."""

    last: Snapshot | None = None
    count: int = 0


class SnapshotHook:
    """A `SyncHook` that takes the snapshots of one data folder."""

    def __init__(
        self,
        policy: Policy,
        place: SnapshotLocation,
        notes: RollbackRecords,
        *,
        on_probation: bool,
        failing: Callable[[], tuple[str, ...]] = tuple,
        noise: ResourceNoise | None = None,
    ) -> None:
        """`on_probation`: changes are rolled back automatically; `failing` returns the existing failures."""
        self.policy = policy if policy.enabled else local_rollback_policy(policy)
        self.kept: AvailableSnapshots | None = None
        """None until this process has taken a snapshot."""
        self.taken = ""
        """The id of the snapshot that can undo the last change; empty if there is none."""
        self._wanted = ""
        """The id of the snapshot that is being restored."""
        self._opened: SnapshotRepository | None = None
        """The repository, kept for one change, so that its index is read only once."""
        self._place = place
        self._notes = notes
        self._on_probation = on_probation
        self._failing = failing
        self._noise = noise

    async def hold(self, change: SyncChange) -> tuple[HeldPath, ...]:
        return ()

    @asynccontextmanager
    async def around(self, change: SyncChange) -> AsyncIterator[None]:
        """Take the snapshot and record how to roll back before any file changes."""
        self._opened = None  # read credentials again for each change
        before = change.before if change.before is not None else Ledger()
        waiting = self._notes.probation
        if waiting is not None and before.intended and waiting.commit == str(change.commit):
            self.taken = waiting.snapshot
        else:
            self.taken = await self._standing(before) or await self._copy(change, before)
            self._put_on_probation(change, before, waiting)
        yield

    async def after(self, change: SyncChange, applied: ApplyResult) -> tuple[PathNote, ...]:
        if self.taken and not applied.errors:
            count = await run_in_thread(lambda _: self._prune())
            if self.kept is not None and count is not None:
                self.kept = replace(self.kept, count=count)
        return ()

    @contextmanager
    def keeping(self, snapshot_id: str) -> Iterator[None]:
        """Do not prune this snapshot while it is restored, and take a new snapshot of the current files."""
        self._wanted = snapshot_id
        try:
            yield
        finally:
            self._wanted = ""

    def snapshots(self) -> SnapshotRepository:
        """Return the repository. Runs in a worker thread."""
        if self._opened is None:
            self._opened = self._place.snapshots(self.policy)
        return self._opened

    async def _standing(self, before: Ledger) -> str:
        """Return the snapshot from before an interrupted change, if any; a restore takes a new one."""
        if not before.intended or self._wanted:
            return ""
        newest = await run_in_thread(lambda _: self.snapshots().newest())
        return newest.id if newest is not None and newest.origin == _origin(before) else ""

    async def _copy(self, change: SyncChange, before: Ledger) -> str:
        reach_failpoint("snapshot.take.before")
        try:
            taken, count = await run_in_thread(lambda stop: self._take(change, before, stop))
        except OSError as error:
            raise Retry(
                f"no snapshot could be taken: {error.strerror or error}; nothing was changed",
                reason=Reason.SNAPSHOT_FAILED,
            ) from error
        reach_failpoint("snapshot.take.after")
        if taken is None:
            return ""
        self.kept = AvailableSnapshots(taken, count)
        log.info("snapshot.taken", id=taken.id, files=taken.files, bytes=taken.size, stored=taken.stored)
        return taken.id

    def _take(self, change: SyncChange, before: Ledger, stop: threading.Event) -> tuple[Snapshot | None, int]:
        plan = change.plan
        touched = {str(action.path) for action in plan.actions}
        with DataFolder.opened(self._place.data_dir) as folder, DirWalk(folder.fd) as descent:
            if self.policy.scope is SnapshotScope.ALL:
                covered = scope.all_reachable_files(folder, before, self._doubt, stop.is_set)
            else:
                covered = scope.managed_files(folder, before, touched, self._doubt, stop.is_set)
            if not covered.files:
                return None, 0

            def opened(path: str) -> int:
                above, _, name = path.rpartition("/")
                return open_regular(descent.enter(above), name)

            snapshots = self.snapshots()
            taken = snapshots.take(
                covered.files,
                opened,
                scope=self.policy.scope,
                origin=_origin(before),
                extra=encode_facts(before, covered.foreign, self._place.owner_at(self.policy)),
                digits=len(before.commit) or len(change.commit),
                strict=self.policy.scope is SnapshotScope.MANAGED,
                reuse=True,
                go_on=lambda: raise_if_stopped(stop.is_set),
            )
            return taken, len(snapshots.listed())

    def _prune(self) -> int | None:
        """Prune; return how many snapshots remain. A failure to prune does not stop the sync."""
        try:
            snapshots = self.snapshots()
            snapshots.prune(self.policy.retention_count, keep={*self._notes.needed, self._wanted})
            return len(snapshots.listed())
        except (StokerError, OSError) as error:
            log.warning("snapshot.not_pruned", error=str(error))
            return None

    def _put_on_probation(
        self, change: SyncChange, before: Ledger, waiting: RollbackProbation | None
    ) -> None:
        """Put a new commit on probation; rollback leads to the last state that passed its probation."""
        new = bool(before.commit) and (before.commit, before.settings) != (
            str(change.commit),
            change.plan.facts.settings,
        )
        if not (self._on_probation and new and self.taken):
            return
        if waiting is None:
            self._notes.keep(RollbackProbation(self.taken, str(change.commit), self._failing()))
        else:
            self._notes.keep(RollbackProbation(waiting.snapshot, str(change.commit), waiting.failing))

    def _doubt(self, path: str) -> bool:
        return self._noise is not None and bool(self._noise.doubtful([path]))


def _origin(ledger: Ledger) -> SnapshotOrigin:
    return SnapshotOrigin(ledger.commit, ledger.ref, ledger.settings)
