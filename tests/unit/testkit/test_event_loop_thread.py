"""A loop in a thread of its own."""

from __future__ import annotations

import asyncio
import socket
import threading
from contextlib import suppress

import pytest

from stoker_testkit.event_loop_thread import LoopThread
from stoker_testkit.wait_until import eventually


def test_runs_work_elsewhere_and_hands_back_results_and_errors() -> None:
    thread = LoopThread("elsewhere")

    async def work() -> str:
        await asyncio.sleep(0)
        return threading.current_thread().name

    assert thread.run(work()) == "elsewhere"
    assert thread.call(max, 3, 4) == 4
    with pytest.raises(ZeroDivisionError):
        thread.call(lambda: 1 / 0)
    thread.stop()


def test_stopping_cancels_what_still_runs_and_lets_it_clean_up() -> None:
    thread = LoopThread("elsewhere")
    cleaned: list[str] = []

    async def forever() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            cleaned.append("up")

    async def begin() -> asyncio.Task[None]:
        task = asyncio.create_task(forever())
        await asyncio.sleep(0)
        return task

    task = thread.run(begin())
    thread.stop()
    assert task.cancelled()
    assert cleaned == ["up"]


def test_stopping_closes_a_connection_that_is_paused() -> None:
    thread = LoopThread("elsewhere")
    kept: list[asyncio.BaseTransport] = []

    def hold(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        transport = writer.transport
        assert isinstance(transport, asyncio.ReadTransport)
        transport.pause_reading()
        kept.append(transport)

    async def serve() -> asyncio.Server:
        return await asyncio.start_server(hold, "127.0.0.1", 0)

    server = thread.run(serve())
    with socket.create_connection(server.sockets[0].getsockname()) as client:
        eventually(lambda: kept, message="the connection is accepted")
        thread.call(server.close)
        thread.stop()
        client.settimeout(30.0)
        with suppress(ConnectionResetError):
            assert client.recv(1) == b"", "the other end is closed"
    assert kept[0].is_closing()
