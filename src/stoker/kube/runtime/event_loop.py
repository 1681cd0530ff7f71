"""The event loop of long-running processes: uvloop, with a workaround for one of its bugs.

A connection over a socket that the caller supplies, as aiohttp always does, can fail before uvloop has taken
over the socket (seen in 0.23 when a server resets the connection during the TLS handshake). Then both the
caller and uvloop close the descriptor, and the second close hits an unrelated descriptor that reuses the
number, for example of a watch or of git's pipe.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from socket import socket
from typing import Any


def event_loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Return the factory of such a loop; None where uvloop is not installed."""
    try:
        import uvloop  # noqa: PLC0415 - not available for every platform
    except ImportError:
        return None

    class Loop(uvloop.Loop):
        async def create_connection(self, *args: Any, sock: socket | None = None, **options: Any) -> Any:
            try:
                return await super().create_connection(*args, sock=sock, **options)
            except BaseException:
                if sock is not None:
                    sock.detach()  # the transport closes it
                raise

    return Loop
