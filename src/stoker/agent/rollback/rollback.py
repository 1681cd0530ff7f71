"""Rolls changes back: automatically when the gateway fails, or on request.

    before a sync    finish an interrupted rollback; block a commit that was rolled back
    after a sync     if the gateway fails by one of the triggers, twice in a row and after its
                     grace period, restore the snapshot and quarantine the commit
    on request       restore a snapshot, once for each request, and stay there

The quarantine record, with its snapshot, is written before the first file is restored. After a kill in
between, the next sync finishes the rollback and never tries the commit again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from stoker.agent.rollback.report import pinned_report
from stoker.agent.rollback.restore import RestoreResult, restore_snapshot
from stoker.agent.rollback.snapshot_hook import AvailableSnapshots, SnapshotHook
from stoker.agent.rollback.state import HAND, QuarantineRecord, RollbackPin, RollbackRecords
from stoker.agent.rollback.storage import SnapshotLocation, local_rollback_policy
from stoker.agent.sync.hooks import SyncHook
from stoker.agent.sync.jobs import SyncJob, SyncOptions
from stoker.agent.sync.shell_hooks import ShellHooks
from stoker.agent.sync.sync_report import SyncReport
from stoker.agent.sync.threads import run_in_thread
from stoker.domain.clock import Clock, rfc3339
from stoker.domain.errors import Stalled, StokerError
from stoker.domain.failpoints import reach_failpoint
from stoker.domain.intent.annotation_requests import PlanApproval
from stoker.domain.intent.delivery import RollbackTrigger
from stoker.domain.intent.policies import SnapshotPolicy as Policy
from stoker.domain.reasons import Reason
from stoker.domain.refs import CommitId
from stoker.snapshots.repository import SnapshotRepository
from stoker.telemetry.logs import get_logger

if TYPE_CHECKING:
    from stoker.agent.bidirectional.capture import ChangeCapture
    from stoker.ignition.content.noise import ResourceNoise
    from stoker.ignition.sync.gateway_hook import GatewayHook

# Retrying cannot fix these, so the request is answered with them permanently.
_PERMANENT_REASONS = frozenset({Reason.SNAPSHOT_CORRUPT, Reason.SNAPSHOT_NOT_FOUND, Reason.ROLLBACK_FAILED})

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class RollbackState:
    """The available snapshots and the quarantined commit, for the report."""

    taken: str = ""
    kept: AvailableSnapshots | None = None
    quarantine: QuarantineRecord | None = None


class FolderRollback:
    """Takes snapshots of one data folder and rolls it back."""

    def __init__(
        self,
        policy: Policy,
        triggers: Collection[RollbackTrigger],
        place: SnapshotLocation,
        notes: RollbackRecords,
        clock: Clock,
        *,
        attendant: GatewayHook | None = None,
        files_only: SyncHook | None = None,
        noise: ResourceNoise | None = None,
    ) -> None:
        """`files_only` is the hook of a gateway that is not contacted: it leaves a scan pending."""
        self.triggers = frozenset(triggers) if attendant is not None else frozenset()
        self.capture: ChangeCapture | None = None
        """Knows changes made on the gateway, if bidirectional sync is enabled."""
        self.hooks: tuple[SyncHook, ...] = ()
        """Additional hooks of a sync; they run before the gateway's own hook."""
        self._policy = policy
        self._place = place
        self._notes = notes
        self._clock = clock
        self._attendant = attendant
        self._at_gateway = attendant if attendant is not None else files_only
        self._noise = noise
        self._snapshotter: SnapshotHook | None = None
        if policy.enabled or self.triggers:
            self._snapshotter = SnapshotHook(
                policy,
                place,
                notes,
                on_probation=bool(self.triggers),
                failing=self._failing,
                noise=noise,
            )
            self.hooks = (self._snapshotter,)

    @property
    def standing(self) -> RollbackState:
        mine = self._snapshotter
        if mine is None:
            return RollbackState(quarantine=self._notes.quarantine)
        return RollbackState(mine.taken, mine.kept, self._notes.quarantine)

    async def before(
        self, job: SyncJob, wish: SyncOptions, resolve: Callable[[], Awaitable[CommitId]]
    ) -> None:
        """Raise if nothing may be synced: the folder stays at a snapshot, or the commit was rolled back."""
        if wish.dry_run:
            return
        if self._snapshotter is not None:
            self._snapshotter.taken = ""
        pin = self._notes.pin
        if pin is not None and pin.by == HAND and not wish.goes_back:
            raise Stalled(
                f"the folder stays at {pin.snapshot or pin.commit[:8]}, to which it was rolled back; to "
                "follow the ref again run stoker rollback --release",
                reason=Reason.ROLLED_BACK,
            )
        if pin is not None and pin.by != HAND:
            self._notes.release()
        quarantine, attendant = self._notes.quarantine, self._attendant
        if quarantine is not None:
            await self._keep_out(job, quarantine, wish, resolve)
        elif self.triggers and attendant is not None and attendant.failures is None and attendant.owes:
            await attendant.settle()  # record existing failures before the next change

    async def judge(self, job: SyncJob) -> None:
        """After a sync: if the gateway fails because of its change, roll it back and raise."""
        probation, attendant = self._notes.probation, self._attendant
        if probation is None:
            return
        if attendant is None:
            self._notes.prove()  # the agent no longer contacts the gateway
            return
        found = self._blame(probation.failing)
        if found is None:
            if not attendant.owes:
                self._notes.prove()
            return
        # A single failure may be a slow gateway.
        await self._clock.sleep(attendant.settle_in or 0.0)
        await attendant.settle()
        found = self._blame(probation.failing)
        if found is None:
            return
        commit = probation.commit
        quarantine = QuarantineRecord(
            commit,
            found[0],
            f"commit {commit[:8]} was rolled back: {found[1]}",
            rfc3339(self._clock.now()),
            probation.snapshot,
            restored=False,
        )
        log.warning("rollback.begins", commit=commit[:8], reason=quarantine.reason, why=found[1])
        self._notes.intend(quarantine)
        await self._finish(job, quarantine)
        raise Stalled(quarantine.message, reason=Reason(quarantine.reason))

    async def finish(self, job: SyncJob) -> None:
        """Finish an interrupted rollback; it comes before all other work."""
        quarantine = self._notes.quarantine
        if quarantine is not None and not quarantine.restored:
            await self._finish(job, quarantine)

    async def go_back(
        self,
        job: SyncJob,
        request: str,
        snapshot_id: str,
        by: str = "",
        approved: Collection[PlanApproval] = (),
    ) -> tuple[RollbackPin, RestoreResult | None]:
        """Restore a requested snapshot, once; return the pin and, the first time, the result."""
        pin = self._notes.pin
        if pin is not None and (pin.id, pin.by) == (request, "") and not by:
            if pin.reason:
                raise Stalled(pin.message, reason=Reason(pin.reason))
            return pin, None
        try:
            done = await self._restored(job, snapshot_id, whole=True, approved=approved)
        except Stalled as error:
            if error.reason in _PERMANENT_REASONS and not by:
                self._notes.keep(
                    RollbackPin(request, snapshot_id, reason=error.reason, message=error.message)
                )
            raise
        reach_failpoint("rollback.settle.before")
        pin = RollbackPin(request, snapshot_id, done.origin.commit, done.origin.ref, by=by)
        self._notes.keep(pin)
        self._notes.prove()
        quarantine = self._notes.quarantine
        if quarantine is not None and not quarantine.restored:
            self._notes.keep(replace(quarantine, restored=True))
        reach_failpoint("rollback.settle.after")
        log.info("rollback.done", snapshot=snapshot_id, commit=done.origin.commit[:8])
        return pin, done

    async def stay(
        self,
        job: SyncJob,
        request: str,
        snapshot_id: str,
        by: str = "",
        approved: Collection[PlanApproval] = (),
    ) -> tuple[RollbackPin, SyncReport]:
        """Restore like `go_back`; return a report with the gateway's current result."""
        started = self._clock.monotonic()
        pin, done = await self.go_back(job, request, snapshot_id, by, approved)
        notes = done.unverified if done is not None else ()
        if self._attendant is not None and (done is None or not done.change.plan.actions):
            notes = await self._attendant.settle()
        report = pinned_report(pin, done, notes, job.source.ref)
        return pin, report.lasting(self._clock.monotonic() - started)

    def pin(self, commit: CommitId, ref: str) -> None:
        """Pin the folder to a commit that a person chose on the command line."""
        self._notes.keep(RollbackPin(str(commit), commit=str(commit), ref=ref, by=HAND))

    def release(self) -> tuple[str, ...]:
        """Remove the pin and the quarantine; return a message for each."""
        pin, quarantine = self._notes.pin, self._notes.quarantine
        self._notes.release()
        self._notes.lift()
        told = [] if pin is None else [f"ended the rollback to {pin.snapshot or pin.commit[:8]}"]
        if quarantine is not None:
            told.append(f"commit {quarantine.commit[:8]} may be synced again")
        return tuple(told)

    def stores(self) -> tuple[SnapshotRepository, ...]:
        """Return the repositories that may hold the snapshot: the resource's and the data volume's.

        Runs in a worker thread.
        """
        near = local_rollback_policy(self._policy)
        far = (near.storage, near.claim_name) != (self._policy.storage, self._policy.claim_name)
        places = [self._policy, near] if far else [self._policy]
        return tuple(self._place.snapshots(one) for one in places)

    async def _keep_out(
        self,
        job: SyncJob,
        quarantine: QuarantineRecord,
        wish: SyncOptions,
        resolve: Callable[[], Awaitable[CommitId]],
    ) -> None:
        trouble: Stalled | None = None
        try:
            await self.finish(job)
        except Stalled as error:  # another commit can still be synced from here
            trouble = error
        wanted = wish.commit if wish.commit is not None else await resolve()
        if wish.goes_back:
            return  # a person chose this commit; the quarantine stays until the ref is followed again
        if quarantine.commit in wish.released or str(wanted) != quarantine.commit:
            self._notes.lift()
            return
        raise trouble or Stalled(quarantine.message, reason=Reason(quarantine.reason))

    async def _finish(self, job: SyncJob, quarantine: QuarantineRecord) -> None:
        """Restore the snapshot of a commit that is already quarantined."""
        reach_failpoint("rollback.restore.before")
        try:
            done = await self._restored(job, quarantine.snapshot, whole=False)
        except Stalled as error:
            raise Stalled(
                f"{quarantine.message}, and the previous files could not be restored: {error.message}",
                reason=Reason.ROLLBACK_FAILED,
            ) from error
        reach_failpoint("rollback.restore.after")
        reach_failpoint("rollback.settle.before")
        self._notes.keep(replace(quarantine, restored=True))
        self._notes.prove()
        reach_failpoint("rollback.settle.after")
        log.warning(
            "rollback.done",
            snapshot=quarantine.snapshot,
            commit=done.origin.commit[:8],
            reason=quarantine.reason,
            unverified=[f"{note.path}: {note.why}" for note in done.unverified[:5]],
        )

    async def _restored(
        self, job: SyncJob, snapshot_id: str, *, whole: bool, approved: Collection[PlanApproval] = ()
    ) -> RestoreResult:
        stores, mine = await run_in_thread(lambda _: self.stores()), self._snapshotter
        copied = whole and self._policy.enabled
        restore = partial(
            restore_snapshot,
            job,
            snapshot_id=snapshot_id,
            hooks=self._hooks(job, copied=copied),
            whole=whole,
            owner=self._place.owner,
            copied=copied,
            capture=self.capture,
            noise=self._noise,
            approved=approved,
        )
        with mine.keeping(snapshot_id) if mine is not None else nullcontext():
            for store in stores[:-1]:
                try:
                    return await restore(snapshots=store)
                except StokerError as error:
                    if error.reason is not Reason.SNAPSHOT_NOT_FOUND:
                        raise
            return await restore(snapshots=stores[-1])

    def _hooks(self, job: SyncJob, *, copied: bool) -> Sequence[SyncHook]:
        """Return the hooks of a sync without those that judge a commit."""
        hooks: list[SyncHook] = list(self.hooks) if copied else []
        if self._at_gateway is not None:
            hooks.append(self._at_gateway)
        if job.hooks:
            hooks.append(ShellHooks(job.hooks, job.data_dir))
        return hooks

    def _failing(self) -> tuple[str, ...]:
        failures = self._attendant.failures if self._attendant is not None else None
        return tuple(sorted(failures)) if failures is not None else ()

    def _blame(self, failing_before: Collection[str]) -> tuple[str, str] | None:
        from stoker.agent.rollback.triggers import triggered_failure  # noqa: PLC0415 - only needed with a gateway

        failures = self._attendant.failures if self._attendant is not None else None
        if failures is None:
            return None
        found = triggered_failure(failures, self.triggers, failing_before)
        return None if found is None else (found.reason, f"{found.place}: {found.why}")
