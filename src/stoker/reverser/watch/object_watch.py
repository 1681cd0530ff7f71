"""One list and watch per selected kind and scope, shared by all destinations that need it.

    a list, page by page ─┐
                          ├─▶ throttled_source ─▶ reflector ─▶ handle_change ─▶ ingest ─▶ outboxes
    a watch, line by line ┘

The reflector delivers each object as soon as it is read, and keeps only its `SeenObject`, so no more than a
page of objects is in memory. Only a complete list, or an event, shows that an object is gone.

`watch_set` starts a watch when an outbox that a rule feeds is open, and stops it when no outbox needs it. A
destination that joins a running watch, whose rules changed, or whose outbox was full, gets a list of its own
(`seed`). From that list only objects count that the reflector's store holds in the same version; every other
object has already arrived or will arrive as an event. At the end of a list the fed outboxes are swept; until
then it is unknown which objects of the destination exist.

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
from stoker.reverser.watch.ingest import DestinationOutboxes, IngestContext, ObjectIngest, SeenObject
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
        self.ingest = ObjectIngest(watched, around)
        self.feeds: dict[DestinationRef, DestinationOutbox] = {}
        """The open outboxes of all rules that select from this kind and scope."""
        self.seeded: set[DestinationRef] = set()
        """The destinations that have received every living object."""
        self.unread: set[Name] = set()
        """Objects that exist but could not be decoded; their files must not count as orphans."""
        self._wanting: set[DestinationRef] = set()
        self._seeding: set[DestinationRef] = set()
        self._from_the_start: set[DestinationRef] = set()
        self._wanted = asyncio.Event()
        self._begun: float | None = turns.clock.monotonic()
        self._turns = turns
        self._source = ThrottledSource(client, watched, self.feeds, turns)
        self.reflector: Reflector[SeenObject] = Reflector(
            self._source,
            watched.resource,
            namespace=watched.namespace or None,
            keep=lambda _: SeenObject(),
            object_by_object=True,
            on_change=self.handle_change,
            on_listed=self.handle_listed,
            on_error=self.handle_error,
            on_recovered=turns.stirred,
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
        if not self.reflector.lists:
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
            self.ingest.vanished(name, seen, self.feeds)
        self.feeds.clear()

    def seed(self, refs: Iterable[DestinationRef]) -> None:
        """Schedule a list that brings all living objects to these destinations again.

        The first list brings them anyway, if it has not begun.
        """
        if self.reflector.lists:
            self._wanting |= self.feeds.keys() & set(refs)
        if self._wanting:
            self._wanted.set()

    def shows(self, key: ManifestKey, ref: DestinationRef) -> bool | None:
        """Return whether an object of the destination exists; None while that is unknown."""
        if ref not in self.seeded or ref in self._wanting or ref in self._seeding:
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

    def handle_change(self, change: ObjectChange[SeenObject]) -> None:
        """Handle an added, changed or deleted object: queue its file changes and fill its memory."""
        if change.new is not None:
            self._handle_object(change, change.new)
        elif change.old is not None and change.key not in self.reflector.store:
            self._handle_deleted(change, change.old)
        # Otherwise the name was reused, and the file belongs to the new object.

    def handle_listed(self) -> None:
        """Handle the end of a reflector's list: the first list, or another after an outage."""
        if self._begun is not None:
            self._turns.listed(self.watched, self._turns.clock.monotonic() - self._begun)
            self._begun = None
        self.seeded |= self._from_the_start & self.feeds.keys()
        self._from_the_start.clear()
        for ref in self.seeded & self.feeds.keys():
            self._complete(self.feeds[ref])

    def handle_error(self, error: StokerError) -> None:
        """Report that a list or a watch failed; the reflector retries."""
        log.warning("watch.failed", kind=str(self.watched.resource), reason=error.reason, error=error.message)
        self._turns.failed(self.watched, error.reason)
        self._turns.stirred()

    def _handle_object(self, change: ObjectChange[SeenObject], seen: SeenObject) -> None:
        try:
            seen.fill(self.ingest.notice(change.raw, change.old, self.feeds, as_event=not change.listed))
        except Exception as error:  # one unreadable object must not hide all others of its kind
            if change.old is not None:
                seen.fill(change.old)
            self._refuse(change.key, error, self.feeds)
            return
        if change.key in self.unread:
            self.unread.discard(change.key)
            self.ingest.forgive(change.key, self.feeds)

    def _handle_deleted(self, change: ObjectChange[SeenObject], seen: SeenObject) -> None:
        self.ingest.forgive(change.key, self.feeds)
        if change.listed:
            self.ingest.vanished(change.key, seen, self.feeds)
        else:
            self.ingest.gone(change.key, change.uid, seen, self.feeds)
        if change.key in self.unread:
            self.unread.discard(change.key)
            self.ingest.lost(change.key, self.feeds, as_event=not change.listed)
            self._turns.stirred()

    def _complete(self, outbox: DestinationOutbox) -> None:
        outbox.sweep_soon()
        outbox.hurry()

    async def _seed_when_wanted(self) -> None:
        failures = 0
        await self.reflector.synced()
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            self._seeding = self._wanting & self.feeds.keys()
            self._wanting.clear()
            try:
                await self._seed({ref: self.feeds[ref] for ref in self._seeding})
            except StokerError as error:
                failures += 1
                log.warning("seed.failed", kind=str(self.watched.resource), error=error)
                self.seed(self._seeding)
                await self._turns.clock.sleep(_SEED_BACKOFF.delay(failures))
            else:
                failures = 0
            finally:
                self._seeding = set()

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
                    self._seed_object(meta.key, raw, entry.value, outboxes)
                else:
                    self.ingest.skip(meta.key, entry.value, outboxes)
        for ref, outbox in outboxes.items():
            if self.feeds.get(ref) is outbox:
                self.seeded.add(ref)
                if self.watched not in outbox.missed and ref not in self._wanting:
                    outbox.behind.discard(self.watched)
                self._complete(outbox)

    def _seed_object(self, name: Name, raw: bytes, seen: SeenObject, outboxes: DestinationOutboxes) -> None:
        try:
            self.ingest.seed(raw, seen, outboxes)
        except Exception as error:
            self._refuse(name, error, outboxes)

    def _refuse(self, name: Name, error: Exception, outboxes: DestinationOutboxes) -> None:
        """Record an object that cannot be decoded; no kind that people write has such objects."""
        resource = self.watched.resource
        self.unread.add(name)
        log.warning("object.unreadable", kind=str(resource), key=str(name), error=type(error).__name__)
        key = ManifestKey(resource.group, resource.version, resource.plural, *name)
        for outbox in outboxes.values():
            outbox.refuse(str(key), "the object cannot be read")
        self._turns.stirred()
