"""The loop under the connections of every long-lived process."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import ssl
import struct
import threading

import pytest

from stoker.kube.runtime.event_loop import event_loop_factory

TRIES = 400


@pytest.fixture
def rude_server() -> tuple[str, int]:
    """Hangs up on everybody with a reset, at once."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=100)

    def hang_up() -> None:
        with listener:
            for _ in range(TRIES):
                with contextlib.suppress(OSError):
                    connection, _ = listener.accept()
                    no_time = struct.pack("ii", 1, 0)
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, no_time)
                    connection.close()

    threading.Thread(target=hang_up, daemon=True).start()
    address: tuple[str, int] = listener.getsockname()
    return address


def test_a_connection_that_breaks_off_in_the_handshake_closes_no_other_file(
    rude_server: tuple[str, int],
) -> None:
    async def connect_again_and_again() -> int:
        loop, trust, broken = asyncio.get_running_loop(), ssl.create_default_context(), 0
        for _ in range(TRIES):
            # Closing a descriptor twice closes one of these.
            reader, writer = os.pipe()
            with socket.socket() as mine, contextlib.suppress(OSError):
                mine.setblocking(False)
                await loop.sock_connect(mine, rude_server)
                try:
                    await loop.create_connection(
                        asyncio.Protocol, sock=mine, ssl=trust, server_hostname="localhost"
                    )
                finally:
                    broken += 1
                    assert mine.fileno() == -1
            os.close(reader)
            os.close(writer)
        return broken

    with asyncio.Runner(loop_factory=event_loop_factory()) as runner:
        assert runner.run(connect_again_and_again()), "no connection came as far as that"
