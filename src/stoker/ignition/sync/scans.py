"""Scan locks and scans: the two things that a gateway is told about its files.

Before the first live change the locks are taken, where they are offered, so that the
gateway's own changes wait and nothing half-written is read; the scans afterwards
load the files and let go of the locks. There is no other way to give a lock back, and
so none to hold it longer: a plan that needs more than `MAX_HOLD_SECONDS` goes on without
it, and is told. Nothing is torn then either: files come whole and in a safe order,
the lock is the second belt.
"""

from __future__ import annotations

from collections.abc import Callable

from stoker.domain.clock import Clock
from stoker.domain.errors import Retry, StokerError
from stoker.domain.failpoints import reach_failpoint
from stoker.domain.intent.policies import ScanOrder
from stoker.domain.reasons import Reason
from stoker.ignition.client.gateway import GatewayClient, ScanKind, error_note
from stoker.ignition.client.responses import PathNotOffered, ScanLockRefused
from stoker.ignition.sync.readiness import retry_call
from stoker.telemetry.logs import get_logger

ACQUIRE_SECONDS = 10
HOLD_SECONDS = 60
MAX_HOLD_SECONDS = 600
ACTIONS_PER_SECOND = 50
RETRY_PAUSES = (1.0, 2.0, 4.0)
HELD = "held"

ResponseObserver = Callable[[float], None]
"""Hears how many seconds a gateway took to answer a request for a scan."""

log = get_logger(__name__)

_ORDERS = {
    ScanOrder.PROJECTS_FIRST: (ScanKind.PROJECTS, ScanKind.CONFIG),
    ScanOrder.CONFIG_FIRST: (ScanKind.CONFIG, ScanKind.PROJECTS),
}


def lock_seconds(actions: int, besides: float = 0.0) -> int:
    """How long a lock is needed for so many changes on a slow disk, and for what happens besides."""
    return min(MAX_HOLD_SECONDS, HOLD_SECONDS + actions // ACTIONS_PER_SECOND + int(besides))


class GatewayScanner:
    """The locks and scans of one gateway, both kinds in the order asked for."""

    def __init__(
        self, gateway: GatewayClient, order: ScanOrder, clock: Clock, answered: ResponseObserver | None = None
    ) -> None:
        self.result = ""
        """`projects=200 config=200`, as far as it came."""
        self.durations: tuple[float, ...] = ()
        """Seconds that the gateway took to answer each of those."""
        self._answered = answered
        self._gateway = gateway
        self._kinds = _ORDERS[order]
        self._clock = clock
        self._ours_until: dict[ScanKind, float] = {}

    async def lock(self, seconds: int) -> str:
        """Take the locks: `held`, or why there is none.

        Raises, and has none, if another client holds one, and where the gateway rejects the key or
        does not answer: whoever cannot lock for that reason cannot scan either.
        """
        try:
            for kind in self._kinds:
                await self._hold(kind, seconds)
        except ScanLockRefused:
            await self._let_go()
            raise
        except PathNotOffered:
            return "not offered by this gateway"
        except StokerError as error:
            if error.reason is not Reason.GATEWAY_ERROR:
                await self._let_go()
                raise
            return f"not taken: {error_note(error)}"
        return HELD

    def left_behind(self, seconds: float) -> None:
        """An earlier process of ours took the locks, and they have so much left."""
        if seconds > 0:
            for kind in self._kinds:
                self._ours_until.setdefault(kind, self._clock.monotonic() + seconds)

    @property
    def lock_left(self) -> float:
        """Seconds until the first of our locks runs out; 0 where there is none, or it did."""
        return max(0.0, min(self._ours_until.values(), default=0.0) - self._clock.monotonic())

    async def scan(self) -> None:
        """Ask for all scans; what may work next time is tried again, the rest is told at once."""
        self.result, self.durations = "", ()
        for kind in self._kinds:
            await self._scan(kind)

    async def _hold(self, kind: ScanKind, seconds: int) -> None:
        reach_failpoint("lock.before")
        try:
            await self._gateway.lock(kind, acquire=ACQUIRE_SECONDS, hold=seconds)
            reach_failpoint("lock.after")
        except ScanLockRefused:
            # A pass of ours that broke off left it behind: it is still ours.
            if self._clock.monotonic() >= self._ours_until.get(kind, 0.0):
                raise
        else:
            self._ours_until[kind] = self._clock.monotonic() + seconds

    async def _let_go(self) -> None:
        """A scan is the only way to give a lock back; no file has changed yet, so it finds nothing."""
        for kind in tuple(self._ours_until):
            try:
                await self._scan(kind)
            except StokerError:
                continue  # it ends by itself

    async def _scan(self, kind: ScanKind) -> None:
        reach_failpoint("scan.before")
        status = await retry_call(
            lambda: self._ask_for(kind),
            self._clock,
            RETRY_PAUSES,
            worth=lambda error: isinstance(error, Retry),
        )
        reach_failpoint("scan.after")
        self._ours_until.pop(kind, None)
        self.result = f"{self.result} {kind}={status}".strip()

    async def _ask_for(self, kind: ScanKind) -> int:
        """One request. What is measured is the answer, not the scan, which the gateway does later (C-137)."""
        began = self._clock.monotonic()
        try:
            status = await self._gateway.scan(kind)
        except StokerError as error:
            log.info("scan.failed", kind=str(kind), reason=error.reason, error=error.message)
            raise
        seconds = self._clock.monotonic() - began
        log.info("scan.called", kind=str(kind), status=status, seconds=round(seconds, 3))
        self.durations += (seconds,)
        if self._answered is not None:
            self._answered(seconds)
        return status
