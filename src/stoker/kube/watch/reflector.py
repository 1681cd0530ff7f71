"""Keeps a cache of one kind in one scope up to date with the cluster.

`stoker.kube.watch.list_watch` decides; this loop sends the requests and passes it the results. Every change
is delivered to the listeners at once and in order, after the cache has it; a listener is expected to put a
key into a queue and return. One reflector per kind and scope serves all listeners: `listen` may be called
later, and first delivers the objects that already exist. `stoker.kube.watch.informer` joins the reflectors of
several namespaces.

No error of the API server ends the loop, neither a denied permission nor a kind that does not exist (any
more): `health` reports the error and since when, and the loop retries, slowly where a user must act. Only
cancelling ends it, immediately and without leftovers: it starts no tasks.

A silent connection is detected. A server without changes sends a bookmark about every minute, the first
after up to two. After `idle_timeout` seconds without a byte the watch is opened again, and after three such
timeouts in a row the kind is listed. So a peer that died silently cannot block the watch, and a server that
sends no bookmarks costs an occasional request. With an `idle_timeout` of None the reflector waits for the
time at which the server was to end the watch, at most eight minutes, and fifteen seconds.
"""

from __future__ import annotations

import asyncio
import math
import random as chance
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from stoker.domain.clock import Clock, SystemClock
from stoker.domain.errors import StokerError
from stoker.kube.client.client import ListPage
from stoker.kube.client.errors import ApiServerUnreachable
from stoker.kube.client.resources import ApiResource
from stoker.kube.runtime.backoff import Backoff
from stoker.kube.watch.list_watch import ListAll, ListWatchState
from stoker.kube.watch.store import CacheIndex, ObjectCache, ObjectChange, ObjectKey, RefusedObjectHandler

T = TypeVar("T")

ChangeListener = Callable[[ObjectChange[T]], None]

BACKOFF = Backoff(base=0.5, ceiling=30.0, jitter=0.5)
SLOW_BACKOFF = Backoff(base=5.0, ceiling=60.0, jitter=0.5)
"""For errors that a user must fix: a RoleBinding that is about to be created, or never will be."""

IDLE_TIMEOUT = 150.0
"""More than the two minutes that a watch may have to wait for its first bookmark."""

WATCH_SECONDS = (240, 480)
"""Each watch requests a random timeout in this range, so that watches opened together end apart."""


class ListWatchSource(Protocol):
    """The two methods of `stoker.kube.client.client.KubeClient` that a reflector needs."""

    def pages(
        self,
        resource: ApiResource,
        namespace: str | None = None,
        *,
        labels: str | None = None,
        fields: str | None = None,
        limit: int = 500,
        metadata_only: bool = False,
    ) -> AsyncIterator[ListPage]: ...

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
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]: ...


@dataclass(frozen=True, slots=True)
class ReflectorHealth:
    """The health of a reflector; times are those of the clock's `monotonic`."""

    synced: bool
    """The first list is complete."""
    watching: bool
    """A stream is open at this moment."""
    failures: int
    error: StokerError | None
    failing_since: float | None


