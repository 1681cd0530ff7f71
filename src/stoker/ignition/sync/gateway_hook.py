"""The hook that does the gateway's part of a sync, from the first request to the verification.

1. Before staging: name the projects that a Designer has open.
2. When all contents are staged: take the scan locks and clear Perspective sessions.
3. The sync changes the files.
4. Afterwards: restart if modules changed, scan, verify.

Each step has its own module; this module calls them in order and keeps the outcome for the status.

The first step needs the gateway. A gateway that does not answer, rejects the key or does not list
its Designers stops the sync before the first byte is written. So does an open Designer (with the
policy `fail`, or after the timeout when there is nothing else to do, or if it was opened while
contents were fetched) and a scan lock of another client, because our scan would end that lock. A
gateway that has never been started cannot answer: before its first boot, files are written without it.

Applied and verified differ: applied means that the gateway accepted the scan, verified means that it
lists the expected content. Work that the gateway could not do after the files were in place stays
pending on the data volume, and `settle` retries until it is done.
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from stoker.domain.clock import Clock, SystemClock
from stoker.domain.errors import Retry, Stalled, StokerError
from stoker.domain.git_objects import HeldPath, PathNote
from stoker.domain.intent.files import FilesIntent
from stoker.domain.intent.policies import IgnitionPolicy, ScanOrder
from stoker.domain.reasons import Reason
from stoker.engine.plan.ledger import Ledger
from stoker.engine.plan.plan import SyncPlan
from stoker.ignition.client.gateway import GatewayClient, error_note
from stoker.ignition.client.inventory import GatewayInfo
from stoker.ignition.client.responses import ScanLockRefused
from stoker.ignition.content.modules import modules_changed
from stoker.ignition.content.projects import AffectedContent
from stoker.ignition.sync.designers import DesignerHolds
from stoker.ignition.sync.finish_pending import PendingWorkRunner
from stoker.ignition.sync.first_boot import POLL_SECONDS, FirstBoot, is_never_started
from stoker.ignition.sync.gateway_filter import GatewaySurvey
from stoker.ignition.sync.pending_work import PendingWork, PendingWorkStore
from stoker.ignition.sync.perspective import PerspectiveOutcome, PerspectiveSessions
from stoker.ignition.sync.readiness import GRACE_SECONDS, GatewayReadiness, RetryPacing
from stoker.ignition.sync.restart import GatewayRestart
from stoker.ignition.sync.scans import HELD, GatewayScanner, ResponseObserver, lock_seconds
from stoker.ignition.sync.state_files import StateFiles
from stoker.ignition.sync.verify import GatewayFailures, GatewayVerifier

FILES_ONLY_HINT = "to write files without asking the gateway use --files-only, or spec.gateway.filesOnly"


class GatewayChange(Protocol):
    """The planned or applied change (`stoker.agent.sync.hooks`)."""

    @property
    def plan(self) -> SyncPlan: ...
    @property
    def initial(self) -> bool: ...
    @property
    def before(self) -> Ledger | None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayHookOptions:
    """How to sync one gateway."""

    data_dir: Path
    state_dir: Path
    """Folder of the state files: `.sync-state` of the data folder."""
    order: ScanOrder = ScanOrder.PROJECTS_FIRST
    policy: IgnitionPolicy = field(default_factory=IgnitionPolicy)


@dataclass(frozen=True, slots=True)
class GatewayOutcome:
    """The result of the gateway's part of the last change, for the status."""

    lock: str = ""
    """`held`, or why there is no lock."""
    result: str = ""
    """`projects=200 config=200`, as far as the scans got."""
    durations: tuple[float, ...] = ()
    """Seconds that each of these responses took."""
    trust: str = ""
    applied: bool = False
    """The gateway accepted the scans, or has started since."""
    verified: bool = False
    """The gateway also lists what its data folder holds."""
    held: tuple[HeldPath, ...] = ()
    sessions: PerspectiveOutcome = field(default_factory=PerspectiveOutcome)
    restarted: tuple[str, ...] = ()
    """Files of modules for which the gateway was restarted."""
    warnings: tuple[str, ...] = ()


