"""Runs slow calls to services outside the cluster in the background: health checks and announcements.

A reconcile requests a call and continues. When the call is done, the resource is enqueued again and the next
reconcile finds the result. A request runs once for as long as the resource makes the same request; another
request, or none, cancels it. The result is kept only in memory until it is written to the status, so a
controller that crashes in between makes the call once more.
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
    """At most one background call for each resource."""

    def __init__(
        self, do: Callable[[ResourceKey, Q], Awaitable[A]], found: Callable[[ResourceKey], None]
    ) -> None:
        """`do` returns errors as part of its result; `found` gets the key of each finished call."""
        self._do = do
        self._found = found
        self._running: dict[ResourceKey, tuple[Q, asyncio.Task[None]]] = {}
        self._done: dict[ResourceKey, tuple[Q, A]] = {}

    def look(self, key: ResourceKey, wanted: Q) -> A | None:
        """Return the result, or None while the call runs; start it if it is not running."""
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
        """Cancel the call and drop its result."""
        self._done.pop(key, None)
        running = self._running.pop(key, None)
        if running is not None:
            running[1].cancel()

    async def run(self) -> None:
        """Wait until cancelled, then cancel all calls that still run."""
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
        except Exception:  # a defect of ours: log it; the next reconcile calls again
            log.exception("errand.failed", key=str(key))
            del self._running[key]
            return
        del self._running[key]
        self._done[key] = wanted, answer
        self._found(key)
