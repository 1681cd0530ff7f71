"""Restart for changed modules: requested when their files are in place, and waited for.

A gateway loads modules only when it starts, so a change of a module
(`stoker.ignition.content.modules`) needs a restart before the scan. The restart is requested
once; if the gateway stays down longer than the limit, the work stays pending
(`stoker.ignition.sync.finish_pending`). If the gateway cannot be restarted over its API, the
sync continues with a warning that names the modules.
"""

from __future__ import annotations

from collections.abc import Collection

from stoker.domain.clock import Clock
from stoker.domain.errors import Retry, StokerError
from stoker.domain.reasons import Reason
from stoker.ignition.client.gateway import GatewayClient, error_note
from stoker.ignition.client.responses import PathNotOffered
from stoker.ignition.sync.readiness import GatewayReadiness

MAX_WAIT_SECONDS = 180.0
LEAVING_SECONDS = 30.0
"""A gateway accepts a restart at once and goes down a few seconds later."""
POLL_SECONDS = 0.5


class GatewayRestart:
    """Restarts of one gateway."""

    def __init__(self, gateway: GatewayClient, readiness: GatewayReadiness, clock: Clock) -> None:
        self._gateway = gateway
        self._readiness = readiness
        self._clock = clock

    async def ask(self, modules: Collection[str]) -> str:
        """Request a restart; return an empty string if it was accepted, else the warning to report."""
        try:
            await self._gateway.restart()
        except PathNotOffered:
            return (
                f"this gateway cannot be restarted over its API; its next start takes up "
                f"{_list_modules(modules)}"
            )
        return ""

    async def wait(self) -> None:
        """Wait until the gateway was down and is back, or never went down; raise if it is down too long."""
        began = self._clock.monotonic()
        left = False
        while True:
            waited = self._clock.monotonic() - began
            try:
                await self._readiness.check()
                if left or waited >= LEAVING_SECONDS:
                    break
            except Retry as error:
                left = True
                if waited >= MAX_WAIT_SECONDS:
                    raise Retry(
                        f"the gateway was restarted for its modules and is not back after "
                        f"{MAX_WAIT_SECONDS:g} s: {error.message}",
                        reason=Reason.GATEWAY_STARTING,
                    ) from None
            await self._clock.sleep(POLL_SECONDS)
        await self._readiness.ready()

    async def pending(self) -> tuple[str, ...]:
        """Return warnings about changes that wait for a restart."""
        try:
            tasks = await self._gateway.pending_restarts()
        except StokerError as error:
            return (f"what waits for a restart is not known: {error_note(error)}",)
        return (f"waits for a restart of the gateway: {', '.join(tasks)}",) if tasks else ()


def _list_modules(modules: Collection[str]) -> str:
    return ", ".join(sorted(one.rpartition("/")[2] for one in modules))
