"""All object watches of a replica, as the selection and the open outboxes need them.

A watch starts when an outbox that a rule feeds is open, and stops when no outbox needs it. When the rules of
a destination change, its watches bring every living object to it again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from dataclasses import dataclass, field

from stoker.domain.clock import Clock
from stoker.kube.client.client import KubeClient
from stoker.reverser.manifest.path import ManifestKey
from stoker.reverser.selection.rules import DestinationRef, SelectionRule
from stoker.reverser.selection.selection import WatchedKind
from stoker.reverser.watch.ingest import IngestContext
from stoker.reverser.watch.object_watch import ObjectWatch
from stoker.reverser.watch.throttled_source import WatchBudget
from stoker.reverser.writer.outbox import DestinationOutbox
from stoker.telemetry.logs import get_logger

log = get_logger(__name__)


@dataclass(slots=True)
class _RunningWatch:
    watch: ObjectWatch
    task: asyncio.Task[None]


@dataclass(slots=True)
class WatchSet:
    """Starts, feeds and stops the `ObjectWatch` of each selected kind and scope."""

    client: KubeClient
    turns: WatchBudget
    around: IngestContext
    _running: dict[WatchedKind, _RunningWatch] = field(default_factory=dict)
    _outboxes: dict[DestinationRef, DestinationOutbox] = field(default_factory=dict)

    @property
    def all(self) -> tuple[ObjectWatch, ...]:
        return tuple(each.watch for each in self._running.values())

    def find(self, watched: WatchedKind) -> ObjectWatch | None:
        running = self._running.get(watched)
        return None if running is None else running.watch

    def shows(self, watched: WatchedKind, key: ManifestKey, ref: DestinationRef) -> bool | None:
        """Return whether a living object of a destination exists; None while that is unknown."""
        watch = self.find(watched)
        return None if watch is None else watch.shows(key, ref)

    def feeding(self, ref: DestinationRef) -> list[ObjectWatch]:
        return [each.watch for each in self._running.values() if ref in each.watch.feeds]

    def opened(self, outbox: DestinationOutbox) -> None:
        """Feed an outbox whose branch has been listed."""
        self._outboxes[outbox.destination.ref] = outbox
        self._follow()

    def closed(self, outbox: DestinationOutbox) -> None:
        ref = outbox.destination.ref
        if self._outboxes.get(ref) is outbox:
            del self._outboxes[ref]
            self._follow()
        outbox.release()

    def follow(self, around: IngestContext) -> None:
        """Apply new rules, served kinds or labels of namespaces."""
        before, self.around = self.around, around
        for running in self._running.values():
            running.watch.ingest.around = around
        self._follow()
        self.seed(_affected_destinations(before, around))
        for outbox in self._outboxes.values():
            outbox.sweep_soon()

    def reseed(self, watched: Collection[WatchedKind], ref: DestinationRef) -> None:
        """List again for a destination the kinds that its outbox had no room for."""
        for each in watched:
            watch = self.find(each)
            if watch is not None and ref in watch.feeds:
                watch.seed((ref,))

    def seed(self, refs: frozenset[DestinationRef]) -> None:
        """Bring every living object to these destinations again."""
        for watch in self.all:
            watch.seed(refs)

    async def stop(self) -> None:
        tasks = [running.task for running in self._running.values()]
        self._running.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _follow(self) -> None:
        wanted: dict[WatchedKind, frozenset[DestinationRef]] = {}
        for watched in self.around.selection.watched:
            refs = self.around.selection.fed_by(watched) & self._outboxes.keys()
            if refs:
                wanted[watched] = refs
        for watched in [each for each in self._running if each not in wanted]:
            running = self._running.pop(watched)
            running.task.cancel()
            running.watch.abandon()
        for watched, refs in wanted.items():
            watch = self.find(watched) or self._start(watched)
            for ref in [ref for ref in watch.feeds if ref not in refs]:
                watch.leave(ref)
            for ref in refs:
                if watch.feeds.get(ref) is not self._outboxes[ref]:
                    watch.join(self._outboxes[ref])

    def _start(self, watched: WatchedKind) -> ObjectWatch:
        watch = ObjectWatch(self.client, watched, self.around, self.turns)
        task = asyncio.get_running_loop().create_task(_run_watch_forever(watch, self.turns.clock))
        self._running[watched] = _RunningWatch(watch, task)
        return watch


async def _run_watch_forever(watch: ObjectWatch, clock: Clock) -> None:
    """Restart a crashed watch with a new list, so that a bug in one watch does not end the others."""
    while True:
        try:
            await watch.run()
        except Exception:
            log.exception("watch.crashed", kind=str(watch.watched.resource))
            await clock.sleep(5.0)


def _affected_destinations(before: IngestContext, after: IngestContext) -> frozenset[DestinationRef]:
    """Return the destinations whose set of selected objects may have changed."""

    def rules(around: IngestContext) -> dict[DestinationRef, list[SelectionRule]]:
        found: dict[DestinationRef, list[SelectionRule]] = {}
        for rule in around.selection.rules:
            found.setdefault(rule.destination, []).append(rule)
        return found

    old, new = rules(before), rules(after)
    refs = old.keys() | new.keys()
    if before.own != after.own:
        return frozenset(refs)
    return frozenset(ref for ref in refs if old.get(ref) != new.get(ref))
