"""What a reflector of the reverser reads: lists and watches, in turns and no faster than there is room.

At most so many lists are read at once, each list takes a turn of the rate, and the next
page or line is read only when those who get it have room. It knows whether what it
hands out is of a list or an event of a watch, which the store behind it does not.
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
    """What all watches share."""

    opening: asyncio.Semaphore
    """How many lists are read at once."""
    rate: TokenBucket
    """How often one is begun."""
    clock: Clock
    scanned: Callable[[WatchedKind, int], None] = lambda watched, count: None
    """Told how many objects came by."""
    stirred: Callable[[], None] = lambda: None
    """Told that a watch fails, or works again."""
    listed: Callable[[WatchedKind, float], None] = lambda watched, seconds: None
    """Told how long a first list took."""
    failed: Callable[[WatchedKind, str], None] = lambda watched, reason: None
    """Told each time that a list or a watch ended with an error, and why."""


class WatchConsumer(Protocol):
    """Who reads from it."""

    @property
    def watched(self) -> WatchedKind: ...

    @property
    def feeds(self) -> Mapping[DestinationRef, DestinationOutbox]: ...

    @property
    def unread(self) -> Collection[Name]:
        """Objects that live and could not be read: the store knows nothing of them."""
        ...

    def lost(self, name: Name) -> None:
        """Such an object was deleted."""
        ...

    def begun(self) -> None:
        """A list is read from its beginning."""
        ...

    def listed(self) -> None:
        """A list was read to its end and is in the store."""
        ...

    def opened(self) -> None:
        """A watch is open."""
        ...


class ThrottledSource:
    """The client as a reflector sees it, with turns and room."""

    def __init__(self, client: Server, user: WatchConsumer, turns: WatchBudget) -> None:
        self._client = client
        self._user = user
        self._turns = turns
        self.untouched = True
        """Nothing was asked for yet."""
        self.listing_now = False
        """Whether what the reflector gets is of a list; otherwise it is an event of a watch."""

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
        """A whole list, in its turn and no faster than there is room."""
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
        event = read_line(line)  # whoever got it before us has read it, too
        if event.type == DELETED and event.meta.key in self._user.unread:
            self._user.lost(event.meta.key)

    async def _room(self) -> None:
        """Until all who get what comes here have room for it."""
        for outbox in tuple(self._user.feeds.values()):
            if outbox.holds_up:
                await outbox.wait_for_room()
