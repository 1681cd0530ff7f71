"""The list-and-watch protocol as a state machine, without I/O: no change is missed or repeated.

`stoker.kube.watch.reflector` reads the next `step`, executes it, and passes the result to this machine, which
updates the cache and returns the changes to deliver.

                 listed                       ended, silent, failed
    ListAll ─────────────► WatchFrom(version) ─────────────────────► WatchFrom(last seen)
     │   ▲                     │
     └───┤ failed              │ 410 as an answer or in the stream; the stream goes backwards;
         │                     │ no progress after several tries; an error a user must fix; resync
         └─────────────────────┘

A list is always requested without a resourceVersion, so it is the current state, and any other object in the
cache is gone: deletions that happened without a watch are found there. A list counts only when its last page
has arrived; a list that fails midway changes nothing. A user that must not hold a whole list in memory gets
each object as it is read (`each_of_page`); then a list that fails midway has delivered some objects, and
deletions still wait for the last page.

A resourceVersion is compared for equality. Where two are numbers, as on every server since 1.35, the smaller
one is older, which distinguishes a repetition from a new event. Several objects may share one version (keys
that expire in etcd together), so an equal version proves nothing. This machine must never deliver a change
of an object twice or after a later one.
"""

from __future__ import annotations

import random as chance
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

from stoker.domain.errors import Retry, Stalled, StokerError
from stoker.domain.reasons import Reason
from stoker.kube.client.errors import ApiServerUnreachable, Gone
from stoker.kube.runtime.backoff import Backoff
from stoker.kube.watch.store import CacheEntry, ObjectCache, ObjectChange, ObjectKey
from stoker.kube.watch.watch_events import (
    BOOKMARK,
    DELETED,
    ERROR,
    EVENTS,
    MalformedEvent,
    WatchLine,
    read_error,
    read_item,
    read_line,
)

T = TypeVar("T")

STANDSTILLS = 3
"""Streams in a row with an error or without any line, before a list is requested instead."""

HOPELESS = 10
"""Failures of any kind in a row after which the watch is not resumed.

By then the server has compacted the version anyway. Attempts without an answer, which are more frequent,
count a quarter each.
"""

HASTY = 5
"""Denied requests that are treated as those of a server that has just started."""

LIVED = 5.0
"""A stream that was open for so many seconds, or delivered a line, counts as successful, however it ended."""

SPREAD = 0.5
"""Seconds over which streams that ended together, as at a restart of the server, are reopened."""

AWAY = 4.0
"""Maximum seconds between two attempts while the server is unreachable.

A longer delay does not relieve a server that is down, and would only delay noticing that it is back.
"""


class ResourceVersionWentBack(Retry):
    """The stream delivered an older version than before: a restored etcd, or a broken proxy."""

    default_reason = Reason.RESOURCE_VERSION_EXPIRED


@dataclass(frozen=True, slots=True)
class ListAll:
    """Wait `after` seconds, then read a list from its beginning."""

    after: float = 0.0


@dataclass(frozen=True, slots=True)
class WatchFrom:
    """Wait `after` seconds, then watch changes after `resource_version`."""

    resource_version: str
    after: float = 0.0


ListWatchStep = ListAll | WatchFrom


