"""Scan locks and scans of a gateway.

The locks are taken before the first live change, if the gateway offers them, so that the
gateway's own changes wait and it reads no half-written state. The scans afterwards load the files
and release the locks. A scan is the only way to release a lock. A lock cannot be prolonged
either: a plan that needs more than `MAX_HOLD_SECONDS` continues without it, with a warning. The
gateway reads no torn file even then, because each file is replaced atomically and in a safe
order; the lock is an additional protection.
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
"""Receives how many seconds a gateway took to answer a scan request."""

log = get_logger(__name__)

_ORDERS = {
    ScanOrder.PROJECTS_FIRST: (ScanKind.PROJECTS, ScanKind.CONFIG),
    ScanOrder.CONFIG_FIRST: (ScanKind.CONFIG, ScanKind.PROJECTS),
}


def lock_seconds(actions: int, besides: float = 0.0) -> int:
    """Return how long a lock is needed for so many changes on a slow disk, plus `besides` seconds."""
    return min(MAX_HOLD_SECONDS, HOLD_SECONDS + actions // ACTIONS_PER_SECOND + int(besides))


class GatewayScanner:
    """The locks and scans of one gateway, both kinds in the configured order."""

    def __init__(
        self, gateway: GatewayClient, order: ScanOrder, clock: Clock, answered: ResponseObserver | None = None
    ) -> None:
        self.result = ""
        """`projects=200 config=200`, as far as the scans got."""
        self.durations: tuple[float, ...] = ()
        """Seconds that the gateway took to answer each of these."""
        self._answered = answered
        self._gateway = gateway
        self._kinds = _ORDERS[order]
        self._clock = clock
        self._ours_until: dict[ScanKind, float] = {}

    async def lock(self, seconds: int) -> str:
        """Take the locks; return `held`, or why there is no lock.

        Raise, and release all locks, if another client holds one, and if the gateway rejects the key
        or does not answer: then a scan would fail as well.
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
        """Record that an earlier process of ours took the locks, and for how long they last."""
        if seconds > 0:
            for kind in self._kinds:
                self._ours_until.setdefault(kind, self._clock.monotonic() + seconds)

    @property
    def lock_left(self) -> float:
        """Seconds until our first lock expires; 0 if there is none, or it has expired."""
        return max(0.0, min(self._ours_until.values(), default=0.0) - self._clock.monotonic())

    async def scan(self) -> None:
        """Request all scans; transient errors are retried, others are raised at once."""
        self.result, self.durations = "", ()
        for kind in self._kinds:
            await self._scan(kind)

    async def _hold(self, kind: ScanKind, seconds: int) -> None:
        reach_failpoint("lock.before")
        try:
            await self._gateway.lock(kind, acquire=ACQUIRE_SECONDS, hold=seconds)
            reach_failpoint("lock.after")
        except ScanLockRefused:
            # An interrupted sync of ours took the lock: it is still ours.
            if self._clock.monotonic() >= self._ours_until.get(kind, 0.0):
                raise
        else:
            self._ours_until[kind] = self._clock.monotonic() + seconds

    async def _let_go(self) -> None:
        """Release the locks by a scan, the only way; no file has changed yet, so the scan finds nothing."""
        for kind in tuple(self._ours_until):
            try:
                await self._scan(kind)
            except StokerError:
                continue  # the lock expires by itself

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
        """Send one request. The measured time is that of the response; the gateway scans later."""
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
