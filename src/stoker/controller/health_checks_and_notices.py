"""What takes its time outside of the cluster, done beside the passes: health checks and announcements.

A pass names what it wants done and goes on; when it is done the resource comes back by
itself and finds the answer. The same errand is run once, for as long as the resource asks
for the same: another one, or none, ends it. What came of it is kept here only until the
status says so; a controller that dies in between runs it once more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from stoker.controller.cache.objects import ResourceKey
from stoker.telemetry.logs import get_logger

Q = TypeVar("Q")
A = TypeVar("A")

log = get_logger(__name__)


class BackgroundTasks(Generic[Q, A]):
    """One errand at a time for each resource."""

    def __init__(
        self, do: Callable[[ResourceKey, Q], Awaitable[A]], found: Callable[[ResourceKey], None]
    ) -> None:
        """`do` answers with whatever went wrong; `found` is told whose errand is done."""
        self._do = do
        self._found = found
        self._running: dict[ResourceKey, tuple[Q, asyncio.Task[None]]] = {}
        self._done: dict[ResourceKey, tuple[Q, A]] = {}

    def look(self, key: ResourceKey, wanted: Q) -> A | None:
        """What came of it; None while it is on its way, on which it is sent if nobody has."""
        done = self._done.get(key)
        if done is not None and done[0] == wanted:
            return done[1]
        running = self._running.get(key)
        if running is None or running[0] != wanted:
            self.forget(key)
            task = asyncio.create_task(self._run(key, wanted), name=f"errand {key}")
            self._running[key] = wanted, task
        return None

    def forget(self, key: ResourceKey) -> None:
        """Nobody wants it any more."""
        self._done.pop(key, None)
        running = self._running.pop(key, None)
        if running is not None:
            running[1].cancel()

    async def run(self) -> None:
        """Stand by until cancelled, and leave nothing running."""
        try:
            await asyncio.Event().wait()
        finally:
            tasks = [task for _, task in self._running.values()]
            self._running.clear()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _run(self, key: ResourceKey, wanted: Q) -> None:
        try:
            answer = await self._do(key, wanted)
        except Exception:  # our own mistake: the next pass sends it again, and the log has it
            log.exception("errand.failed", key=str(key))
            del self._running[key]
            return
        del self._running[key]
        self._done[key] = wanted, answer
        self._found(key)