class ListWatchState(Generic[T]):
    """The protocol state of one reflector."""

    def __init__(
        self,
        store: ObjectCache[T],
        *,
        backoff: Backoff,
        slow_backoff: Backoff,
        random: Callable[[], float] = chance.random,
        what: str = "watch",
    ) -> None:
        self._store = store
        self._backoff = backoff
        self._slow_backoff = slow_backoff
        self._random = random
        self._what = what
        self._version = ""
        self._arrived: dict[ObjectKey, CacheEntry[T]] = {}
        self._standstills = 0
        self._spoken = False
        self._troubles: Counter[type[StokerError]] = Counter()
        self.step: ListWatchStep = ListAll()
        self.failures = 0
        """Failures in a row. Only a successful stream resets it: a list that works proves little."""
        self.duplicates = 0
        """Lines that repeated a known version."""

    # Called while listing.

    def page(self, items: Iterable[bytes]) -> None:
        """Process one page of the list; the cache does not change yet."""
        for raw in items:
            self._arrive(raw)

    def each_of_page(self, items: Iterable[bytes]) -> Iterator[ObjectChange[T]]:
        """Process one page object by object: each is put into the cache and returned before the next is read.

        Objects that the list does not show stay in the cache until the list is complete.
        """
        for raw in items:
            key, entry = self._arrive(raw)
            if entry is not None:
                yield from self._store.put(key, entry, raw, listed=True)

    def listed(self, resource_version: str) -> list[ObjectChange[T]]:
        """Complete the list; return the differences to the cache."""
        if not resource_version:
            raise MalformedEvent(f"{self._what}: a list came without a resourceVersion from which to watch")
        arrived, self._arrived = self._arrived, {}
        self._version = resource_version
        self._standstills = 0
        self._go(WatchFrom(resource_version))
        return self._store.replace_all(arrived, resource_version)

    # Called while watching.

    def line(self, line: bytes) -> tuple[ObjectChange[T], ...]:
        """Process one line of the stream; raise errors that the caller must pass to `failed`."""
        try:
            event = read_line(line, self._what)
            if event.type in EVENTS:
                changes = self._event(event)
            elif event.type == BOOKMARK:
                self._advance(event.meta.resource_version)
                changes = ()
            elif event.type == ERROR:
                raise read_error(event.raw, self._what)
            else:
                raise MalformedEvent(f"{self._what}: a line is of the unknown type {event.type[:40]!r}")
        except StokerError:
            self._standstills += 1
            raise
        self._spoken = True
        if self.failures:
            self._well()
        return changes

    def ended(self, lasted: float) -> None:
        """The server closed the stream after so many seconds, as it does at the end of its timeout."""
        if self._lived(lasted):
            self._go(WatchFrom(self._version, after=SPREAD * self._random()))
        else:
            self.failures += 1
            self._resume_or_list(after=self._backoff.delay(self._times(Retry)))

    def silent(self) -> None:
        """No byte arrived for too long: the peer may be dead, or there was nothing to send."""
        self._standstills += 1
        self._resume_or_list(after=SPREAD * self._random())

    def resync(self) -> None:
        """List again although nothing failed."""
        self._go(ListAll())

    # Called in both states.

    def failed(self, error: StokerError, lasted: float = 0.0) -> None:
        """A request, or a stream that was open for `lasted` seconds, ended in this error."""
        self._arrived = {}
        self._lived(lasted)
        self.failures += 1
        if isinstance(error, Stalled):
            # Until a user acts quick retries are useless, and by then much may have changed.
            self._go(ListAll(self._refused()))
            return
        if isinstance(error, ApiServerUnreachable):
            pause = min(
                self._backoff.delay(self._times(ApiServerUnreachable)), AWAY * (1.0 - SPREAD * self._random())
            )
        else:
            pause = self._backoff.delay(self._times(Retry))
        if isinstance(error, Retry) and error.after is not None:
            pause += error.after  # added, because the server gave every refused client the same time
        if isinstance(self.step, ListAll) or isinstance(error, Gone | ResourceVersionWentBack):
            self._go(ListAll(pause))
        else:
            self._resume_or_list(pause)

    def _refused(self) -> float:
        """Return the delay after the server denied the request.

        A freshly started server denies every request until it has loaded its RBAC rules. So if it worked
        before,
        the first attempts come soon.
        """
        times = self._times(Stalled)
        slow = self._slow_backoff.delay(times)
        return min(slow, self._backoff.delay(times)) if self._version and times <= HASTY else slow

    def _times(self, kind: type[StokerError]) -> int:
        """Count a failure of this kind and return how many there were since the last success.

        Each kind has its own backoff, so that after a long outage a server that is back and answers "retry
        later" is not left alone for long.
        """
        self._troubles[kind] += 1
        return self._troubles[kind]

    def _arrive(self, raw: bytes) -> tuple[ObjectKey, CacheEntry[T] | None]:
        """Read one item of a list and note that it exists."""
        meta = read_item(raw, self._what)
        key = meta.key
        entry = self._store.entry(key)
        if entry is not None and entry.uid != meta.uid:
            entry = None
        if entry is None or entry.resource_version != meta.resource_version:
            # An unreadable version is not a deletion: the previous version of the object stays.
            entry = self._store.read(key, meta.uid, meta.resource_version, raw) or entry
        if entry is not None:
            self._arrived[key] = entry
        return key, entry

    def _event(self, event: WatchLine) -> tuple[ObjectChange[T], ...]:
        _, meta, raw = event
        key, version = meta.key, meta.resource_version
        held = self._store.entry(key)
        if event.type == DELETED and (held is None or held.uid == meta.uid):
            # A uid is deleted once, so this is no repetition, even if a server sends the version before the
            # deletion.
            if is_newer(version, self._version):
                self._advance(version)
            return self._store.remove(key, version)
        if held is not None and held.uid == meta.uid and not is_newer(version, held.resource_version):
            self.duplicates += 1
            return ()
        self._advance(version)
        entry = None if event.type == DELETED else self._store.read(key, meta.uid, version, raw)
        if entry is not None:
            return self._store.put(key, entry, raw)
        # Another uid, even if deleted or unreadable, proves that the cached object is gone.
        return self._store.remove(key, version) if held is not None and held.uid != meta.uid else ()

    def _advance(self, version: str) -> None:
        if version == self._version:
            return
        if not is_newer(version, self._version):
            raise ResourceVersionWentBack(
                f"{self._what}: the stream went back from {self._version} to {version}"
            )
        self._version = version
        self._standstills = 0

    def _lived(self, lasted: float) -> bool:
        lived = self._spoken or lasted >= LIVED
        if lived:
            self._well()
        return lived

    def _well(self) -> None:
        self.failures = 0
        self._troubles.clear()

    def _resume_or_list(self, after: float) -> None:
        unheard = self._troubles[ApiServerUnreachable]
        hopeless = self.failures - unheard + unheard // 4 >= HOPELESS
        tired = self._standstills >= STANDSTILLS or hopeless
        self._go(ListAll(after) if tired else WatchFrom(self._version, after))

    def _go(self, step: ListWatchStep) -> None:
        self._spoken = False
        self.step = step


def is_newer(version: str, than: str) -> bool:
    """Whether a resourceVersion is newer; unless both are numbers, any different one counts as newer."""
    if version.isdecimal() and than.isdecimal():
        return (len(version), version) > (len(than), than)  # numbers without leading zeros, of any length
    return version != than