class GatewayHook:
    """The hook of one gateway and its data folder; for one sync at a time, reused for every sync."""

    def __init__(
        self,
        gateway: GatewayClient,
        options: GatewayHookOptions,
        clock: Clock | None = None,
        answered: ResponseObserver | None = None,
    ) -> None:
        """`answered` receives how long the gateway took to answer each scan request."""
        clock = clock if clock is not None else SystemClock()
        marks, policy = StateFiles(options.state_dir), options.policy
        self.initial = False
        """Set by the owner before a sync: the gateway has not been started, so no request is sent."""
        self.outcome = GatewayOutcome(trust=gateway.trust)
        self._unstarted = False
        self._data_dir = options.data_dir
        self._gateway = gateway
        self._clock = clock
        self._debts = PendingWorkStore(marks)
        self._readiness = GatewayReadiness(gateway, clock)
        self.first_boot = FirstBoot(marks, self._readiness)
        self._survey = GatewaySurvey(gateway, self._readiness, marks, policy, clock)
        self._patience = RetryPacing(clock)
        self._designers = DesignerHolds(
            gateway,
            self._readiness,
            marks,
            clock,
            policy=policy.designer_sessions,
            timeout=policy.designer_timeout,
        )
        self._perspective = PerspectiveSessions(gateway, options.data_dir, clock, policy.perspective_sessions)
        self._scanner = GatewayScanner(gateway, options.order, clock, answered)
        self._paying = PendingWorkRunner(
            gateway,
            self._debts,
            self._readiness,
            self._patience,
            self._scanner,
            GatewayRestart(gateway, self._readiness, clock),
            GatewayVerifier(gateway, options.data_dir, clock),
        )
        self._notes: tuple[PathNote, ...] = ()
        self.failures: GatewayFailures | None = None
        """The failures of the last attempt, by path; None: this process has not called the gateway yet."""
        self._before: tuple[str, ...] = ()
        self._since: tuple[str, ...] = ()

    @property
    def info(self) -> GatewayInfo | None:
        """The last description that the gateway gave of itself."""
        return self._readiness.info

    @property
    def owes(self) -> bool:
        """Whether gateway work is pending, including verification."""
        return self._debts.owed() is not None

    @property
    def settle_in(self) -> float | None:
        """Seconds after which to call `settle`, whatever else happens; None: nothing is pending."""
        return self._patience.due_in if self.owes or self.awaits_first_boot else None

    @property
    def needs_second_sync(self) -> bool:
        """The first boot followed the first sync and is over: a second sync must restore what it changed."""
        settled = self._readiness.running is True and not self._readiness.grace_left
        return settled and not self.initial and self.awaits_first_boot

    def commissioned(self) -> None:
        """Record that the second sync was made."""
        self.first_boot.over()

    async def fitting(self, files: FilesIntent, *, dry_run: bool) -> FilesIntent:
        """Return the files for this gateway, without content that modules or other providers bring."""
        fit = await self._survey.fitting(files, ask=not self.initial, remember=not dry_run)
        self._tell()
        return fit

    async def hold(self, change: GatewayChange) -> tuple[HeldPath, ...]:
        """Return the folders of projects that a Designer has open.

        Raise, with nothing written, if the policy demands it or the gateway cannot be reached.
        """
        self._before = ()
        self._tell(held=())
        self._unstarted = self.initial
        if self.initial:
            self._designers.forget()
            return ()
        touched = AffectedContent.by(change.plan)
        try:
            held = await self._asked_first(change, touched)
            self._tell(held=held)
            late = self._designers.overdue(held)
            if late is not None and len(held) == len(touched.projects) and not touched.elsewhere:
                raise late  # only if there is nothing else to do; other changes are applied first
        except StokerError:
            await self.settle()  # pending work of an earlier sync must not wait for a Designer
            raise
        return held

    @asynccontextmanager
    async def around(self, change: GatewayChange) -> AsyncIterator[None]:
        """Hold the scan locks while the files change; raise, with nothing written, if others hold them."""
        if change.plan.actions:
            await self._prepare(change, AffectedContent.by(change.plan))
        yield

    async def after(self, change: GatewayChange, applied: object) -> tuple[PathNote, ...]:
        """Restart, scan and verify; return as notes what the gateway did not do or list."""
        debt = self._debts.owed()
        if debt is None:
            return ()
        if self.initial:
            return self._leave_to_first_boot(debt)
        if self.outcome.lock == HELD and not self._scanner.lock_left:
            self._before += ("the scan lock ran out before all files were in place",)
        return await self._pay(debt)

    async def settle(self) -> tuple[PathNote, ...]:
        """Retry pending work of an earlier sync with backoff; between attempts return the last notes."""
        debt = self._debts.owed()
        self._patience.longest = POLL_SECONDS if self.awaits_first_boot else math.inf
        if self.initial:
            return () if debt is None else self._leave_to_first_boot(debt)
        if debt is None:
            await self._look_for_first_boot()
            self.failures = {}
            self._tell(applied=True, verified=True)  # verified by this process or an earlier one
            return ()
        if self._patience.due_in:
            return self._notes
        return await self._pay(debt)

    async def still_held(self, held: Sequence[HeldPath]) -> bool:
        """Return whether a sync would be held back in the same places; lists Designers and nothing else."""
        return not self.initial and await self._designers.still_held(held)

    async def aclose(self) -> None:
        await self._gateway.aclose()

    @property
    def awaits_first_boot(self) -> bool:
        """The gateway has files and has never run with them: changes made by its first boot are not drift."""
        return self.first_boot.awaited

    async def _asked_first(self, change: GatewayChange, touched: AffectedContent) -> tuple[HeldPath, ...]:
        """Return the projects that Designers have open, from a gateway that runs and accepts the key."""
        try:
            held = await self._designers.hold(touched.projects)
            self._before = self._designers.warnings
            await self._readiness.confirmed()
        except StokerError as error:
            if error.reason is Reason.GATEWAY_UNREACHABLE and self._never_started(change):
                self._unstarted = True
                return ()
            if error.reason is Reason.DESIGNER_SESSION_ACTIVE:
                raise
            raise _not_written_error(await self._diagnosed(error)) from error
        return held

    async def _diagnosed(self, error: StokerError) -> StokerError:
        """Ask the gateway for its state: a faulted gateway answers 503 like a starting one."""
        if error.reason is not Reason.GATEWAY_STARTING:
            return error
        try:
            await self._readiness.check()
        except StokerError as told:
            return told
        return error

    def _never_started(self, change: GatewayChange) -> bool:
        """Return whether the gateway is silent because it has never been started with this data folder."""
        if change.before is not None and not self.awaits_first_boot:
            return False
        return is_never_started(self._data_dir, change.before)

    async def _prepare(self, change: GatewayChange, touched: AffectedContent) -> None:
        """Do everything between the last gate and the first written byte."""
        self._since = ()
        self.outcome = GatewayOutcome(held=self.outcome.held)
        self._tell()
        debt = PendingWork(True, touched.gone, frozenset(modules_changed(change.plan)))
        if self._unstarted:
            if self.initial:
                self._readiness.not_started()
            if change.initial:
                self.first_boot.expect()
        else:
            debt = await self._take_over(len(change.plan.actions), touched, debt)
        self._debts.incur(debt)

    async def _take_over(self, actions: int, touched: AffectedContent, debt: PendingWork) -> PendingWork:
        """Lock, and clear the sessions; return the pending work with the facts known only now."""
        self._readiness.doubt()
        try:
            newcomer = await self._designers.opened_since(touched.projects)
            await self._readiness.confirmed()
            lock = await self._lock(actions) if newcomer is None else ""
        except ScanLockRefused:
            raise
        except StokerError as error:
            raise _not_written_error(error) from error
        if newcomer is not None:
            raise newcomer
        self._tell(lock=lock)
        if lock == HELD:
            self._readiness.answered()
        if touched.config or debt.modules:
            debt = replace(debt, quarantined=await self._quarantined())
        if touched.projects:
            disturbed = await self._perspective.clear(touched.projects)
            self._before += disturbed.warnings
            self._tell(sessions=disturbed)
        if self._scanner.lock_left:
            debt = replace(debt, lock_ends=self._clock.now().timestamp() + self._scanner.lock_left)
        return debt

    async def _lock(self, actions: int) -> str:
        before = self._debts.owed()
        if before is not None:
            self._scanner.left_behind(before.lock_ends - self._clock.now().timestamp())
        return await self._scanner.lock(lock_seconds(actions, self._perspective.seconds + GRACE_SECONDS))

    async def _quarantined(self) -> frozenset[str] | None:
        try:
            health = await self._gateway.modules()
        except StokerError as error:
            self._before += (f"modules will not be verified: {error_note(error)}",)
            return None
        return None if health is None else frozenset(health.quarantined)

    def _leave_to_first_boot(self, debt: PendingWork) -> tuple[PathNote, ...]:
        """Leave the loading to the first boot, which reads all files; verify afterwards."""
        self._debts.remember(PendingWork(scan=False, gone=debt.gone))
        self._readiness.not_started()
        self._patience.succeeded()
        return ()

    async def _look_for_first_boot(self) -> None:
        if self.awaits_first_boot and not self._patience.due_in:
            try:
                await self._readiness.ready()
            except StokerError:
                self._patience.failed()
            else:
                self._patience.succeeded()

    async def _pay(self, debt: PendingWork) -> tuple[PathNote, ...]:
        payment = await self._paying.pay(debt)
        self._notes, self.failures = payment.notes, payment.failures
        self._since = payment.warnings
        self._tell(
            applied=payment.applied or (self.outcome.applied and not debt.scan),
            verified=not payment.notes,
            result=self._scanner.result,
            durations=self._scanner.durations,
            restarted=payment.restarted or self.outcome.restarted,
        )
        return payment.notes

    def _tell(self, **news: Any) -> None:
        """Update the outcome with these values and with the warnings of all steps so far."""
        warnings = tuple(dict.fromkeys((*self._survey.warnings, *self._before, *self._since)))
        self.outcome = replace(self.outcome, **news, trust=self._gateway.trust, warnings=warnings)


def _not_written_error(error: StokerError) -> StokerError:
    """Return the same kind of error, with the state of the files and the workaround in the message."""
    message = f"nothing was written: {error.message}; {FILES_ONLY_HINT}"
    if isinstance(error, Stalled):
        return Stalled(message, reason=error.reason)
    return Retry(message, after=error.after if isinstance(error, Retry) else None, reason=error.reason)
