"""A restart for modules: asked for when their files are in place, and waited for.

A module is loaded when a gateway starts and at no other time, so a change of one
(`stoker.ignition.content.modules`) means a restart before the scan. It is asked for once; a
gateway that stays away longer than the bound is left to those who settle what is
owed. One that cannot be restarted over its API goes on as it is, and the modules are
named.
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
"""A gateway says yes at once and goes away a few seconds later."""
POLL_SECONDS = 0.5


class GatewayRestart:
    """Restarts of one gateway."""

    def __init__(self, gateway: GatewayClient, readiness: GatewayReadiness, clock: Clock) -> None:
        self._gateway = gateway
        self._readiness = readiness
        self._clock = clock

    async def ask(self, modules: Collection[str]) -> str:
        """Ask for one; nothing if it was accepted, else the warning that takes its place."""
        try:
            await self._gateway.restart()
        except PathNotOffered:
            return (
                f"this gateway cannot be restarted over its API; its next start takes up "
                f"{_list_modules(modules)}"
            )
        return ""

    async def wait(self) -> None:
        """Until it was away and is back, or was not seen to leave; raises when it stays away too long."""
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
        """Warnings about what waits for a restart."""
        try:
            tasks = await self._gateway.pending_restarts()
        except StokerError as error:
            return (f"what waits for a restart is not known: {error_note(error)}",)
        return (f"waits for a restart of the gateway: {', '.join(tasks)}",) if tasks else ()


def _list_modules(modules: Collection[str]) -> str:
    return ", ".join(sorted(one.rpartition("/")[2] for one in modules))
