"""Whether a gateway is ready for requests, and how long to wait if it is not.

After a start the gateway gets a grace period: scans that arrive while it still loads are lost,
or race with its own loading. A gateway that does not answer is retried with backoff.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from stoker.domain.clock import Clock
from stoker.domain.errors import Retry, StokerError
from stoker.domain.reasons import Reason
from stoker.ignition.client.gateway import GatewayClient
from stoker.ignition.client.inventory import GatewayInfo

GRACE_SECONDS = 10.0
BOOT_SECONDS = 300.0
"""How long a gateway may take to listen after it was allowed to start; longer silence is an error."""
FRESH_SECONDS = 5.0
"""How long a response proves that the gateway runs; each extra request delays the files."""
WATCHED_SECONDS = 30.0
"""If a gateway was seen down at most this long before it was seen up, its start was observed."""
TOLD_SECONDS = 600.0
"""How long the gateway's description of itself is cached, as long as it answers."""
PAUSES = (5.0, 10.0, 30.0, 60.0)
"""Seconds between attempts at an unavailable gateway; the last pause repeats forever."""

_NOT_RUNNING = frozenset(
    {
        Reason.GATEWAY_STARTING,
        Reason.GATEWAY_FAULTED,
        Reason.GATEWAY_UNREACHABLE,
        Reason.NOT_COMMISSIONED,
    }
)

T = TypeVar("T")


class GatewayReadiness:
    """The last known state of a gateway: whether it runs, and since when if its start was observed."""

    def __init__(self, gateway: GatewayClient, clock: Clock) -> None:
        self.running: bool | None = None
        """None before the first request."""
        self.info: GatewayInfo | None = None
        self._gateway = gateway
        self._clock = clock
        self.came_up: float | None = None
        """When its start was observed; None while it is down, or if it ran before this process."""
        self._seen_down = -math.inf
        self._awaited_until = self._answered = self._told = -math.inf

    @property
    def grace_left(self) -> float:
        """Seconds left of the grace period; 0 if the gateway ran before this process."""
        if self.came_up is None:
            return 0.0
        return max(0.0, self.came_up + GRACE_SECONDS - self._clock.monotonic())

    @property
    def start_was_watched(self) -> bool:
        """Whether it started a moment ago and was seen down just before."""
        if self.came_up is None:
            return False
        soon = self._clock.monotonic() - self.came_up <= GRACE_SECONDS + WATCHED_SECONDS
        return soon and self.came_up - self._seen_down <= WATCHED_SECONDS

    async def check(self) -> GatewayInfo:
        """Request the gateway's state; raise with the first problem."""
        try:
            self.info = await self._gateway.check()
        except StokerError as error:
            self.saw(error)
            if error.reason is Reason.GATEWAY_UNREACHABLE and self._clock.monotonic() < self._awaited_until:
                raise Retry(
                    f"it is on its way up: {error.message}", reason=Reason.GATEWAY_STARTING
                ) from error
            raise
        self._told = self._clock.monotonic()
        self.answered()
        return self.info

    async def confirmed(self) -> None:
        """Check, unless the gateway answered a moment ago and its description is still cached."""
        now = self._clock.monotonic()
        if now - self._answered > FRESH_SECONDS or now - self._told > TOLD_SECONDS:
            await self.check()

    async def ready(self) -> None:
        """Confirm that it runs, then wait for the end of the grace period."""
        await self.confirmed()
        if left := self.grace_left:
            await self._clock.sleep(left)

    def doubt(self) -> None:
        """Discard what earlier responses prove."""
        self._answered = -math.inf

    def answered(self) -> None:
        """Record that the gateway just answered a request successfully."""
        self._runs()
        self._answered = self._clock.monotonic()

    def saw(self, error: StokerError) -> None:
        """Record the error of another request: a gateway that refuses a key runs."""
        if error.reason in _NOT_RUNNING:
            self.not_running()
        else:
            self._runs()

    def not_running(self) -> None:
        self.running, self.came_up, self._answered = False, None, -math.inf
        self._seen_down = self._clock.monotonic()

    def not_started(self) -> None:
        """Record that the gateway has not started yet; for `BOOT_SECONDS` its silence is no error."""
        self.not_running()
        self._awaited_until = self._clock.monotonic() + BOOT_SECONDS

    def _runs(self) -> None:
        if self.running is False:
            self.came_up = self._clock.monotonic()
        self.running, self._awaited_until = True, -math.inf


class RetryPacing:
    """Counts failures in a row and computes when to try again."""

    def __init__(self, clock: Clock, pauses: Sequence[float] = PAUSES) -> None:
        self.failures = 0
        self.longest = math.inf
        """Upper limit of a pause: a first boot is polled often, to observe the moment in which it ends."""
        self._clock = clock
        self._pauses = pauses
        self._next = 0.0

    @property
    def due_in(self) -> float:
        return max(0.0, self._next - self._clock.monotonic()) if self.failures else 0.0

    @property
    def exhausted(self) -> bool:
        """Whether all pauses were used: from now on it is reported as a lasting failure."""
        return self.failures > len(self._pauses) and self.longest == math.inf

    def failed(self) -> None:
        self.failures += 1
        pause = self._pauses[min(self.failures, len(self._pauses)) - 1]
        self._next = self._clock.monotonic() + min(pause, self.longest)

    def succeeded(self) -> None:
        self.failures = 0


async def retry_call(
    ask: Callable[[], Awaitable[T]],
    clock: Clock,
    pauses: Sequence[float],
    worth: Callable[[StokerError], bool],
) -> T:
    """Call `ask`, again after each pause while `worth` accepts the error; at last let the error through."""
    for pause in pauses:
        try:
            return await ask()
        except StokerError as error:
            if not worth(error):
                raise
        await clock.sleep(pause)
    return await ask()
