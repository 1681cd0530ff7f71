"""The listening socket of a test's web server: by default a port of 127.0.0.1, with or without TLS.

Opened and closed in the loop of the serving thread (`stoker_testkit.event_loop_thread`), as often as a test
switches the server off and on again.
"""

from __future__ import annotations

import socket
import ssl

from aiohttp import web

from stoker_testkit.certificates import KeyPair
from stoker_testkit.event_loop_thread import SHUTDOWN_SECONDS, stop_accepting


class WebListener:
    """Serves one application at a time."""

    def __init__(self) -> None:
        self.port = 0
        """The port of the last `open`."""
        self._runner: web.AppRunner | None = None
        self._socket: socket.socket

    async def open(
        self, app: web.Application, tls: KeyPair | None = None, port: int = 0, host: str = "127.0.0.1"
    ) -> str:
        """Serve the application, on a free port unless one is named; return its address."""
        context = None
        if tls is not None:
            context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
            context.load_cert_chain(tls.certificate, tls.key)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=SHUTDOWN_SECONDS)
        await self._runner.setup()
        self._socket = socket.create_server((host, port))
        await web.SockSite(self._runner, self._socket, ssl_context=context).start()
        self.port = self._socket.getsockname()[1]
        return f"{'https' if tls else 'http'}://{host}:{self.port}"

    async def close(self) -> bool:
        """Stop serving; return False if it was closed already."""
        runner, self._runner = self._runner, None
        if runner is None:
            return False
        await stop_accepting(self._socket)
        await runner.cleanup()
        return True
