"""A corporate proxy: HTTP with CONNECT, with or without a password, and a record of all that passed.

What is asked for in plain (`GET http://host/…`) is passed on and answered for one
request per connection; a tunnel is opened for the rest.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
from dataclasses import dataclass
from typing import Self
from urllib.parse import urlsplit

from stoker_testkit.event_loop_thread import LoopThread, stop_accepting
from stoker_testkit.stoppable import Stoppable

CHUNK_BYTES = 64 * 1024
_DENIED = (
    b'HTTP/1.1 407 Proxy Authentication Required\r\nProxy-Authenticate: Basic realm="proxy"\r\n'
    b"Content-Length: 0\r\nConnection: close\r\n\r\n"
)


@dataclass(frozen=True, slots=True)
class ProxiedRequest:
    """One request as the proxy saw it."""

    method: str
    target: str
    allowed: bool


class HttpProxy(Stoppable):
    """Listens on a free port of 127.0.0.1; with `users` (name to password) it asks who it is."""

    def __init__(self, users: dict[str, str]) -> None:
        self.port = 0
        self.users = users
        self.passages: list[ProxiedRequest] = []
        self._server: asyncio.Server
        self._loop = LoopThread("http-proxy")

    @classmethod
    def start(cls, users: dict[str, str] | None = None) -> Self:
        proxy = cls(users or {})
        proxy._loop.run(proxy._listen())
        return proxy

    @property
    def address(self) -> str:
        """Its address, without a user."""
        return f"http://127.0.0.1:{self.port}"

    def stop(self) -> None:
        self._loop.run(self._close())
        self._loop.stop()

    async def _listen(self) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _close(self) -> None:
        await stop_accepting(*self._server.sockets)
        self._server.close()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await self._serve(reader, writer)
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # the client or the server has gone
        finally:
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        first, *headers = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        method, target, _ = first.split(" ", 2)
        allowed = self._may_pass(headers)
        self.passages.append(ProxiedRequest(method, target, allowed))
        if not allowed:
            writer.write(_DENIED)
            await writer.drain()
            return
        parts = urlsplit(f"//{target}" if method == "CONNECT" else target)
        there, back = await asyncio.open_connection(parts.hostname, parts.port or 80)
        if method == "CONNECT":
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        else:
            path = parts.path + (f"?{parts.query}" if parts.query else "")
            back.write(_forwarded(method, path, headers))
        await _joined((reader, back), (there, writer))

    def _may_pass(self, headers: list[str]) -> bool:
        given = [
            line.split()[-1] for line in headers if line.lower().startswith("proxy-authorization: basic ")
        ]
        known = {base64.b64encode(f"{name}:{word}".encode()).decode() for name, word in self.users.items()}
        return not self.users or bool(known.intersection(given))


def _forwarded(method: str, path: str, headers: list[str]) -> bytes:
    kept = [line for line in headers if line and not line.lower().startswith(("proxy-", "connection:"))]
    return "\r\n".join([f"{method} {path} HTTP/1.1", *kept, "Connection: close", "", ""]).encode("latin-1")


async def _joined(*ways: tuple[asyncio.StreamReader, asyncio.StreamWriter]) -> None:
    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while chunk := await reader.read(CHUNK_BYTES):
            writer.write(chunk)
            await writer.drain()
        if writer.can_write_eof():
            with contextlib.suppress(OSError):
                writer.write_eof()

    pumps = [asyncio.create_task(pump(*way)) for way in ways]
    try:
        await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        await asyncio.wait(pumps, timeout=5)
    finally:
        for task in pumps:
            task.cancel()
        await asyncio.gather(*pumps, return_exceptions=True)
        for _, writer in ways:
            writer.close()
