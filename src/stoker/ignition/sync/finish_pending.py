"""Completes pending gateway work: wait until the gateway is ready, restart, scan, verify.

Runs when the files are in place, in the same sync or in a later one that had nothing to
write. Every failure is reported and stays pending; nothing here raises for a gateway that
is down, starting or refuses the request.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from stoker.domain.errors import StokerError
from stoker.domain.git_objects import PathNote
from stoker.domain.reasons import Reason
from stoker.ignition.client.gateway import GatewayClient, error_note
from stoker.ignition.sync.pending_work import PendingWork, PendingWorkStore
from stoker.ignition.sync.readiness import GatewayReadiness, RetryPacing
from stoker.ignition.sync.restart import GatewayRestart
from stoker.ignition.sync.scans import GatewayScanner
from stoker.ignition.sync.verify import GatewayFailure, GatewayFailures, GatewayVerifier, VerifyResult
from stoker.telemetry import tracing

SCAN = "scan"
"""The path in the report for a failure that concerns no particular file."""


@dataclass(slots=True)
class PendingWorkResult:
    """How much of the pending work was completed."""

    applied: bool = False
    """The gateway accepted the scans, now or before, and runs."""
    notes: tuple[PathNote, ...] = ()
    """Steps that the gateway did not do, or content that it does not list; empty: nothing is pending."""
    restarted: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    failures: GatewayFailures = field(default_factory=dict)
    """Failures caused by the files; a gateway that is down or refuses the key proves nothing about them."""


class PendingWorkRunner:
    """Completes the pending work of one gateway; retries with backoff."""

    def __init__(
        self,
        gateway: GatewayClient,
        debts: PendingWorkStore,
        readiness: GatewayReadiness,
        patience: RetryPacing,
        scanner: GatewayScanner,
        restarting: GatewayRestart,
        verifying: GatewayVerifier,
    ) -> None:
        self._gateway = gateway
        self._debts = debts
        self._readiness = readiness
        self._patience = patience
        self._scanner = scanner
        self._restarting = restarting
        self._verifying = verifying

    async def pay(self, debt: PendingWork) -> PendingWorkResult:
        """Do the pending work; afterwards it is settled, or the store holds the rest."""
        payment = PendingWorkResult()
        try:
            await self._readiness.ready()
            await self._restart(debt, payment)
            found = await self._scan_and_look(debt, payment)
            payment.notes, payment.failures = found.notes, found.failures
            payment.warnings += found.warnings
        except StokerError as error:
            self._readiness.saw(error)
            payment.notes = (PathNote(str(self._gateway.address), error_note(error)),)
        if payment.notes:
            self._owe(debt, payment)
        else:
            self._patience.succeeded()
            self._debts.settle()
        return payment

    def _owe(self, debt: PendingWork, payment: PendingWorkResult) -> None:
        left = self._debts.owed() or debt  # without the restart, if that was requested
        if payment.applied:  # an accepted scan has released the lock
            left = replace(left, scan=False, lock_ends=0.0)
        self._debts.remember(left)
        self._patience.failed()
        if self._patience.exhausted:
            attempts = f"the gateway has not done its part in {self._patience.failures} attempts"
            payment.warnings += (f"{attempts}; it is asked again every minute",)

    async def _restart(self, debt: PendingWork, payment: PendingWorkResult) -> None:
        """Restart for modules; requested once, and not again if it takes longer than we wait."""
        if not debt.modules:
            return
        refusal = await self._restarting.ask(debt.modules)
        self._debts.remember(replace(debt, modules=frozenset(), lock_ends=0.0))
        if refusal:
            payment.warnings += (refusal,)
        else:
            payment.restarted = tuple(sorted(debt.modules))
            await self._restarting.wait()
        payment.warnings += await self._restarting.pending()

    async def _scan_and_look(self, debt: PendingWork, payment: PendingWorkResult) -> VerifyResult:
        """Scan if a scan is pending. If an accepted scan loaded nothing, request it a few times more."""
        if not debt.scan:
            found = await self._verifying.read_back(debt, 0.0)
            payment.applied = True
            if not found.notes or self._patience.exhausted:
                return found
        try:
            with tracing.step("gateway.scan"):
                await self._scanner.scan()
        except StokerError as error:
            if error.reason is Reason.GATEWAY_ERROR:  # it runs and accepts the key, but the scan failed
                payment.failures = {SCAN: (GatewayFailure.SCAN, error.message)}
            raise
        payment.applied = True
        with tracing.step("gateway.verify"):
            return await self._verifying.read_back(debt)
