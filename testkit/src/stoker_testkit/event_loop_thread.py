"""An event loop in its own thread, for servers that both asynchronous and blocking tests use.

The git server and the fault proxies are asynchronous inside, but a test that runs `kubectl` or `git` blocks
its own loop or has none. Here the server keeps serving meanwhile, and its methods are plain calls from any
thread.
"""

from __future__ import annotations

import asyncio
import selectors
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import ParamSpec, Protocol, TypeVar

from stoker_testkit.wait_until import ConditionTimeout, eventually_async

T = TypeVar("T")
P = ParamSpec("P")

CALL_SECONDS = 30.0
FAREWELL_SECONDS = 2.0

SHUTDOWN_SECONDS = 0.1
"""The time that aiohttp waits for running requests at its end; to aiohttp 0 means without limit."""


ACCEPT_TURNS = 10


class HasFileno(Protocol):
    """A socket, either Python's or asyncio's wrapper of it."""

    def fileno(self) -> int: ...


async def stop_accepting(*listeners: HasFileno) -> None:
    """Accept no more connections, and hand those just accepted to their server.

    Await this before the server is closed: a connection whose accept is not finished by then has no owner,
    and Python leaves its socket open.
    """
    loop = asyncio.get_running_loop()
    for listener in listeners:
        loop.remove_reader(listener.fileno())
    for _ in range(ACCEPT_TURNS):
        await asyncio.sleep(0)


class LoopThread:
    """Runs coroutines for other threads until it is stopped."""

    def __init__(self, name: str) -> None:
        self._selector = selectors.DefaultSelector()
        self._loop = asyncio.SelectorEventLoop(self._selector)
        self._at_rest = len(self._selector.get_map())
        self._thread = threading.Thread(target=self._loop.run_forever, name=name, daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[object, object, T]) -> T:
        """Run a coroutine in the thread's loop and return its result to the calling thread."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(CALL_SECONDS)

    def call(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a plain function in the loop, so that it sees no half-changed state."""

        async def work() -> T:
            return function(*args, **kwargs)

        return self.run(work())

    def stop(self) -> None:
        """Cancel what still runs in the loop, let connections close, and end the thread."""
        self.run(self._finish())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(CALL_SECONDS)
        self._loop.close()

    async def _finish(self) -> None:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            if not task.cancelling():  # a second cancel would interrupt its cleanup
                task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        await self._loop.shutdown_asyncgens()
        # TLS shutdown takes a few loop iterations after a connection was closed. If the loop ends before
        # that, the garbage collector finds the socket and warns about it.
        with suppress(ConditionTimeout):
            await eventually_async(lambda: len(self._selector.get_map()) <= self._at_rest, FAREWELL_SECONDS)
        # A connection that is paused is not in the selector, and one whose peer reads nothing never ends.
        for transport in list(getattr(self._loop, "_transports", {}).values()):
            transport.abort()
        for _ in range(ACCEPT_TURNS):
            await asyncio.sleep(0)
