"""One list and watch per selected kind and scope, shared by all destinations that need it.

    a list, page by page ─┐
                          ├─▶ throttled_source ─▶ reflector ─▶ ingest ─▶ outboxes
    a watch, line by line ┘

`watch_set` starts a watch when an outbox that a rule feeds is open, and stops it when no outbox needs it. A
destination that joins a running watch, whose rules changed, or whose outbox was full, gets a list of its own
(`seed`). From that list only objects count that the reflector's store holds in the same version; every other
object has already arrived or will arrive as an event. At the end of a list the fed outboxes are swept.

`throttled_source` decides how fast lists and watches are read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from stoker.domain.errors import Stalled, StokerError
from stoker.kube.runtime.backoff import Backoff
from stoker.kube.watch.reflector import ListWatchSource as Server
from stoker.kube.watch.reflector import Reflector
from stoker.kube.watch.store import ObjectChange
from stoker.kube.watch.store import ObjectKey as Name
from stoker.kube.watch.watch_events import read_item
from stoker.reverser.manifest.path import ManifestKey
from stoker.reverser.selection.rules import DestinationRef
from stoker.reverser.selection.selection import WatchedKind
from stoker.reverser.watch.ingest import IngestContext, ObjectIngest, SeenObject
from stoker.reverser.watch.throttled_source import ThrottledSource, WatchBudget
from stoker.reverser.writer.outbox import DestinationOutbox
from stoker.telemetry.logs import get_logger

log = get_logger(__name__)

_SEED_BACKOFF = Backoff(base=0.5, ceiling=30.0)


class ObjectWatch:
    """Lists and watches one kind in one scope and feeds the outboxes of its destinations."""

    def __init__(
        self, client: Server, watched: WatchedKind, around: IngestContext, turns: WatchBudget
    ) -> None:
        self.watched = watched
        self.noticer = ObjectIngest(watched, around)
        self.feeds: dict[DestinationRef, DestinationOutbox] = {}
        """The open outboxes of all rules that select from this kind and scope."""
        self.seeded: set[DestinationRef] = set()
        """The destinations that have received every living object."""
        self.unread: set[Name] = set()
        """Objects that exist but could not be decoded; their files must not count as orphans."""
        self._unread_in_list: set[Name] = set()
        self._wanting: set[DestinationRef] = set()
        self._from_the_start: set[DestinationRef] = set()
        self._wanted = asyncio.Event()
        self._begun: float | None = turns.clock.monotonic()
        self._turns = turns
        self._source = ThrottledSource(client, self, turns)
        self.reflector: Reflector[SeenObject] = Reflector(
            self._source,
            watched.resource,
            namespace=watched.namespace or None,
            keep=self._keep,
            on_change=self._changed,
            on_error=self._failed,
            on_refused=self._refused,
            clock=turns.clock,
        )

    @property
    def error(self) -> StokerError | None:
        """Return why no events arrive; a single failure that a retry fixed is not reported."""
        health = self.reflector.health
        serious = health.failures > 1 or isinstance(health.error, Stalled)
        return health.error if serious else None

    def join(self, outbox: DestinationOutbox) -> None:
        """Feed this outbox from now on, beginning with all existing objects."""
        ref = outbox.destination.ref
        self.feeds[ref] = outbox
        self.seeded.discard(ref)
        if self._source.untouched:
            self._from_the_start.add(ref)
        else:
            outbox.behind.add(self.watched)
            self.seed((ref,))

    def leave(self, ref: DestinationRef) -> None:
        self.feeds.pop(ref, None)
        self.seeded.discard(ref)
        self._wanting.discard(ref)
        self._from_the_start.discard(ref)

    def abandon(self) -> None:
        """Release all feeds. Whether the objects seen here still exist is for other watches to decide."""
        for name, seen in self.reflector.store.items():
            self.noticer.vanished(name, seen, self.feeds)
        self.feeds = {}

    def seed(self, refs: Iterable[DestinationRef]) -> None:
        """Schedule a list that brings all living objects to these destinations again."""
        self._wanting |= set(refs)
        if self._wanting:
            self._wanted.set()

    def shows(self, key: ManifestKey, ref: DestinationRef) -> bool | None:
        """Return whether an object of the destination exists; None while that is unknown."""
        if ref not in self.seeded:
            return None
        if key.version != self.watched.resource.version:
            return False
        name = Name(key.namespace, key.name)
        if name in self.unread:
            return True
        seen = self.reflector.store.get(name)
        return seen is not None and ref in seen.taken

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self.reflector.run(), name=f"watch {self.watched.resource}")
            group.create_task(self._seed_when_wanted(), name=f"seed {self.watched.resource}")

    def opened(self) -> None:
        """Refresh statuses when a watch opens after an error: the error is over."""
        if self.reflector.health.error is not None:
            asyncio.get_running_loop().call_soon(self._turns.stirred)

    def begun(self) -> None:
        self._unread_in_list = set()

    def lost(self, name: Name) -> None:
        """Handle the deletion of an object that could not be read."""
        self.unread.discard(name)
        self.noticer.lost(name, self.feeds, as_event=True)
        self._turns.stirred()

    def listed(self) -> None:
        """Handle the end of a reflector's list: the first list, or another after an outage."""
        for name in self.unread - self._unread_in_list:
            self.unread.discard(name)
            self.noticer.lost(name, self.feeds, as_event=False)
        if self._begun is not None:
            self._turns.listed(self.watched, self._turns.clock.monotonic() - self._begun)
            self._begun = None
        self.seeded |= self._from_the_start & self.feeds.keys()
        self._from_the_start.clear()
        for ref in self.seeded & self.feeds.keys():
            self._complete(self.feeds[ref])

    def _complete(self, outbox: DestinationOutbox) -> None:
        outbox.sweep_soon()
        outbox.hurry()

    async def _seed_when_wanted(self) -> None:
        failures = 0
        await self.reflector.synced()
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            wanted = self._wanting & self.feeds.keys()
            self._wanting.clear()
            try:
                await self._seed({ref: self.feeds[ref] for ref in wanted})
            except StokerError as error:
                failures += 1
                log.warning("seed.failed", kind=str(self.watched.resource), error=error)
                self.seed(wanted)
                await self._turns.clock.sleep(_SEED_BACKOFF.delay(failures))
            else:
                failures = 0

    async def _seed(self, outboxes: dict[DestinationRef, DestinationOutbox]) -> None:
        if not outboxes:
            return
        store = self.reflector.store
        async for page in self._source.listing(self.watched.resource, self.watched.namespace or None):
            for raw in page.items:
                meta = read_item(raw)
                entry = store.entry(meta.key)
                if entry is None:
                    continue
                if entry.resource_version == meta.resource_version:
                    self.noticer.seed(raw, entry.value, outboxes)
                else:
                    self.noticer.skip(meta.key, entry.value, outboxes)
        for ref, outbox in outboxes.items():
            if self.feeds.get(ref) is outbox:
                self.seeded.add(ref)
                if self.watched not in outbox.missed and ref not in self._wanting:
                    outbox.behind.discard(self.watched)
                self._complete(outbox)

    def _keep(self, raw: bytes) -> SeenObject:
        meta = read_item(raw)
        entry = self.reflector.store.entry(meta.key)
        before = entry.value if entry is not None and entry.uid == meta.uid else None
        seen = self.noticer.notice(raw, before, self.feeds, as_event=not self._source.listing_now)
        if meta.key in self.unread:
            self.unread.discard(meta.key)
            self.noticer.forgive(meta.key, self.feeds)
        return seen

    def _changed(self, change: ObjectChange[SeenObject]) -> None:
        if not change.deleted or change.old is None:
            return
        if change.key in self.reflector.store:
            return  # the name was reused, and the file belongs to the new object
        self.noticer.forgive(change.key, self.feeds)
        if self._source.listing_now:
            self.noticer.vanished(change.key, change.old, self.feeds)
        else:
            self.noticer.gone(change.key, change.uid, change.old, self.feeds)

    def _failed(self, error: StokerError) -> None:
        log.warning("watch.failed", kind=str(self.watched.resource), reason=error.reason, error=error.message)
        self._turns.failed(self.watched, error.reason)
        self._turns.stirred()

    def _refused(self, name: Name, error: Exception) -> None:
        """Record an object whose metadata cannot be decoded; no kind that people write has such objects."""
        resource = self.watched.resource
        self.unread.add(name)
        self._unread_in_list.add(name)
        log.warning("object.unreadable", kind=str(resource), key=str(name), error=type(error).__name__)
        key = ManifestKey(resource.group, resource.version, resource.plural, *name)
        for outbox in self.feeds.values():
            outbox.refuse(str(key), "the object cannot be read")
        self._turns.stirred()
