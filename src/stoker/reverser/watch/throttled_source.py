"""The list and watch source of the reverser's reflectors, with limits on concurrency, rate and backlog.

A limited number of lists is read at a time, and each list takes one token of the rate limit. The next page or
watch line is read only when the outboxes that it feeds have room. The source knows whether an object comes
from a list or from a watch event; the store behind it does not.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Protocol

from stoker.domain.clock import Clock
from stoker.kube.client.client import ListPage
from stoker.kube.client.resources import ApiResource
from stoker.kube.client.token_bucket import TokenBucket
from stoker.kube.watch.reflector import ListWatchSource as Server
from stoker.kube.watch.store import ObjectKey as Name
from stoker.kube.watch.watch_events import DELETED, read_line
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


class WatchConsumer(Protocol):
    """The reader of a `ThrottledSource`."""

    @property
    def watched(self) -> WatchedKind: ...

    @property
    def feeds(self) -> Mapping[DestinationRef, DestinationOutbox]: ...

    @property
    def unread(self) -> Collection[Name]:
        """Objects that exist but could not be decoded: the store does not hold them."""
        ...

    def lost(self, name: Name) -> None:
        """Handle the deletion of an object in `unread`."""
        ...

    def begun(self) -> None:
        """Handle the start of a list."""
        ...

    def listed(self) -> None:
        """Handle the end of a list, after its objects are in the store."""
        ...

    def opened(self) -> None:
        """Handle an open watch."""
        ...


class ThrottledSource:
    """Wraps the client for a reflector and applies the limits."""

    def __init__(self, client: Server, user: WatchConsumer, turns: WatchBudget) -> None:
        self._client = client
        self._user = user
        self._turns = turns
        self.untouched = True
        """True until the first request."""
        self.listing_now = False
        """True while the reflector gets objects of a list; False for watch events."""

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
        self.untouched = False
        self.listing_now = True
        self._user.begun()
        async for page in self.listing(resource, namespace):
            yield page

    async def listing(self, resource: ApiResource, namespace: str | None) -> AsyncIterator[ListPage]:
        """Yield the pages of a whole list, within the limits."""
        async with self._turns.opening:
            await self._turns.rate.take()
            async for page in self._client.pages(resource, namespace):
                self._turns.scanned(self._user.watched, len(page.items))
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
        if self.listing_now:
            self.listing_now = False
            self._user.listed()
        opened = self._client.watch(
            resource,
            namespace,
            resource_version=resource_version,
            timeout_seconds=timeout_seconds,
            idle_timeout=idle_timeout,
        )
        return self._opened(opened)

    @asynccontextmanager
    async def _opened(
        self, opened: AbstractAsyncContextManager[AsyncIterator[bytes]]
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        async with opened as lines:
            self._user.opened()
            yield self._lines(lines)

    async def _lines(self, lines: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        async for line in lines:
            self._turns.scanned(self._user.watched, 1)
            yield line
            if self._user.unread:
                self._look_for_lost(line)
            await self._room()

    def _look_for_lost(self, line: bytes) -> None:
        event = read_line(line)  # the reflector has parsed this line already, so it is well-formed
        if event.type == DELETED and event.meta.key in self._user.unread:
            self._user.lost(event.meta.key)

    async def _room(self) -> None:
        """Wait until all fed outboxes have room."""
        for outbox in tuple(self._user.feeds.values()):
            if outbox.holds_up:
                await outbox.wait_for_room()
