"""A semaphore of bytes: the memory that the requests of one port may use at the same time.

A request waits, in the order of arrival, until its estimated memory is free. The caller sets the
deadline. A request that asks for more than there is would wait forever, and is an error of the caller.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class MemoryBudget:
    """Bytes that several requests share."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.taken = 0
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    @asynccontextmanager
    async def hold(self, size: int) -> AsyncIterator[None]:
        """Reserve `size` bytes inside an `async with`."""
        if size > self.total:
            raise ValueError(f"{size} bytes are more than the whole budget of {self.total}")
        await self._take(size)
        try:
            yield
        finally:
            self._give(size)

    async def _take(self, size: int) -> None:
        if not self._waiting and self.taken + size <= self.total:
            self.taken += size
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((size, turn))
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():
                self._give(size)  # granted at the moment of the cancellation
            self._wake()  # the requests behind it may fit
            raise

    def _give(self, size: int) -> None:
        self.taken -= size
        self._wake()

    def _wake(self) -> None:
        while self._waiting:
            size, turn = self._waiting[0]
            if not turn.cancelled():
                if self.taken + size > self.total:
                    return
                self.taken += size
                turn.set_result(None)
            self._waiting.popleft()
