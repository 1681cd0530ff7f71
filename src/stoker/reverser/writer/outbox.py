"""What is on its way to one destination: what stands in git, what waits, and what could not be written.

One `Outbox` for each destination whose branch this replica holds, from the moment on in
which the branch was listed. `stoker.reverser.watch.ingest` puts changes in, in one call and
without waiting; `stoker.reverser.writer.worker` takes commits out. A file is compared by its
blob id with what stands in git or is on its way there, so what is equal is not written.

It is bounded. While pushes go well, whoever brings changes waits (`holds_up`). While
they fail, nobody waits for it: what finds no room is remembered by its list alone, which
is read again afterwards, so that nothing is lost and everything else goes on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple, Protocol

from stoker.domain.clock import Clock
from stoker.domain.errors import StokerError
from stoker.domain.refs import CommitId
from stoker.git.commit.types import FileEdit
from stoker.reverser.authors.attribution import Observed
from stoker.reverser.writer.batch import Batcher, Capacity, Change
from stoker.reverser.writer.loop_detector import Loops
from stoker.reverser.writer.ownership_marker import Marked, Standing
from stoker.reverser.writer.commit_message import MessageTemplate
from stoker.reverser.destinations import Destination
from stoker.reverser.manifest.path import SUFFIX, ObjectKey, place
from stoker.reverser.manifest.secret_policy import Kept, Sealer
from stoker.reverser.selection.rules import Operation
from stoker.reverser.selection.selection import Watched

MOST_UNWRITTEN = 1000
MOST_RECENT = 10


class Written(NamedTuple):
    """A commit of a destination that has arrived."""

    commit: CommitId
    author: str | None
    subject: str
    at: datetime
    waited: float
    """Seconds since the first of its changes was noticed."""


class DestinationSealer(Sealer, Protocol):
    """A sealer that keeps digests beside what it seals (`stoker.reverser.encryption.sealer`)."""

    @property
    def path(self) -> str: ...

    def load(self, content: bytes | None) -> None: ...

    def joined(self, edits: tuple[FileEdit, ...]) -> tuple[FileEdit, ...]: ...


class Outbox:
    """One destination, from the listing of its branch to the loss of it."""

    def __init__(
        self,
        destination: Destination,
        clock: Clock,
        *,
        wake: Callable[[], None],
        capacity: Capacity | None = None,
        loops: Loops | None = None,
    ) -> None:
        self.destination = destination
        self.template = MessageTemplate(destination.template) if destination.template else None
        self.batcher = Batcher(destination.limits, capacity)
        self.loops = loops or Loops()
        self.files: dict[str, str] = {}
        """Path to blob id: what stands in git, or will after all that waits."""
        self.unclaimed: set[str] = set()
        """Files that were found in git and that no living object has claimed since."""
        self.unwritten: dict[str, str] = {}
        """Paths of objects that cannot be written, and why."""
        self.missed: set[Watched] = set()
        """Lists that have to be read again, because there was no room."""
        self.behind: set[Watched] = set()
        """Lists of which something may not have come yet: an event's author need not be that of all of it."""
        self.skipped: set[str] = set()
        """Paths of single objects of which the same is true."""
        self.digits = 40
        self.sealer: DestinationSealer | None = None
        self.is_open = False
        self.failing = False
        """Whether pushes fail; then nobody waits for room here."""
        self.in_a_hurry = False
        self.to_be_swept = False
        self.swept_out = False
        """Whether a pass of the sweep is on its way and the next has to wait for it."""
        self.orphans_kept = 0
        self.marker = Marked(Standing.FREE)
        self.marker_trouble = ""
        """Why the marker could not be written."""
        self.trouble: StokerError | None = None
        """Why it cannot be opened, where that is its own fault."""
        self.retry_at = 0.0
        self.last_commit: CommitId | None = None
        self.last_push: datetime | None = None
        self.recent: tuple[Written, ...] = ()
        """The last commits that arrived since it was opened, the newest first."""
        self._room = asyncio.Event()
        self._owed: dict[str, Change] = {}
        self._clock = clock
        self._wake = wake

    @property
    def holds_up(self) -> bool:
        """Whether who brings changes has to wait: there is no room, and soon there will be."""
        return self.batcher.is_full and not self.failing

    @property
    def pending(self) -> int:
        """Changes that are not in git yet."""
        return len(self.batcher) + len(self._owed)

    def adjust(self, destination: Destination) -> None:
        """The same folder under other settings that matter only from the next commit on."""
        self.destination = destination
        self.template = MessageTemplate(destination.template) if destination.template else None
        self.batcher.limits = destination.limits
        self.sweep_soon()  # the prune policy may be another

    def open(self, listed: Mapping[str, str], digits: int) -> None:
        """Begin with the files of the branch as they are listed now."""
        self.digits = digits
        self.files = {path: blob for path, blob in listed.items() if path.endswith(SUFFIX)}
        self.unclaimed = set(self.files)
        self.is_open = True

    def compare(self, listed: Mapping[str, str], on_their_way: Collection[str]) -> bool:
        """Others may have written: whether something of ours is not as it was left."""
        pending = self.batcher.waiting | self._owed.keys() | set(on_their_way)
        there = {path: blob for path, blob in listed.items() if path.endswith(SUFFIX)}
        touched = False
        for path, blob in there.items():
            known = self.files.get(path)
            if path in pending or known == blob:
                continue
            self.files[path] = blob
            if known is None:
                self.unclaimed.add(path)
            touched = True
        for path in [path for path in self.files if path not in there and path not in pending]:
            del self.files[path]
            self.unclaimed.discard(path)
            touched = True
        return touched

    def path_of(self, key: ObjectKey) -> str:
        return place(key, self.destination.base)

    def known(self, path: str) -> str | None:
        """The blob id that the path has, in git or on its way there."""
        return self.files.get(path)

    def put(
        self,
        key: ObjectKey,
        path: str,
        content: bytes | Kept,
        blob: str,
        watched: Watched,
        seen: Observed | None,
    ) -> None:
        """An object is to stand in git like this."""
        self.unclaimed.discard(path)
        if seen is not None and seen.operation is not Operation.CREATE:
            seen = None if watched in self.behind or path in self.skipped else seen
        self.skipped.discard(path)
        known = self.files.get(path)
        if known == blob or isinstance(content, Kept):
            if self.unwritten:
                self.unwritten.pop(path, None)
            return
        now = self._clock.monotonic()
        if known is not None:
            if self.loops.goes_on(path, known, blob, now):
                self.files[path] = known  # what stands there stays, and is compared with
                self._wake()
                return
            if seen is not None:
                seen = seen._replace(before_blob=known, content=content)
        operation = Operation.CREATE if known is None else Operation.UPDATE
        if self.batcher.add(Change(key, path, content, operation, now, observed=seen)):
            self.files[path] = blob
        else:
            self.missed.add(watched)
            self.behind.add(watched)
        self._wake()

    def drop(self, key: ObjectKey, path: str, seen: Observed | None) -> None:
        """The file of an object is to go."""
        self.unwritten.pop(path, None)
        self.unclaimed.discard(path)
        if self.files.pop(path, None) is None:
            return
        change = Change(key, path, None, Operation.DELETE, self._clock.monotonic(), observed=seen)
        if not self.batcher.add(change):
            # It takes no room to speak of, and with the policy OnEvent nobody would find it again.
            self._owed[path] = change
        self._wake()

    def leave(self, path: str) -> None:
        """The object of a file is gone, or belongs here no more; the file stays until it is swept."""
        self.unwritten.pop(path, None)
        if path in self.files:
            self.unclaimed.add(path)
            self.sweep_soon()

    def refuse(self, path: str, why: str) -> None:
        """An object cannot be written; its last state stays where it is."""
        self._blame(path, why)
        self._wake()

    def settled(self, paths: Collection[str], refused: Mapping[str, str]) -> None:
        """What was pushed of these; what was refused does not stand there, whatever was expected."""
        for path in paths:
            if path in refused:
                self.files.pop(path, None)
                self._blame(path, refused[path])
            elif self.unwritten:
                self.unwritten.pop(path, None)

    def _blame(self, path: str, why: str) -> None:
        self.unclaimed.discard(path)
        if len(self.unwritten) < MOST_UNWRITTEN or path in self.unwritten:
            self.unwritten[path] = why

    def freed(self) -> None:
        """Some of what was on its way has arrived, or pushes fail: nobody has to wait here now."""
        owed, self._owed = self._owed, {}
        for path, change in owed.items():
            if path in self.files:
                continue  # it is there again
            if not self.batcher.add(change):
                self._owed[path] = change
        if not self.holds_up:
            self._room.set()

    def arrived(self, tip: CommitId | None, now: datetime, written: Sequence[Written] = ()) -> None:
        """What was taken is settled."""
        self.swept_out = False
        self.recent = (*reversed(written), *self.recent)[:MOST_RECENT]
        if tip is not None:
            self.last_commit, self.last_push = tip, now
        self.freed()

    def kept(self, count: int) -> None:
        """So many orphans the prune policy lets stay."""
        if count != self.orphans_kept:
            self.orphans_kept = count
            self._wake()

    def sweep_soon(self) -> None:
        """There may be orphans: a list is in, or rules and kinds are other ones."""
        self.to_be_swept = True
        self._wake()

    async def wait_for_room(self) -> None:
        """Until there is room, or it is not worth to wait for it."""
        while self.holds_up:
            self._room.clear()
            await self._room.wait()

    def release(self) -> None:
        """Nobody is fed from here any more: whoever waits goes on."""
        self.failing = True
        self._room.set()

    def hurry(self) -> None:
        """What waits is complete: there is nothing to wait for."""
        if len(self.batcher):
            self.in_a_hurry = True
        self._wake()

    def due_at(self) -> float | None:
        """When what waits has to become commits."""
        due = self.batcher.due_at()
        return 0.0 if due is not None and self.in_a_hurry else due
