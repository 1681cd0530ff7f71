"""Faults of a stream of bytes, and a stream with them.

Shared by the two proxies: `tcp_fault_proxy` strikes at the bytes of a connection,
`http_fault_proxy` at those of an answer's body.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum


class Direction(StrEnum):
    TO_SERVER = "to-server"
    TO_CLIENT = "to-client"


class FaultKind(StrEnum):
    RESET = "reset"
    """Both ends get a TCP reset, as from a machine that rebooted."""
    TRUNCATE = "truncate"
    """Both ends get an orderly end of the connection, in the middle of the data."""
    STALL = "stall"
    """Nothing passes any more, and the connection stays open, until the fault is lifted."""
    DELAY = "delay"
    """Each piece is held back for `seconds`."""
    CORRUPT = "corrupt"
    """One byte arrives with its bits turned over; the rest is unharmed."""


_CUTS = (FaultKind.RESET, FaultKind.TRUNCATE)


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault of one direction of a stream, after `after` more bytes."""

    kind: FaultKind
    direction: Direction = Direction.TO_CLIENT
    after: int = 0
    seconds: float = 0.0


class CutOff(Exception):
    """The connection ends here and now, in the way of this kind of fault."""

    def __init__(self, kind: FaultKind) -> None:
        super().__init__(kind)
        self.kind = kind


class FaultyStream:
    """One direction of a stream; passes pieces on unharmed until it has to suffer a fault."""

    def __init__(self, struck: Counter[FaultKind]) -> None:
        self._struck = struck
        self._fault: Fault | None = None
        self._left = 0
        self._lifted = asyncio.Event()

    def suffer(self, fault: Fault) -> None:
        self.lift()
        self._fault, self._left = fault, fault.after

    def lift(self) -> None:
        """Be well again; a piece that is held back goes on."""
        self._fault = None
        self._lifted.set()
        self._lifted = asyncio.Event()

    def check(self) -> None:
        """Raise `CutOff` if the stream is to end now: a cut does not wait for data."""
        if self._fault is not None and self._fault.kind in _CUTS and self._left == 0:
            self._struck[self._fault.kind] += 1
            raise CutOff(self._fault.kind)

    async def pieces(self, chunk: bytes) -> AsyncIterator[bytes]:
        """The parts of the chunk that go on, each piece in its time."""
        if self._fault is not None:
            healthy, chunk = chunk[: self._left], chunk[self._left :]
            self._left -= len(healthy)
            if healthy:
                yield healthy
            self.check()
            if chunk:
                chunk = await self._strike(self._fault, chunk)
        if chunk:
            yield chunk

    async def _strike(self, fault: Fault | None, chunk: bytes) -> bytes:
        if fault is None:  # lifted while the healthy part went out
            return chunk
        self._struck[fault.kind] += 1
        if fault.kind is FaultKind.DELAY:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._lifted.wait(), fault.seconds)
        elif fault.kind is FaultKind.STALL:
            await self._lifted.wait()
        elif fault.kind is FaultKind.CORRUPT:
            self.lift()
            return bytes([chunk[0] ^ 0xFF]) + chunk[1:]
        return chunk


def end(transport: asyncio.WriteTransport, kind: FaultKind) -> None:
    """End a connection: with what was written delivered, or with a reset."""
    if kind is not FaultKind.RESET:
        transport.close()
        return
    # With no time to linger, the kernel sends a reset instead of an orderly end.
    connection: socket.socket = transport.get_extra_info("socket")
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    transport.abort()
