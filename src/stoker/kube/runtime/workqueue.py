"""The work queue: keys that wait for a worker.

It is between the sources of changes (reflectors, timers, the receiver's annotations) and the workers of a
controller. An item is a key, never an event: a worker reads the object as it is now, so a thousand events
about one object cause one reconcile.

    add ──────────► ready ──get──► in flight ──done──► (gone)
                      ▲                │  ▲
    add_after, retry  │                │  └─ an add meanwhile is remembered; done() puts
        └─► delayed ──┘ due            │     the key back at the end of the line, once
                                       ▼
                                  retry(key): failures + 1, delayed

Besides being in flight, a key is in one place at a time: ready, remembered or delayed, and the earliest wins.
Two workers must never have the same key, a key must never be lost, and it must never overtake a key that
became ready before it.
"""

from __future__ import annotations

import asyncio
import heapq
import math
from collections import OrderedDict, deque
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

from stoker.domain.clock import Clock, SystemClock
from stoker.kube.runtime.backoff import Backoff

K = TypeVar("K", bound=Hashable)

RETRY_BACKOFF = Backoff(base=0.5, ceiling=300.0, jitter=0.2)

# The timer checks the clock at least this often, so that a delay of a year needs no timer of a year.
MAX_SLEEP_SECONDS = 3600.0

# Outdated heap entries that are tolerated before the heap is rebuilt.
HEAP_SLACK = 64


class QueueClosed(Exception):
    """The queue is closed and empty."""


@dataclass(frozen=True, slots=True)
class QueueDepth:
    """The state of the queue at one moment, read when metrics are scraped."""

    ready: int
    in_flight: int
    delayed: int
    adds_total: int  # keys that became ready; duplicates of a waiting key do not count
    retries_total: int
    oldest_seconds: float  # how long the first ready key has waited
    longest_running_seconds: float  # how long the slowest worker has held its key


class WorkQueue(Generic[K]):
    """A FIFO queue of distinct keys, with delays and a backoff per key.

    It belongs to one event loop; every method except `get` returns at once.
    """

    def __init__(self, *, clock: Clock | None = None, backoff: Backoff = RETRY_BACKOFF) -> None:
        self._clock = clock or SystemClock()
        self._backoff = backoff
        self._ready: OrderedDict[K, float] = OrderedDict()  # key: since when
        self._in_flight: dict[K, float] = {}  # key: since when
        self._again: set[K] = set()  # added while in flight
        self._delayed: dict[K, tuple[float, int, K]] = {}  # key: (due, tie-break, key)
        self._heap: list[tuple[float, int, K]] = []  # the same entries, and some outdated ones
        self._tie = 0
        self._failures: dict[K, int] = {}
        self._getters: deque[asyncio.Future[None]] = deque()
        self._timer: asyncio.Task[None] | None = None
        self._timer_due = 0.0
        self._closed = False
        self._adds_total = 0
        self._retries_total = 0

    def add(self, key: K) -> None:
        """Make the key ready as soon as possible; this ends a delay of the key."""
        if key in self._ready or self._closed:
            return
        if key in self._in_flight:
            if key in self._again:
                return
            self._again.add(key)
        else:
            self._ready[key] = self._clock.monotonic()
            self._wake_one()
        self._delayed.pop(key, None)
        self._adds_total += 1

    def add_after(self, key: K, seconds: float) -> None:
        """Make the key ready after so many seconds, unless it is ready earlier anyway."""
        if not seconds > 0:  # also NaN
            self.add(key)
            return
        if key in self._ready or key in self._again or self._closed:
            return
        due = self._clock.monotonic() + seconds
        if key in self._delayed and self._delayed[key][0] <= due:
            return
        self._tie += 1
        self._delayed[key] = (due, self._tie, key)
        heapq.heappush(self._heap, self._delayed[key])
        if len(self._heap) > 2 * len(self._delayed) + HEAP_SLACK:
            self._heap = sorted(self._delayed.values())  # a sorted list is a heap
        self._arm()

    def retry(self, key: K, at_least: float | None = None, at_most: float = math.inf) -> float:
        """Count a failure of the key and delay it by the backoff; return the delay in seconds."""
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        pause = max(min(self._backoff.delay(failures), at_most), at_least or 0.0)
        self._retries_total += 1
        self.add_after(key, pause)
        return pause

    def hurry(self) -> None:
        """Make all keys ready that wait after a failure, because its cause may be gone."""
        for key in [key for key in self._failures if key in self._delayed]:
            self.add(key)

    def forget(self, key: K) -> None:
        """Reset the failures of the key, after a success."""
        self._failures.pop(key, None)

    def failures(self, key: K) -> int:
        return self._failures.get(key, 0)

    def take(self) -> K | None:
        """Return the next key, in flight until `done`; None if no key is ready."""
        self._promote()
        if not self._ready:
            return None
        key, _ = self._ready.popitem(last=False)
        self._in_flight[key] = self._clock.monotonic()
        return key

    async def get(self) -> K:
        """Wait for the next key.

        After `close` the ready keys are still returned, then `QueueClosed` is raised.
        """
        while (key := self.take()) is None:
            if self._closed:
                raise QueueClosed
            getter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._getters.append(getter)
            try:
                await getter
            except asyncio.CancelledError:
                if getter in self._getters:
                    self._getters.remove(getter)
                elif self._ready:
                    self._wake_one()  # it was woken for a key that another worker must take now
                raise
        return key

    def done(self, key: K) -> None:
        """End the work on a key; if it was added meanwhile, it joins the end of the queue."""
        del self._in_flight[key]
        if key in self._again:
            self._again.discard(key)
            self._ready[key] = self._clock.monotonic()
            self._wake_one()

    def close(self) -> None:
        """Accept no more keys and drop delayed ones; waiters get the ready keys, then `QueueClosed`."""
        self._closed = True
        self._delayed.clear()
        self._heap.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        while self._getters:
            self._wake_one()

    def snapshot(self) -> QueueDepth:
        now = self._clock.monotonic()
        return QueueDepth(
            ready=len(self._ready),
            in_flight=len(self._in_flight),
            delayed=len(self._delayed),
            adds_total=self._adds_total,
            retries_total=self._retries_total,
            oldest_seconds=now - next(iter(self._ready.values()), now),
            longest_running_seconds=now - min(self._in_flight.values(), default=now),
        )

    def _promote(self) -> None:
        """Move due keys to the end of the ready queue, in the order in which they became due."""
        while self._heap and self._heap[0][0] <= self._clock.monotonic():
            appointment = heapq.heappop(self._heap)
            key = appointment[2]
            if self._delayed.get(key) is appointment:
                self.add(key)

    def _wake_one(self) -> None:
        while self._getters:
            getter = self._getters.popleft()
            if not getter.done():
                getter.set_result(None)
                return

    def _arm(self) -> None:
        """Set the single timer to the earliest due time."""
        due = self._heap[0][0]
        if self._timer is not None:
            if self._timer_due <= due:
                return
            self._timer.cancel()
        self._timer_due = due
        self._timer = asyncio.get_running_loop().create_task(self._ring())

    async def _ring(self) -> None:
        while self._heap:
            self._timer_due = self._heap[0][0]
            await self._clock.sleep(min(self._timer_due - self._clock.monotonic(), MAX_SLEEP_SECONDS))
            self._promote()
        self._timer = None
