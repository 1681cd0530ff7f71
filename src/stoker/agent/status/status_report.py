"""From the outcome of a sync to the status ConfigMap: the current report of this gateway, and its publisher.

    sync, failure, pause, drift ─► CurrentReport ─► StatusPublisher ─► the agent's key of the ConfigMap

`CurrentReport` builds the whole report anew after each event, from the pure functions of
`stoker.agent.status.fields`. The result of a sync stays until another sync changes something, so a sync
without changes leaves the report as it is. It must never raise: reporting must not fail a sync.

`StatusPublisher` is a task of its own and holds only the newest report, so that no sync ever waits for the
API server. An unchanged report is not written again, except for a heartbeat every few minutes. Failed writes
are retried with growing pauses. `stoker sync --watch` offers its reports to the dashboard instead.
"""

from __future__ import annotations

import asyncio
import math
import random as chance
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from stoker import __version__
from stoker.agent.desired_state import DesiredState, ReportAddress
from stoker.agent.identity import AgentIdentity
from stoker.agent.rollback import report as going_back
from stoker.agent.status import fields
from stoker.agent.sync.sync_report import SyncReport
from stoker.domain.clock import Clock, rfc3339
from stoker.domain.errors import StokerError
from stoker.domain.protocol import (
    PROTOCOL_VERSION,
    DriftRestoreReport,
    GatewayChangesReport,
    GatewayReport,
    RollbackReport,
    RollbackRequest,
    SyncState,
    resource_labels,
)
from stoker.domain.reasons import Reason
from stoker.engine.plan.drift import FolderDrift
from stoker.engine.plan.guards import HeldPlan
from stoker.engine.plan.ledger import Ledger
from stoker.kube.client.deadlines import deadline, wait_for_first
from stoker.kube.runtime.backoff import Backoff
from stoker.telemetry import tracing
from stoker.telemetry.logs import get_logger

if TYPE_CHECKING:
    from stoker.agent.config_maps import ConfigMapKeys
    from stoker.agent.rollback.rollback import RollbackState
    from stoker.agent.rollback.state import RollbackPin
    from stoker.ignition.sync.gateway_hook import GatewayOutcome

HEARTBEAT = 300.0
SYNCING_AFTER = 1.0
"""A sync that ends sooner is not reported as running."""
WRITE_SECONDS = 10.0
FINAL_REPORT_SECONDS = 5.0

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class AddressedReport:
    """A report and its address."""

    address: ReportAddress
    report: GatewayReport
    may_create: bool
    """Whether a missing ConfigMap may be created; not if the resource may already be deleted."""


