"""The list and watch source of the reverser's reflectors, with limits on concurrency, rate and backlog.

A limited number of lists is read at a time, and each list takes one token of the rate limit. The next page or
watch line is read only when the outboxes that it feeds have room.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass

from stoker.domain.clock import Clock
from stoker.kube.client.client import ListPage
from stoker.kube.client.resources import ApiResource
from stoker.kube.client.token_bucket import TokenBucket
from stoker.kube.watch.reflector import ListWatchSource as Server
from stoker.reverser.selection.rules import DestinationRef
from stoker.reverser.selection.selection import WatchedKind
from stoker.reverser.writer.outbox import DestinationOutbox


@dataclass(slots=True)
class WatchBudget:
    """The limits and callbacks that all watches share."""

    opening: asyncio.Semaphore
    """Limits how many lists are read at a time."""
    rate: TokenBucket
    """Limits how often a list is started."""
    clock: Clock
    scanned: Callable[[WatchedKind, int], None] = lambda watched, count: None
    """Called with the number of objects read."""
    stirred: Callable[[], None] = lambda: None
    """Called when a watch fails or works again."""
    listed: Callable[[WatchedKind, float], None] = lambda watched, seconds: None
    """Called with the duration of a first list."""
    failed: Callable[[WatchedKind, str], None] = lambda watched, reason: None
    """Called with the reason whenever a list or a watch ends with an error."""


class ThrottledSource:
    """Wraps the client for a reflector and applies the limits."""

    def __init__(
        self,
        client: Server,
        watched: WatchedKind,
        feeds: Mapping[DestinationRef, DestinationOutbox],
        turns: WatchBudget,
    ) -> None:
        self._client = client
        self._watched = watched
        self._feeds = feeds
        self._turns = turns

    async def pages(
        self,
        resource: ApiResource,
        namespace: str | None = None,
        *,
        labels: str | None = None,
        fields: str | None = None,
        limit: int = 500,
        metadata_only: bool = False,
    ) -> AsyncIterator[ListPage]:
        async for page in self.listing(resource, namespace):
            yield page

    async def listing(self, resource: ApiResource, namespace: str | None) -> AsyncIterator[ListPage]:
        """Yield the pages of a whole list, within the limits."""
        async with self._turns.opening:
            await self._turns.rate.take()
            async for page in self._client.pages(resource, namespace):
                self._turns.scanned(self._watched, len(page.items))
                yield page
                await self._room()

    def watch(
        self,
        resource: ApiResource,
        namespace: str | None = None,
        *,
        resource_version: str,
        labels: str | None = None,
        fields: str | None = None,
        timeout_seconds: int,
        idle_timeout: float | None = None,
        metadata_only: bool = False,
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        return self._throttled(
            self._client.watch(
                resource,
                namespace,
                resource_version=resource_version,
                timeout_seconds=timeout_seconds,
                idle_timeout=idle_timeout,
            )
        )

    @asynccontextmanager
    async def _throttled(
        self, stream: AbstractAsyncContextManager[AsyncIterator[bytes]]
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        async with stream as lines:
            yield self._lines(lines)

    async def _lines(self, lines: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        async for line in lines:
            self._turns.scanned(self._watched, 1)
            yield line
            await self._room()

    async def _room(self) -> None:
        """Wait until all fed outboxes have room."""
        for outbox in tuple(self._feeds.values()):
            if outbox.holds_up:
                await outbox.wait_for_room()
