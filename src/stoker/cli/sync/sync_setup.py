"""Connects a sync request to the agent's sync: login, keys, gateway hooks, rollback and progress bar.

This is the only module where the command line meets `stoker.agent.sync`. Verbs call a `ConfiguredSync` for a
sync, a plan or the drift, and get values back. With `--watch` the agent's loop calls it:

    SyncLoop ─► ConfiguredSync ─► FolderSync ─► SyncPass ─► apply_change()
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Self

from stoker.agent.gates.maintenance_window import wait_for_window
from stoker.agent.sync.folder import FolderSync
from stoker.agent.sync.jobs import GatewayRef, SyncOptions, SyncResult
from stoker.agent.sync.open_source import open_keeper
from stoker.cli.common.output import print_to_stderr
from stoker.cli.sync.git_credentials import access_reader, keys_reader
from stoker.cli.sync.sync_request import SyncRequest
from stoker.domain.clock import Clock, SystemClock
from stoker.domain.errors import StokerError
from stoker.engine.layout.protected_paths import STATE

if TYPE_CHECKING:
    from stoker.agent.audit.audit_export import AuditExport
    from stoker.agent.audit.audit_log import AuditLog
    from stoker.agent.rollback.rollback import FolderRollback
    from stoker.agent.sync.hooks import SyncHook
    from stoker.agent.sync.sync_report import SyncReport
    from stoker.dashboard.standalone.sync_observer import SyncObserver
    from stoker.domain.refs import CommitId
    from stoker.engine.plan.drift import FolderDrift
    from stoker.engine.source_protocol import SourceReader
    from stoker.fs.writer_claim import WriterClaim
    from stoker.ignition.content.noise import ResourceNoise
    from stoker.ignition.sync.files_only import FilesOnlyHook
    from stoker.ignition.sync.gateway_hook import GatewayHook
    from stoker.snapshots.types import Snapshot
    from stoker.telemetry.log_shipper import LogShipper

SyncProgress = Callable[[str, int, int], None]


class ConfiguredSync:
    """One data folder with everything that a sync of it needs."""

    def __init__(
        self,
        order: SyncRequest,
        *,
        reader: SourceReader | None = None,
        progress: SyncProgress | None = None,
        clock: Clock | None = None,
        nudged_by: Callable[[], str] | None = None,
        answered: Callable[[float], None] | None = None,
        shipper: LogShipper | None = None,
    ) -> None:
        """`answered` receives the seconds that a gateway took to answer each scan request.

        `shipper` sends audit records to a log server; its owner closes it. Without it one is made and closed
        here, if the environment names a server.
        """
        self.order = order
        self._clock = clock if clock is not None else SystemClock()
        self._nudged_by = nudged_by
        self._audit: AuditLog | None = None
        self._own_shipper = audit_shipper() if shipper is None else None
        self._shipper = shipper or self._own_shipper
        gateway, noise = _open_gateway(order, answered)
        files_only = _files_only(order)
        if files_only is not None:
            order = order._replace(job=order.job._replace(files=files_only.fitted(order.job.files)))
        rollback = _open_rollback(order, gateway, files_only, noise, self._clock)
        at_gateway = gateway if gateway is not None else files_only
        hooks = (*self._told(), *_sync_hooks(order, rollback, at_gateway, self._clock))
        self.folder = _open_folder(order, hooks, gateway, rollback, noise, reader, progress)
        self.observer: SyncObserver | None = None
        """Shows the next sync on the dashboard; set before each sync, if there is a dashboard."""

    async def sync(self, *, walk: bool = True, dry_run: bool = False, diff: bool = False) -> SyncReport:
        """Run one sync, or the rollback that a user requested on the dashboard."""
        observer = self.observer
        if observer is None:
            return await self._follow(walk=walk, dry_run=dry_run, diff=diff)
        rolled_back = await observer.pending_rollback(self.folder)
        if rolled_back is not None:
            return rolled_back
        approved = observer.approved
        try:
            report = await self._follow(walk=walk, dry_run=dry_run, diff=diff)
        except StokerError as error:
            observer.failed(error, self.folder)
            raise
        observer.passed(report, self.folder, approved, walk=walk)
        return report

    async def verify(self) -> FolderDrift:
        drift = (await self.folder.verify()).drift
        if self.observer is not None:
            self.observer.drifted(drift)
        return drift

    async def _follow(self, *, walk: bool, dry_run: bool, diff: bool) -> SyncReport:
        """Sync to the request's ref, commit or snapshot; its plan may match any of the approved plans."""
        pinned = self.folder.rollback is not None and bool(self.order.pinned_at)
        if pinned and not (dry_run or self.order.dry_run):
            return await self.go_back(self.order.pinned_at)
        back = self.order.rollback.to_commit if self.order.rollback is not None else None
        return await self._sync(
            SyncOptions(
                walk=walk,
                dry_run=dry_run or self.order.dry_run,
                diff=diff,
                approved=frozenset(self.order.approved_plans),
                approval_must_match=self.order.approval_must_match,
                commit=back,
                released=frozenset(self.order.released_commits),
                goes_back=back is not None,
                waits=None if back else wait_for_window(self.order.windows, self._clock.now()),
            ),
            dry_run=dry_run,
        )

    async def go_to(self, commit: CommitId) -> SyncReport:
        """Sync to a commit that the user asked for, even if the ref is at another."""
        return await self._sync(
            SyncOptions(
                approved=frozenset(self.order.approved_plans),
                approval_must_match=self.order.approval_must_match,
                commit=commit,
                goes_back=True,
            ),
            dry_run=False,
        )

    async def go_back(self, snapshot_id: str, by: str = "") -> SyncReport:
        """Restore a snapshot and stay there, because the user or the resource asks for it."""
        rollback = self.folder.rollback
        if rollback is None:
            raise StokerError("no snapshot can be restored here")
        job, trigger = self.folder.job, self._trigger()
        try:
            approved = self.order.approved_plans
            _, report = await rollback.stay(job, snapshot_id, snapshot_id, by, approved)
        except StokerError as error:
            self._audited.failed(error, trigger, ref=str(job.source.ref))
            raise
        if report.files_changed:
            self._audited.passed(report, trigger, self._scan_result)
        return report

    async def _sync(self, wish: SyncOptions, *, dry_run: bool) -> SyncReport:
        trigger = self._trigger()
        try:
            report = await self.folder.sync(wish)
        except StokerError as error:
            if not dry_run:
                self._audited.failed(error, trigger, ref=str(self.order.job.source.ref))
            raise
        if not dry_run and (report.files_changed or report.result is not SyncResult.DONE or self._audit):
            self._audited.passed(report, trigger, self._scan_result)
        return report

    @property
    def _scan_result(self) -> str:
        return self.folder.gateway.outcome.result if self.folder.gateway is not None else ""

    def paused(self) -> None:
        """Record in the audit log that the sync is paused."""
        self._audited.paused(ref=str(self.order.job.source.ref))

    @property
    def _audited(self) -> AuditLog:
        """The audit log, created when there is a first record to write."""
        if self._audit is None:
            from stoker.agent.audit.audit_log import AuditLog  # noqa: PLC0415 - mostly nothing happens

            self._audit = AuditLog(
                self.order.job.data_dir,
                _gateway_identity(self.order),
                self._clock,
                aloud=self._nudged_by is not None,
                export=_audit_exporter(self._shipper),
            )
        return self._audit

    def _told(self) -> tuple[SyncHook, ...]:
        """Hooks that log the steps of a change; only a watching process has a log."""
        if self._nudged_by is None:
            return ()
        from stoker.agent.loop.log_lines import ChangeLogHook  # noqa: PLC0415 - for --watch only

        return (
            ChangeLogHook(self._clock, mappings=len(self.order.job.files.mappings), source=self._trigger),
        )

    def _trigger(self) -> str:
        if self._nudged_by is None:
            return "manual"
        from stoker.agent.audit.audit_log import trigger_of  # noqa: PLC0415 - for --watch only

        return trigger_of(self._nudged_by())

    def show_warnings(self, verb: str) -> None:
        """Print the gateway's warnings of the last sync, which did not stop it."""
        gateway = self.folder.gateway
        for warning in gateway.outcome.warnings if gateway is not None else ():
            print_to_stderr(f"stoker {verb}: warning: {warning}")

    async def aclose(self) -> None:
        await self.folder.aclose()
        if self._own_shipper is not None:
            await asyncio.to_thread(self._own_shipper.close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


def claim_data_folder(order: SyncRequest, command: str) -> WriterClaim:
    """Claim the data folder for this process; raises if another process holds it."""
    from stoker.fs.writer_claim import WriterClaim  # noqa: PLC0415 - a plan writes nothing

    return WriterClaim.taken(order.job.data_dir, command, str(order.job.source.ref))


def open_snapshots(order: SyncRequest, clock: Clock | None = None) -> FolderRollback | None:
    """Open the folder's snapshots, to list them or to release a rollback, without contacting the gateway."""
    clock = clock if clock is not None else SystemClock()
    return _open_rollback(order._replace(goes_back=True), None, None, None, clock)


def list_snapshots(order: SyncRequest) -> list[Snapshot]:
    """All snapshots of all stores; blocks, so call it in a thread."""
    rollback = open_snapshots(order)
    return [one for store in rollback.stores() for one in store.listed()] if rollback is not None else []


def _open_gateway(
    order: SyncRequest, answered: Callable[[float], None] | None
) -> tuple[GatewayHook | None, ResourceNoise | None]:
    if not order.host:
        return None, None
    from stoker.cli.sync.gateway_setup import open_attendant  # noqa: PLC0415 - not needed for files only
    from stoker.ignition.content.noise import ResourceNoise  # noqa: PLC0415

    return open_attendant(order, answered), ResourceNoise()


def _open_rollback(
    order: SyncRequest,
    attendant: GatewayHook | None,
    files_only: FilesOnlyHook | None,
    noise: ResourceNoise | None,
    clock: Clock,
) -> FolderRollback | None:
    """Open snapshots and rollback for the folder; None if neither is configured nor requested."""
    from stoker.agent.rollback.setup import open_rollback  # noqa: PLC0415 - not needed by the sync itself

    return open_rollback(
        order.snapshots,
        order.auto_rollback,
        data_dir=order.job.data_dir,
        gateway=order.gateway,
        secret=order.secrets.read,
        attendant=attendant,
        files_only=files_only,
        noise=noise,
        clock=clock,
        asked=order.goes_back or bool(order.pinned_at),
        resource=order.owner,
    )


def _sync_hooks(
    order: SyncRequest, rollback: FolderRollback | None, at_gateway: SyncHook | None, clock: Clock
) -> tuple[SyncHook, ...]:
    """The hooks around each change: validation of the resource, then snapshots, then the gateway."""
    copying = rollback.hooks if rollback is not None else ()
    mine = copying if at_gateway is None else (*copying, at_gateway)
    if order.validation is None:
        return mine
    from stoker.agent.gates.setup import gates_for  # noqa: PLC0415 - options alone configure no validation

    return (*gates_for(order.validation, order.job.data_dir, _gateway_identity(order), clock), *mine)


def _files_only(order: SyncRequest) -> FilesOnlyHook | None:
    """The hook that leaves a scan pending and never contacts the gateway; None unless files-only is set."""
    if not order.files_only:
        return None
    from stoker.ignition.sync.files_only import FilesOnlyHook  # noqa: PLC0415 - rarely used

    return FilesOnlyHook(order.job.data_dir / STATE, order.ignition)


def _gateway_identity(order: SyncRequest) -> GatewayRef:
    return GatewayRef(order.gateway, order.namespace, order.resource)


def _open_folder(
    order: SyncRequest,
    hooks: tuple[SyncHook, ...],
    gateway: GatewayHook | None,
    rollback: FolderRollback | None,
    noise: ResourceNoise | None,
    reader: SourceReader | None,
    progress: SyncProgress | None,
) -> FolderSync:
    if reader is not None:
        return FolderSync(
            order.job,
            reader,
            hooks=hooks,
            gateway=gateway,
            rollback=rollback,
            noise=noise,
            progress=progress,
        )
    return open_keeper(
        order.job,
        access=access_reader(order),
        keys=keys_reader(order),
        hooks=hooks,
        gateway=gateway,
        rollback=rollback,
        noise=noise,
        progress=progress,
    )


def audit_shipper() -> LogShipper | None:
    """Return what sends audit records to a log server, if the environment names one."""
    if not os.environ.get("STOKER_AUDIT_SYSLOG"):
        return None
    from stoker.agent.audit.audit_export import shipper_for  # noqa: PLC0415 - rarely used

    return shipper_for(os.environ)


def _audit_exporter(shipper: LogShipper | None) -> AuditExport | None:
    if shipper is None:
        return None
    from stoker.agent.audit.audit_export import exporter_for  # noqa: PLC0415

    return exporter_for(shipper)
