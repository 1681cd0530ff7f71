"""A network that misbehaves on command: a TCP proxy in front of any server.

Bytes pass untouched, whatever protocol they carry, until a fault is armed for
connections to come or injected into those that are open. It shows a client what
a broken network shows: resets, silence, slowness, halves of answers, flipped
bits, refusals. Faults inside a TLS stream only break the encryption; to break
the requests inside, see `http_fault_proxy`.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Self
from urllib.parse import urlsplit

from stoker_testkit.event_loop_thread import LoopThread, stop_accepting
from stoker_testkit.faults.stream_faults import CutOff, Direction, Fault, FaultKind, FaultyStream, end
from stoker_testkit.stoppable import Stoppable

CHUNK_BYTES = 64 * 1024


class FaultProxy(Stoppable):
    """Listens on a free port of 127.0.0.1 and passes everything on to `host:port`."""

    def __init__(self, host: str, port: int) -> None:
        self.port = 0
        self.connections = 0
        """Connections accepted so far."""
        self.bytes = Counter[Direction]()
        """Bytes received for each direction, whether or not a fault let them pass."""
        self.struck = Counter[FaultKind]()
        """The count of each kind of fault that has happened."""
        self._target = (host, port)
        self._armed: list[tuple[Fault, int | None]] = []
        self._links: set[_ProxiedConnection] = set()
        self._server: asyncio.Server
        self._loop = LoopThread("fault-proxy")

    @classmethod
    def start(cls, target: str) -> Self:
        """Start one in front of `host:port` or of the server that a URL names."""
        proxy = cls(*_place_of(target))
        proxy._loop.run(proxy._listen(0))
        return proxy

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def open_connections(self) -> int:
        return self._loop.call(lambda: len(self._links))

    def turn_to(self, target: str) -> None:
        """Lead connections to another server from now on; open ones stay where they are."""
        self._target = _place_of(target)

    def arm(self, fault: Fault, connections: int | None = 1) -> None:
        """Let the next `connections` suffer it, or all to come if None; the first armed comes first."""
        self._loop.call(self._armed.append, (fault, connections))

    def inject(self, fault: Fault) -> None:
        """Let all open connections suffer it."""

        def inject() -> None:
            for link in tuple(self._links):
                link.suffer(fault)

        self._loop.call(inject)

    def lift(self) -> None:
        """Take back all faults; what was held back flows on."""

        def lift() -> None:
            self._armed.clear()
            for link in self._links:
                link.lift()

        self._loop.call(lift)

    @contextmanager
    def refusing(self) -> Iterator[None]:
        """Refuse new connections, as a closed port does; open ones live on."""
        self._loop.run(self._close())
        try:
            yield
        finally:
            self._loop.run(self._listen(self.port))

    def stop(self) -> None:
        self._loop.run(self._close())
        self._loop.stop()

    async def _listen(self, port: int) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", port, reuse_address=True)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _close(self) -> None:
        await stop_accepting(*self._server.sockets)
        self._server.close()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            server_reader, server_writer = await asyncio.open_connection(*self._target)
        except OSError:
            end(writer.transport, FaultKind.RESET)
            return
        except asyncio.CancelledError:
            writer.transport.abort()
            raise
        link = _ProxiedConnection(self, (reader, server_writer), (server_reader, writer))
        self._links.add(link)
        fault = self._next_fault()
        if fault is not None:
            link.suffer(fault)
        try:
            await link.run()
        finally:
            self._links.discard(link)

    def _next_fault(self) -> Fault | None:
        if not self._armed:
            return None
        fault, left = self._armed.pop(0)
        if left is None or left > 1:
            self._armed.insert(0, (fault, None if left is None else left - 1))
        return fault


class _ProxiedConnection:
    """One connection of a client, joined to one of our own to the server."""

    def __init__(
        self,
        proxy: FaultProxy,
        to_server: tuple[asyncio.StreamReader, asyncio.StreamWriter],
        to_client: tuple[asyncio.StreamReader, asyncio.StreamWriter],
    ) -> None:
        self._proxy = proxy
        self._ends = {Direction.TO_SERVER: to_server, Direction.TO_CLIENT: to_client}
        self._streams = {direction: FaultyStream(proxy.struck) for direction in Direction}

    def suffer(self, fault: Fault) -> None:
        stream = self._streams[fault.direction]
        stream.suffer(fault)
        try:
            stream.check()
        except CutOff as cut:
            self._end(cut.kind)

    def lift(self) -> None:
        for stream in self._streams.values():
            stream.lift()

    async def run(self) -> None:
        """Pass both directions on until both have ended, or the connection is cut."""
        pumps = [asyncio.create_task(self._pump(direction)) for direction in Direction]
        try:
            await asyncio.gather(*pumps)
        except CutOff as cut:
            self._end(cut.kind)
        except OSError:
            self._end(FaultKind.RESET)  # one end broke the connection, so the other sees it broken
        except asyncio.CancelledError:
            self._end(FaultKind.RESET)  # the proxy stops; a peer that reads nothing must not hold it up
            raise
        else:
            self._end(FaultKind.TRUNCATE)
        finally:
            for pump in pumps:
                pump.cancel()

    async def _pump(self, direction: Direction) -> None:
        reader, writer = self._ends[direction]
        while chunk := await reader.read(CHUNK_BYTES):
            self._proxy.bytes[direction] += len(chunk)
            async for piece in self._streams[direction].pieces(chunk):
                writer.write(piece)
                await writer.drain()
        if not writer.is_closing():
            writer.write_eof()

    def _end(self, kind: FaultKind) -> None:
        for _, writer in self._ends.values():
            if not writer.is_closing():
                end(writer.transport, kind)


def _place_of(target: str) -> tuple[str, int]:
    parts = urlsplit(target if "://" in target else f"tcp://{target}")
    if parts.hostname is None or parts.port is None:
        raise ValueError(f"{target!r} names no host and port to stand in front of")
    return parts.hostname, parts.port
