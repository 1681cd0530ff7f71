"""When a gateway can be asked, and how long to wait when it cannot.

A gateway that has just come up is left alone for its first seconds: scans that come
while it still loads are lost, or race with what it does by itself. One that does not
answer is asked again after growing pauses.
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
"""How long a gateway that was let go may take until it listens; silent for longer, something is wrong."""
FRESH_SECONDS = 5.0
"""How long an answer tells that the gateway runs; each question more is a moment that files wait for."""
WATCHED_SECONDS = 30.0
"""A gateway that did not run so long ago, and runs now, has come up in between: its start was watched."""
TOLD_SECONDS = 600.0
"""How long what it said of itself is believed, as long as it answers."""
PAUSES = (5.0, 10.0, 30.0, 60.0)
"""Seconds between attempts at a gateway that is unavailable; the last one goes on for ever."""

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
    """What was last seen of a gateway: whether it runs, and since when if its start was seen."""

    def __init__(self, gateway: GatewayClient, clock: Clock) -> None:
        self.running: bool | None = None
        """None until it was asked for the first time."""
        self.info: GatewayInfo | None = None
        self._gateway = gateway
        self._clock = clock
        self.came_up: float | None = None
        """When its start was seen; None while it does not run, and for one that ran when we came."""
        self._seen_down = -math.inf
        self._awaited_until = self._answered = self._told = -math.inf

    @property
    def grace_left(self) -> float:
        """Seconds in which it is to be left alone; none for one that ran when we came."""
        if self.came_up is None:
            return 0.0
        return max(0.0, self.came_up + GRACE_SECONDS - self._clock.monotonic())

    @property
    def start_was_watched(self) -> bool:
        """Whether it came up a moment ago, and was seen not to run just before that."""
        if self.came_up is None:
            return False
        soon = self._clock.monotonic() - self.came_up <= GRACE_SECONDS + WATCHED_SECONDS
        return soon and self.came_up - self._seen_down <= WATCHED_SECONDS

    async def check(self) -> GatewayInfo:
        """Ask; raises with the first thing that is wrong."""
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
        """The same, unless it has answered a moment ago and said not long before what it is."""
        now = self._clock.monotonic()
        if now - self._answered > FRESH_SECONDS or now - self._told > TOLD_SECONDS:
            await self.check()

    async def ready(self) -> None:
        """The same, and then wait until its first seconds are over."""
        await self.confirmed()
        if left := self.grace_left:
            await self._clock.sleep(left)

    def doubt(self) -> None:
        """What it answered before this moment tells nothing any more."""
        self._answered = -math.inf

    def answered(self) -> None:
        """It has done, just now, what was asked of it."""
        self._runs()
        self._answered = self._clock.monotonic()

    def saw(self, error: StokerError) -> None:
        """What an answer to somebody else's question tells: one that refuses a key runs."""
        if error.reason in _NOT_RUNNING:
            self.not_running()
        else:
            self._runs()

    def not_running(self) -> None:
        self.running, self.came_up, self._answered = False, None, -math.inf
        self._seen_down = self._clock.monotonic()

    def not_started(self) -> None:
        """It waits for us, and will come up from now on: for a while nobody has to wonder about silence."""
        self.not_running()
        self._awaited_until = self._clock.monotonic() + BOOT_SECONDS

    def _runs(self) -> None:
        if self.running is False:
            self.came_up = self._clock.monotonic()
        self.running, self._awaited_until = True, -math.inf


class RetryPacing:
    """How often something failed in a row, and when it is worth another attempt."""

    def __init__(self, clock: Clock, pauses: Sequence[float] = PAUSES) -> None:
        self.failures = 0
        self.longest = math.inf
        """No pause is longer: a first boot is looked at often, to see the moment in which it ends."""
        self._clock = clock
        self._pauses = pauses
        self._next = 0.0

    @property
    def due_in(self) -> float:
        return max(0.0, self._next - self._clock.monotonic()) if self.failures else 0.0

    @property
    def exhausted(self) -> bool:
        """Whether all pauses were tried: from now on it is told as something that lasts."""
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
    """The answer, asked for again after each pause as long as the error is worth it; then the error."""
    for pause in pauses:
        try:
            return await ask()
        except StokerError as error:
            if not worth(error):
                raise
        await clock.sleep(pause)
    return await ask()