class CurrentReport:
    """The current report of one gateway."""

    def __init__(
        self,
        identity: AgentIdentity,
        gateway: str,
        address: ReportAddress,
        clock: Clock,
        offer: Callable[[AddressedReport], None],
    ) -> None:
        self._clock = clock
        self._offer = offer
        self._address = address
        self._may_create = False
        self._notices: tuple[str, ...] = ()
        self._gate: Reason | None = None
        self._goes_back = False
        self._snapshot = ""
        self._waiting: SyncReport | None = None
        self.report = GatewayReport(
            gateway=gateway,
            pod_name=identity.pod,
            namespace=identity.namespace,
            agent_version=__version__,
            protocol_version=PROTOCOL_VERSION,
        )

    def seed(self, earlier: GatewayReport) -> None:
        """Take over the fields of an earlier agent's report that are still true."""
        carried = {name: getattr(earlier, name) for name in fields.CARRIED_FIELDS}
        self.report = replace(self.report, **carried)

    def addressed(self, address: ReportAddress, *, may_create: bool) -> None:
        self._address, self._may_create = address, may_create

    def directed(self, direction: DesiredState) -> None:
        """Record the desired state for the syncs that follow."""
        intent, source = direction.intent, direction.job.source
        self._address, self._may_create = direction.address, True
        self._notices = tuple(f"{one.reason}: {one.message}" for one in direction.notices)
        self._gate = direction.gate
        self._goes_back = direction.rollback is not None
        self._snapshot = ""
        before = self.report
        self.report = replace(
            before,
            gateway=intent.gateway,
            commit=direction.commit or before.commit,
            ref=str(source.ref),
            sync_profile_name=intent.profile,
            service_path=intent.service_path,
            generation=direction.generation,
            terminating_ack=False,
            rollback=self._requested_rollback(direction.rollback),
        )
        if before.sync_status is SyncState.SYNCED and fields.report_subject(
            self.report
        ) != fields.report_subject(before):
            # The gateway was synced to a different commit, ref, profile or path.
            self.report = replace(self.report, sync_status=SyncState.PENDING)

    def remark(self, warning: str) -> None:
        """Add a warning for this iteration to the notices of the intent."""
        if warning:
            self._notices = tuple(dict.fromkeys((*self._notices, warning)))

    def syncing(self) -> None:
        """Report that a sync with changes has begun."""
        self._say(replace(self.report, sync_status=SyncState.SYNCING, reason="", error_message=""))

    def passed(self, report: SyncReport, outcome: GatewayOutcome | None, ledger: Ledger | None) -> None:
        """Report a finished sync; `ledger` is the data folder's, None if nothing was ever written."""
        whole, now = report.result.in_place, rfc3339(self._clock.now())
        said = replace(
            fields.gateway_fields(self.report, outcome, self._notices),
            commit=str(report.commit),
            ref=str(report.ref),
            waits_until=report.waits.when if report.waits is not None else "",
            skipped=tuple(fields.note_lines(report.skipped.notes)),
            skipped_total=report.skipped.total,
        )
        if report.applied is None:
            said = fields.planned_fields(said, report, self._gate)
        else:
            if whole:
                said = self._rolled_back(said, fields.SUCCEEDED, f"the files are at {report.commit.short}")
            # While a path is held, the loop repeats the report of the same sync.
            repeated, self._waiting = report is self._waiting, report if report.plan.held else None
            said = fields.applied_fields(said, report, ledger)
            unchanged = not report.files_changed and (not whole or said.synced_commit == report.commit)
            if not (repeated or unchanged):
                said = fields.changed_fields(said, report, ledger, now, self._snapshot)
        if paths := report.drift_restored:
            restored = DriftRestoreReport(len(paths), paths[: fields.MAX_LISTED], now)
            said = replace(said, drift_restored=restored)
        self._say(said)

    def failed(self, error: StokerError, outcome: GatewayOutcome | None = None) -> None:
        """Report an error that ended an iteration."""
        said = fields.gateway_fields(self.report, outcome, self._notices)
        said = fields.failed_fields(said, error, outcome.held if outcome is not None else ())
        if said.sync_status is SyncState.ERROR:
            # A rollback that waits for approval has not failed.
            result = fields.PENDING if isinstance(error, HeldPlan) else fields.FAILED
            said = self._rolled_back(said, result, error.message)
            now = rfc3339(self._clock.now())
            said = replace(said, history=fields.with_failure(said, now, self._snapshot))
        self._say(said)

    def copied(self, standing: RollbackState) -> None:
        """Record the snapshots and the quarantine; the next report includes them."""
        self._snapshot = standing.taken
        self.report = replace(self.report, quarantine=going_back.quarantine_report(standing.quarantine))
        if standing.kept is not None:
            last = standing.kept.last
            self.report = replace(
                self.report,
                last_snapshot=going_back.snapshot_report(last) if last is not None else None,
                snapshots_kept=standing.kept.count,
            )

    def stays(self, pin: RollbackPin, report: SyncReport, outcome: GatewayOutcome | None) -> None:
        """Report that the files are at a snapshot and stay there while it is requested."""
        status, reason, message = fields.sync_status(report)
        said = replace(
            fields.gateway_fields(self.report, outcome, self._notices),
            sync_status=status,
            reason=reason or Reason.ROLLED_BACK,
            error_message=message,
            errors=tuple(fields.note_lines(report.unverified)),
            held_projects=(),
            pending_plan=None,
            waits_until="",
            synced_commit=pin.commit,
            synced_ref=pin.ref,
        )
        said = self._rolled_back(said, fields.SUCCEEDED, f"the files are at snapshot {pin.snapshot}")
        if report.files_changed:
            now = rfc3339(self._clock.now())
            entry = fields.history_entry(report, Reason.ROLLED_BACK, now, pin.snapshot)
            said = replace(said, synced_at=now, history=fields.with_entry(said, entry))
        self._say(said)

    def paused(self, wanted: str) -> None:
        """Report the pause: no sync starts. An earlier error still exists, so it stays reported."""
        if self.report.sync_status is SyncState.ERROR:
            self._say(self.report)
            return
        there = bool(wanted) and wanted == self.report.synced_commit
        status = SyncState.SYNCED if there else SyncState.PENDING
        self._say(replace(self.report, sync_status=status, reason=Reason.PAUSED, error_message="", errors=()))

    def terminating(self) -> None:
        """Acknowledge the deletion of the resource; from now on the agent syncs nothing."""
        self._say(replace(self.report, terminating_ack=True, reason=Reason.TERMINATING, error_message=""))

    def drifted(self, drift: FolderDrift) -> None:
        self._say(fields.drift_fields(self.report, drift, rfc3339(self._clock.now())))

    def changed_here(self, changes: GatewayChangesReport | None) -> None:
        """Report changes made on this gateway that git does not have yet."""
        if changes != self.report.changes:
            self._say(replace(self.report, changes=changes))

    def _say(self, said: GatewayReport) -> None:
        self.report = said
        self._offer(AddressedReport(self._address, said, self._may_create))

    def _requested_rollback(self, request: RollbackRequest | None) -> RollbackReport | None:
        """Return the state of a requested rollback; a request is never started twice."""
        before = self.report.rollback
        if request is None or (before is not None and before.id == request.id):
            return before
        return RollbackReport(request.id, fields.PENDING)

    def _rolled_back(self, said: GatewayReport, result: str, message: str) -> GatewayReport:
        if not self._goes_back:
            return said
        return replace(said, rollback=fields.rollback_result(said.rollback, result, message))


