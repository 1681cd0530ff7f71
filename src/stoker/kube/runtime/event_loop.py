"""The event loop of a process that stays: uvloop, with one of its faults mended.

A connection that is made over a socket of the caller's, as aiohttp makes all of them, can
break off before uvloop has taken the socket over for good (seen in 0.23 when a server
resets in the middle of the greeting). Then two believe that the descriptor is theirs, and
the second to close it closes somebody else's, be it a watch or git's pipe.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from socket import socket
from typing import Any


def event_loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """What makes such a loop; None where there is only the one of Python."""
    try:
        import uvloop  # noqa: PLC0415 - it is not made for every platform
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
