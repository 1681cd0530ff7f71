"""A few places for many who want one: whoever is in a hurry goes first, the others in their order.

Polls of a thousand resources stand in line for minutes when a git server is slow; a push
that somebody waits for must not stand behind them. Nobody who has a place is put out of it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress


class HostLimiter:
    """So many at once."""

    def __init__(self, places: int) -> None:
        self._free = places
        self._hurried: deque[asyncio.Future[None]] = deque()
        self._patient: deque[asyncio.Future[None]] = deque()

    @asynccontextmanager
    async def turn(self, *, hurried: bool = False) -> AsyncIterator[None]:
        """Have a place for the time of an `async with`."""
        await self._take(self._hurried if hurried else self._patient)
        try:
            yield
        finally:
            self._give()

    async def _take(self, line: deque[asyncio.Future[None]]) -> None:
        if self._free:
            self._free -= 1
            return
        called = asyncio.get_running_loop().create_future()
        line.append(called)
        try:
            await called
        except asyncio.CancelledError:
            if called.cancelled():
                with suppress(ValueError):  # it was passed over already
                    line.remove(called)
            else:  # it was called in the same moment in which it gave up
                self._give()
            raise

    def _give(self) -> None:
        for line in (self._hurried, self._patient):
            while line:
                called = line.popleft()
                if not called.done():
                    called.set_result(None)
                    return
        self._free += 1