class StatusPublisher:
    """Publishes the reports it is offered, under the agent's own key of the status ConfigMap."""

    def __init__(
        self,
        keys: ConfigMapKeys,
        identity: AgentIdentity,
        clock: Clock,
        *,
        random: Callable[[], float] = chance.random,
    ) -> None:
        self._keys = keys
        self._labels = resource_labels(identity.door, identity.resource)
        self._clock = clock
        self._backoff = Backoff(base=1.0, ceiling=60.0)
        self._random = random
        self._latest: AddressedReport | None = None
        self._written: AddressedReport | None = None
        self._wake = asyncio.Event()
        self._stopping = False
        self._failures = 0
        self._not_before = -math.inf
        self._offered_at = -math.inf
        self._heartbeat_at = math.inf
        self._trouble = ""
        self._traceparent = ""

    def offer(self, posting: AddressedReport) -> None:
        """Take the newest report; it replaces an earlier report that is not written yet."""
        before, now = self._latest, posting.report.without_heartbeat()
        if before is None or now != before.report.without_heartbeat():
            self._offered_at = self._clock.monotonic()
        self._latest = posting
        self._traceparent = tracing.traceparent()
        self._wake.set()

    def again(self) -> None:
        """Write the report again although it has not changed: the ConfigMap may have been recreated."""
        self._written = None
        self._wake.set()

    def hurry(self) -> None:
        """End the backoff and write a pending report now."""
        self._not_before = -math.inf
        self._wake.set()

    async def earlier(self, address: ReportAddress) -> GatewayReport | None:
        """Return the report that an earlier agent wrote to this address; None if it cannot be read."""
        try:
            async with deadline(self._clock, WRITE_SECONDS):
                text = (await self._keys.read(address.map)).get(address.key, "")
            return GatewayReport.parse(text) if text else None
        except (StokerError, TimeoutError):
            return None

    async def run(self) -> None:
        """Write reports until stopped, then write the last report once more."""
        while not self._stopping:
            await self._until_due()
            if not self._stopping and self._due() <= 0:
                await self._write(WRITE_SECONDS)
        if self._latest is not None:
            self.again()
            await self._write(FINAL_REPORT_SECONDS)

    async def stop(self) -> None:
        self._stopping = True
        self._wake.set()

    async def _until_due(self) -> None:
        self._wake.clear()
        pause = self._due()
        if pause > 0:
            await wait_for_first(self._clock.sleep(min(pause, HEARTBEAT)), self._wake.wait())

    def _due(self) -> float:
        """Return the seconds until the next write."""
        now, latest = self._clock.monotonic(), self._latest
        if latest is None:
            return math.inf
        if self._written != latest:
            quick = latest.report.sync_status is not SyncState.SYNCING or latest.report.reason != ""
            due = self._offered_at + (0.0 if quick else SYNCING_AFTER)
        else:
            due = self._heartbeat_at
        return max(due, self._not_before) - now

    async def _write(self, seconds: float) -> None:
        posting = self._latest
        if posting is None:
            return
        try:
            async with deadline(self._clock, seconds):
                with self._traced():
                    await self._leave(posting.address)
                    await self._apply(posting)
        except (StokerError, TimeoutError) as error:
            self._failed(error)
            return
        if self._trouble:
            log.info("status.written", map=posting.address.map, key=posting.address.key)
        self._written, self._failures, self._not_before, self._trouble = posting, 0, -math.inf, ""
        # After the deletion is acknowledged, no heartbeat is expected and the ConfigMap may be gone.
        gone = posting.report.terminating_ack or not posting.may_create
        self._heartbeat_at = (
            math.inf if gone else self._clock.monotonic() + HEARTBEAT * (1.0 - 0.1 * self._random())
        )

    def _traced(self) -> AbstractContextManager[object]:
        """Return the span of the report's trace; a heartbeat belongs to no trace."""
        trace, self._traceparent = self._traceparent, ""
        return tracing.span("status.report", parent=trace) if trace else nullcontext()

    async def _apply(self, posting: AddressedReport) -> None:
        address = posting.address
        if not posting.may_create and not await self._keys.exists(address.map):
            return
        beating = replace(posting.report, heartbeat_at=rfc3339(self._clock.now()))
        await self._keys.apply(address.map, "data", {address.key: beating.json()}, self._labels)

    async def _leave(self, address: ReportAddress) -> None:
        """Remove the key from the ConfigMap used before, so that readers find this gateway only once."""
        before = self._written.address if self._written is not None else None
        if before is not None and before.map != address.map and await self._keys.exists(before.map):
            await self._keys.apply(before.map, "data", {}, self._labels)

    def _failed(self, error: StokerError | TimeoutError) -> None:
        message = error.message if isinstance(error, StokerError) else "the API server did not answer in time"
        if message != self._trouble:
            log.warning("status.unwritten", error=message)
        self._trouble = message
        self._failures += 1
        self._not_before = self._clock.monotonic() + self._backoff.delay(self._failures)
