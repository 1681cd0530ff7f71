"""Limits connections of unauthenticated clients in number and in idle time.

aiohttp alone would keep a connection for ever whose first request never completes, and accept as many of
them as there are file descriptors. Unauthenticated clients could use up both.
"""

from __future__ import annotations

import asyncio
import ssl

from aiohttp import web

from stoker.domain.errors import Misconfigured
from stoker.telemetry.probes import ListenAddress, QuietHandler

MAX_CONNECTIONS = 1024
FIRST_REQUEST_SECONDS = 10.0
LINGERING_SECONDS = 1.0
BUFFER_BYTES = 16 * 1024


class StrictHttpServer(web.Server):
    """Serves each connection with limits on its slowness and on the number of connections."""

    most_connections = MAX_CONNECTIONS
    first_request_seconds = FIRST_REQUEST_SECONDS

    def __call__(self) -> web.RequestHandler:
        return _StrictHandler.for_connection(
            self,
            # The rest of a refused body is read and discarded for a moment. Closing at once would reset
            # the connection, and the caller would never see the response.
            lingering_time=LINGERING_SECONDS,
            read_bufsize=BUFFER_BYTES,
            auto_decompress=False,
        )


async def start_listening(
    server: StrictHttpServer,
    address: ListenAddress,
    purpose: str,
    *,
    tls: ssl.SSLContext | None,
    shutdown_seconds: float,
) -> web.ServerRunner:
    """Listen on the address; the caller must clean up the returned runner."""
    runner = web.ServerRunner(server, shutdown_timeout=shutdown_seconds)
    await runner.setup()
    try:
        await web.TCPSite(runner, address.host or None, address.port, ssl_context=tls).start()
    except OSError as error:
        await runner.cleanup()
        raise Misconfigured(f"cannot listen on {address} for {purpose}: {error.strerror}") from error
    return runner


class _StrictHandler(QuietHandler):
    __slots__ = ("_first", "_server")

    def __init__(self, manager: StrictHttpServer, **settings: object) -> None:
        super().__init__(manager, **settings)  # type: ignore[arg-type]  # the library's own settings
        self._server = manager
        self._first: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        if len(self._server.connections) > self._server.most_connections:
            self._hang_up()
            return
        self._first = asyncio.get_running_loop().call_later(
            self._server.first_request_seconds, self._hang_up_on_silence
        )

    def connection_lost(self, exc: BaseException | None) -> None:
        if self._first is not None:
            self._first.cancel()
        super().connection_lost(exc)

    def _hang_up_on_silence(self) -> None:
        if self._request_count == 0:
            self._hang_up()

    def _hang_up(self) -> None:
        if isinstance(self.transport, asyncio.WriteTransport):
            self.transport.abort()
