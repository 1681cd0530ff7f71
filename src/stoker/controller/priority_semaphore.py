"""Limits of concurrent work, in which urgent waiters go first, the others in their order.

Polls of a thousand resources wait for minutes when a git server is slow; a push that a user waits for must
not queue behind them. A running holder is never preempted.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress


class PrioritySemaphore:
    """Lets at most `places` holders in at a time."""

    def __init__(self, places: int) -> None:
        self._free = places
        self._hurried: deque[asyncio.Future[None]] = deque()
        self._patient: deque[asyncio.Future[None]] = deque()

    @asynccontextmanager
    async def turn(self, *, hurried: bool = False) -> AsyncIterator[None]:
        """Hold a place for the duration of an `async with`."""
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
                with suppress(ValueError):  # _give has already removed it from the line
                    line.remove(called)
            else:  # it got the place at the moment in which it was cancelled
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


class HostLimiter:
    """Lets at most `per_host` holders in at each host, and `places` at all hosts together."""

    def __init__(self, places: int, per_host: int) -> None:
        self._all = PrioritySemaphore(places)
        self._hosts: defaultdict[str, PrioritySemaphore] = defaultdict(lambda: PrioritySemaphore(per_host))

    @asynccontextmanager
    async def turn(self, host: str, *, hurried: bool = False) -> AsyncIterator[None]:
        """Hold a place at the host for the duration of an `async with`."""
        async with self._hosts[host].turn(hurried=hurried), self._all.turn(hurried=hurried):
            yield