class Reflector(Generic[T]):
    """List and watch one kind in one scope, into `store`.

    With `metadata_only` the server sends only the metadata of objects. `wanted` filters by key what no
    selector can express: other objects are neither decoded nor cached. `on_recovered` is called when a stream
    is open again after a failure, `on_listed` when all changes that a list showed are delivered.

    With `object_by_object` each object of a list is delivered with its bytes before the next is read, instead
    of after the last page; only deletions wait for the last page. `keep` can then drop the bytes, so that no
    more than a page is in memory.
    """

    def __init__(
        self,
        client: ListWatchSource,
        resource: ApiResource,
        *,
        namespace: str | None = None,
        labels: str | None = None,
        fields: str | None = None,
        metadata_only: bool = False,
        keep: Callable[[bytes], T],
        on_change: ChangeListener[T] | None = None,
        on_error: Callable[[StokerError], None] | None = None,
        on_recovered: Callable[[], None] | None = None,
        on_listed: Callable[[], None] | None = None,
        on_refused: RefusedObjectHandler | None = None,
        indexes: Mapping[str, CacheIndex[T]] | None = None,
        wanted: Callable[[ObjectKey], bool] | None = None,
        object_by_object: bool = False,
        clock: Clock = SystemClock(),  # noqa: B008 - it has no state
        idle_timeout: float | None = IDLE_TIMEOUT,
        page_size: int = 500,
        resync_every: float | None = None,
        backoff: Backoff = BACKOFF,
        slow_backoff: Backoff = SLOW_BACKOFF,
        random: Callable[[], float] = chance.random,
    ) -> None:
        self.resource = resource
        self.namespace = namespace
        self.store: ObjectCache[T] = ObjectCache(keep, on_refused=on_refused, indexes=indexes, wanted=wanted)
        what = f"watch {resource}" + (f" in {namespace}" if namespace else "")
        self._watching = ListWatchState(
            self.store, backoff=backoff, slow_backoff=slow_backoff, random=random, what=what
        )
        self._client = client
        self._labels = labels
        self._fields = fields
        self._metadata_only = metadata_only
        self._on_error = on_error
        self._on_recovered = on_recovered
        self._on_listed = on_listed
        self._object_by_object = object_by_object
        self._clock = clock
        self._idle_timeout = idle_timeout
        self._page_size = page_size
        self._resync_every = resync_every
        self._random = random
        self._listeners: tuple[ChangeListener[T], ...] = () if on_change is None else (on_change,)
        self._synced = asyncio.Event()
        self._answered = asyncio.Event()
        self._listed_at = 0.0
        self._opened: float | None = None
        self._last_contact: float | None = None
        self._error: StokerError | None = None
        self._failing_since: float | None = None
        self.lists = 0
        self.relists = 0
        self.watches = 0
        self.broken_streams = 0
        self.silences = 0

    async def run(self) -> None:
        """Keep the cache up to date until cancelled."""
        while True:
            step = self._watching.step
            if step.after > 0:
                await self._clock.sleep(step.after)
            if isinstance(step, ListAll):
                await self._list()
            else:
                await self._watch(step.resource_version)

    async def synced(self) -> None:
        """Wait until the first list is complete."""
        await self._synced.wait()

    async def answered(self) -> None:
        """Wait until the first list is complete or has failed."""
        await self._answered.wait()

    def listen(self, listener: ChangeListener[T]) -> Callable[[], None]:
        """Deliver existing objects as additions, then every change; return a function that unsubscribes."""
        for change in self.store.additions():
            listener(change)
        self._listeners = (*self._listeners, listener)

        def leave() -> None:
            self._listeners = tuple(each for each in self._listeners if each is not listener)

        return leave

    @property
    def health(self) -> ReflectorHealth:
        return ReflectorHealth(
            synced=self._synced.is_set(),
            watching=self._opened is not None,
            failures=self._watching.failures,
            error=self._error,
            failing_since=self._failing_since,
        )

    async def _list(self) -> None:
        self.lists += 1
        version = ""
        try:
            pages = self._client.pages(
                self.resource,
                self.namespace,
                labels=self._labels,
                fields=self._fields,
                limit=self._page_size,
                metadata_only=self._metadata_only,
            )
            async for page in pages:
                self._last_contact = self._clock.monotonic()
                if self._object_by_object:
                    for change in self._watching.each_of_page(page.items):
                        self._deliver(change)
                else:
                    self._watching.page(page.items)
                version = page.resource_version
            changes = self._watching.listed(version)
        except StokerError as error:
            self._failed(error, lasted=0.0)
            return
        self.relists += self._synced.is_set()
        self._listed_at = self._clock.monotonic()
        for change in changes:
            self._deliver(change)
        self._synced.set()
        self._answered.set()
        if self._on_listed is not None:
            self._on_listed()

    async def _watch(self, version: str) -> None:
        self.watches += 1
        try:
            async with self._client.watch(
                self.resource,
                self.namespace,
                resource_version=version,
                labels=self._labels,
                fields=self._fields,
                timeout_seconds=self._watch_seconds(),
                idle_timeout=self._idle_timeout,
                metadata_only=self._metadata_only,
            ) as lines:
                await self._follow(lines)
        except StokerError as error:
            self._broken(error)
        else:
            self._watching.ended(self._lasted())
            if self._resync_every is not None and self._until_resync(self._resync_every) <= 0:
                self._watching.resync()
        finally:
            self._opened = None

    async def _follow(self, lines: AsyncIterator[bytes]) -> None:
        self._opened = self._last_contact = self._clock.monotonic()
        failed = self._failing_since is not None
        self._error = self._failing_since = None
        if failed and self._on_recovered is not None:
            self._on_recovered()
        async for line in lines:
            self._last_contact = self._clock.monotonic()
            for change in self._watching.line(line):
                self._deliver(change)

    def _broken(self, error: StokerError) -> None:
        self.broken_streams += self._opened is not None
        if isinstance(error, ApiServerUnreachable) and self._was_silent():
            self.silences += 1
            self._watching.silent()
        else:
            self._failed(error, self._lasted())

    def _lasted(self) -> float:
        return 0.0 if self._opened is None else self._clock.monotonic() - self._opened

    def _was_silent(self) -> bool:
        if self._opened is None or self._idle_timeout is None or self._last_contact is None:
            return False
        # Slightly less than the whole timeout, because timers and clocks differ by milliseconds.
        return self._clock.monotonic() - self._last_contact >= 0.95 * self._idle_timeout

    def _failed(self, error: StokerError, lasted: float) -> None:
        self._watching.failed(error, lasted)
        self._error = error
        if self._failing_since is None:
            self._failing_since = self._clock.monotonic()
        if self._on_error is not None:
            self._on_error(error)
        self._answered.set()

    def _deliver(self, change: ObjectChange[T]) -> None:
        for listener in self._listeners:
            listener(change)

    def _watch_seconds(self) -> int:
        shortest, longest = WATCH_SECONDS
        seconds = shortest + int((longest - shortest + 1) * self._random())
        if self._resync_every is not None:
            seconds = min(seconds, max(1, math.ceil(self._until_resync(self._resync_every))))
        return seconds

    def _until_resync(self, every: float) -> float:
        return self._listed_at + every - self._clock.monotonic()
