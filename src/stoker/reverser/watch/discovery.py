"""Discover the kinds that the API server serves: every few minutes, and soon after they may have changed.

Discovery shows a new CRD with a delay of up to several seconds, so the loop repeats discovery several times
after a change. If discovery fails as a whole, the last catalog stays in use. If the server cannot describe
one API group, the catalog is marked incomplete, and no kind counts as removed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from stoker.domain.clock import Clock
from stoker.domain.errors import StokerError
from stoker.kube.client.client import KubeClient
from stoker.kube.client.deadlines import wait_for_event
from stoker.kube.client.discovery import Discovery
from stoker.kube.client.served_kinds import KindCatalog
from stoker.kube.client.token_bucket import TokenBucket
from stoker.kube.runtime.backoff import Backoff
from stoker.telemetry.logs import get_logger

log = get_logger(__name__)

REFRESH = 300.0
REDISCOVERY_DELAYS = (0.2, 1.0, 2.0, 5.0, 10.0, 20.0)
"""Seconds between the repeated discoveries that follow a change of a CRD or an APIService."""
_BACKOFF = Backoff(base=0.5, ceiling=30.0)


class DiscoveryLoop:
    """Holds the last catalog and refreshes it."""

    def __init__(
        self,
        client: KubeClient,
        clock: Clock,
        *,
        changed: asyncio.Event,
        rate: TokenBucket,
        found: Callable[[], None],
        refresh: float = REFRESH,
    ) -> None:
        self._discovery = Discovery(client)
        self._clock = clock
        self._changed = changed
        self._rate = rate
        self._found = found
        self._refresh = refresh
        self.catalog: KindCatalog | None = None
        """None until the first discovery succeeded."""
        self.error: StokerError | None = None

    async def run(self) -> None:
        failures = 0
        pauses: tuple[float, ...] = ()
        while True:
            try:
                await self._look()
                failures = 0
            except StokerError as error:
                failures += 1
                log.warning("discovery.failed", error=error.message)
                if self.error is None:
                    self.error = error
                    self._found()
            if failures:
                pause = _BACKOFF.delay(failures)
            elif pauses:
                pause, pauses = pauses[0], pauses[1:]
            else:
                pause = self._refresh
            if await self._rest(pause):
                pauses = REDISCOVERY_DELAYS[1:]
                await self._clock.sleep(REDISCOVERY_DELAYS[0])
                self._changed.clear()

    async def _look(self) -> None:
        await self._rate.take()
        catalog = await self._discovery.refresh()
        if catalog != self.catalog or self.error is not None:
            self.catalog, self.error = catalog, None
            self._found()

    async def _rest(self, seconds: float) -> bool:
        """Wait for the given time; return True at once when CRDs or APIServices change."""
        return await wait_for_event(self._changed, self._clock, seconds)
