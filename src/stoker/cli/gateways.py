"""The gateway beside a pass: locked while files change, asked to load them, believed when it shows them.

`stoker.ignition` knows how; this opens it for an order and remembers what the gateway
did not verify. A pass in which no file changed asks the gateway only for what an
earlier one still owes.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Protocol

from stoker.cli.orders import Order
from stoker.domain.intent.source import SecretKey
from stoker.domain.secrets import Secret
from stoker.engine.objects import Note
from stoker.ignition.addressing import GatewayAddress
from stoker.ignition.gateway import Gateway
from stoker.ignition.keys import KeyReader
from stoker.ignition.scanning import GatewayScan, Planned

if TYPE_CHECKING:
    from stoker.fs.applying import Applied


class Planning(Protocol):
    @property
    def plan(self) -> Planned: ...


class GatewayHook:
    """Stands around the moment in which files change, and says afterwards what was not verified."""

    def __init__(self, scan: GatewayScan) -> None:
        self._scan = scan
        self._asked = False
        self.notes: tuple[Note, ...] = ()

    @asynccontextmanager
    async def around(self, change: Planning) -> AsyncIterator[None]:
        async with self._scan.around(change.plan):
            yield

    async def after(self, change: object, applied: Applied) -> tuple[Note, ...]:
        self._asked = True
        self.notes = await self._scan.after(applied, initial=False)
        return self.notes

    async def finish(self, applied: Applied) -> tuple[Note, ...]:
        """What of this pass the gateway did not verify."""
        if not self._asked:
            await self.after(None, applied)
        self._asked = False
        return self.notes

    async def aclose(self) -> None:
        await self._scan.aclose()


def gateway_hook(order: Order) -> GatewayHook | None:
    """The gateway of the order; None where only files are cared for."""
    access = order.access
    if access is None or not order.host:
        return None
    ca = order.secrets.read(access.ca) if access.ca is not None else None
    address = GatewayAddress(order.host, access.port, access.tls)
    gateway = Gateway(
        address, _key(order, access.api_key), ca=ca, insecure_skip_verify=access.insecure_skip_verify
    )
    return GatewayHook(GatewayScan(gateway, order.job.data_dir, order=access.scan_order))


def _key(order: Order, wanted: SecretKey | None) -> KeyReader:
    def read() -> Secret:
        if wanted is None:
            return Secret("")
        return order.secrets.api_key(wanted)

    return read
