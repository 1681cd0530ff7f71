"""The queue of file changes for one destination, with the known files of its folder.

A `DestinationOutbox` exists for each destination whose branch this replica holds, from the moment the branch
was listed. `stoker.reverser.watch.ingest` puts changes in, in one call and without waiting;
`stoker.reverser.writer.worker` takes commits out. Each file is compared by blob id with the file in git, or
with the change on its way there, so an equal file is not written.

The outbox is bounded. While pushes succeed and it is full, watches wait (`holds_up`). While pushes fail,
watches do not wait: the outbox drops a change that has no room and remembers its list, which is read again
afterwards. So no change is lost, and other destinations continue.
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
from stoker.reverser.authors.attribution import ObservedEvent
from stoker.reverser.destinations import WritableDestination
from stoker.reverser.manifest.path import SUFFIX, ManifestKey, manifest_path, object_at_path
from stoker.reverser.manifest.secret_policy import SecretSealer, UnchangedSecret
from stoker.reverser.selection.rules import ChangeOperation
from stoker.reverser.selection.selection import WatchedKind
from stoker.reverser.writer.batch import ChangeBatcher, PendingFileChange, QueueCapacity
from stoker.reverser.writer.commit_message import MessageTemplate
from stoker.reverser.writer.deletion_brake import DeletionBrake, DeletionRecord, DeletionVerdict
from stoker.reverser.writer.loop_detector import LoopDetector
from stoker.reverser.writer.ownership_marker import FolderOwnership, OwnershipMarker
from stoker.telemetry.logs import get_logger

log = get_logger(__name__)

MAX_UNWRITTEN = 1000
MAX_RECENT = 10


class DeliveredCommit(NamedTuple):
    """A pushed commit of a destination."""

    commit: CommitId
    author: str | None
    subject: str
    at: datetime
    waited: float
    """Seconds since the first of its changes was noticed."""


class DestinationSealer(SecretSealer, Protocol):
    """A sealer that stores digests beside its encrypted files (`stoker.reverser.encryption.sealer`)."""

    @property
    def path(self) -> str: ...

    def load(self, content: bytes | None) -> None: ...

    def joined(self, edits: tuple[FileEdit, ...]) -> tuple[FileEdit, ...]: ...


class DestinationOutbox:
    """Holds the pending changes of one destination while its branch is held."""

    def __init__(
        self,
        destination: WritableDestination,
        clock: Clock,
        *,
        wake: Callable[[], None],
        capacity: QueueCapacity | None = None,
        loops: LoopDetector | None = None,
        record: DeletionRecord | None = None,
    ) -> None:
        self.destination = destination
        self.template = MessageTemplate(destination.template) if destination.template else None
        self.batcher = ChangeBatcher(destination.limits, capacity)
        self.brake = DeletionBrake(destination.held_before, destination.approvals_used, record)
        self.loops = loops or LoopDetector()
        self.files: dict[str, str] = {}
        """Path to blob id: the files in git, as they will be after all pending changes."""
        self.unclaimed: set[str] = set()
        """Files found in git that no living object has claimed since."""
        self.foreign: set[str] = set()
        """The unclaimed files at the path of an object's file that do not describe that object."""
        self.unwritten: dict[str, str] = {}
        """Paths of objects that cannot be written, and the reason."""
        self.missed: set[WatchedKind] = set()
        """Lists that must be read again, because the outbox was full."""
        self.behind: set[WatchedKind] = set()
        """Lists of which a change may be missing: an event may then contain changes of several authors."""
        self.skipped: set[str] = set()
        """Paths of single objects of which the same is true."""
        self.digits = 40
        self.sealer: DestinationSealer | None = None
        self.is_open = False
        self.failing = False
        """Whether pushes fail; watches then do not wait for room."""
        self.in_a_hurry = False
        self.to_be_swept = False
        self.orphans_kept = 0
        self.marker = OwnershipMarker(FolderOwnership.FREE)
        self.marker_trouble = ""
        """Why the marker could not be written."""
        self.trouble: StokerError | None = None
        """Why the outbox cannot be opened, if the cause is this destination alone."""
        self.retry_at = 0.0
        self.last_commit: CommitId | None = None
        self.last_push: datetime | None = None
        self.recent: tuple[DeliveredCommit, ...] = ()
        """The last commits that were pushed since the outbox was opened, newest first."""
        self._room = asyncio.Event()
        self._owed: dict[str, PendingFileChange] = {}
        """Deletions that the full batcher could not take."""
        self._leaving: dict[str, str] = {}
        """Path to blob id of files whose deletion is pending."""
        self._edited: set[str] = set()
        """Files that other writers changed since the branch was listed."""
        self._equal: dict[str, tuple[str, str]] = {}
        """Path to the blob id in git and the rendered blob id, where both hold the same values."""
        self._strangers: int | None = None
        self._clock = clock
        self._wake = wake

    @property
    def holds_up(self) -> bool:
        """Whether watches must wait: the batcher is full, and pushes succeed."""
        return self.batcher.is_full and not self.failing

    @property
    def pending(self) -> int:
        """Changes that are not in git yet."""
        return len(self.batcher) + len(self._owed)

    def adjust(self, destination: WritableDestination) -> None:
        """Apply settings of the same folder that matter only from the next commit on."""
        self.destination = destination
        self.template = MessageTemplate(destination.template) if destination.template else None
        self.batcher.limits = destination.limits
        self.brake.changed = True  # the budget may differ, or a person approved
        self.sweep_soon()  # the prune policy may differ

    def open(self, listed: Mapping[str, str], digits: int) -> None:
        """Start with the files that the branch holds now."""
        self.digits = digits
        self.files = {path: blob for path, blob in listed.items() if path.endswith(SUFFIX)}
        self.unclaimed = set(self.files)
        self.is_open = True

    def compare(self, listed: Mapping[str, str], on_their_way: Collection[str]) -> bool:
        """Compare the branch with the known files; return whether another writer changed the folder."""
        pending = self.batcher.waiting | self._owed.keys() | set(on_their_way)
        there = {path: blob for path, blob in listed.items() if path.endswith(SUFFIX)}
        touched = False
        for path, blob in there.items():
            known = self.files.get(path)
            if path in pending or known == blob:
                continue
            self.files[path] = blob
            self._edited.add(path)
            self.foreign.discard(path)
            if known is None or path in self.brake.held:
                self.brake.returned(path)  # its new content must be read before the file may be deleted
                self.unclaimed.add(path)
            touched = True
        for path in [path for path in self.files if path not in there and path not in pending]:
            del self.files[path]
            self.unclaimed.discard(path)
            self.brake.returned(path)  # another writer deleted it
            touched = True
        self._strangers = None if touched else self._strangers
        return touched

    def path_of(self, key: ManifestKey) -> str:
        return manifest_path(key, self.destination.base)

    def known(self, path: str) -> str | None:
        """Return the blob id of a path, in git or after the pending changes."""
        return self.files.get(path)

    def put(
        self,
        key: ManifestKey,
        path: str,
        content: bytes | UnchangedSecret,
        blob: str,
        watched: WatchedKind,
        seen: ObservedEvent | None,
    ) -> None:
        """Queue the given content for an object, unless git already holds it."""
        over_foreign = path in self.unclaimed or path in self._edited
        self.unclaimed.discard(path)
        self.foreign.discard(path)
        self.brake.returned(path)
        if self.brake.changed:
            self._wake()
        if seen is not None and seen.operation is not ChangeOperation.CREATE:
            seen = None if watched in self.behind or path in self.skipped else seen
        self.skipped.discard(path)
        known = self.files.get(path)
        if known == blob or isinstance(content, UnchangedSecret) or self._equal.get(path) == (known, blob):
            self._edited.discard(path)
            if self.unwritten:
                self.unwritten.pop(path, None)
            return
        now = self._clock.monotonic()
        if known is not None:
            if self.loops.goes_on(path, known, blob, now):
                self.files[path] = known  # the file in git stays and is compared with later changes
                self._wake()
                return
            if seen is not None:
                seen = seen._replace(before_blob=known, content=content)
        operation = ChangeOperation.CREATE if known is None else ChangeOperation.UPDATE
        over_foreign = over_foreign and known is not None
        change = PendingFileChange(
            key, path, content, operation, now, observed=seen, over_foreign=over_foreign
        )
        if self.batcher.add(change):
            self.files[path] = blob
            self._edited.discard(path)
            self._equal.pop(path, None)
        else:
            if over_foreign:
                self._edited.add(path)
            self.missed.add(watched)
            self.behind.add(watched)
        self._wake()

    def drop(self, key: ManifestKey, path: str, seen: ObservedEvent | None) -> None:
        """Queue the deletion of an object's file, unless the deletion brake holds it."""
        self.unwritten.pop(path, None)
        if seen is None and self.marker.standing is FolderOwnership.THEIRS:
            self.leave(path)  # only inferred, and another installation may have written the file
            return
        self.unclaimed.discard(path)
        if path in self.brake.held or path not in self.files:
            return
        self._leaving[path] = self.files.pop(path)
        change = PendingFileChange(
            key, path, None, ChangeOperation.DELETE, self._clock.monotonic(), observed=seen
        )
        if not self.batcher.add(change):
            # A deletion takes almost no room, and with the prune policy OnEvent it would not be found again.
            self._owed[path] = change
        self._wake()

    @property
    def managed(self) -> int:
        """The number of files that belong to objects, without those whose deletion is pending."""
        if self._strangers is None:
            base = self.destination.base
            self._strangers = sum(1 for path in self.files if object_at_path(path, base) is None)
        return len(self.files) - self._strangers

    def check_deletions(self) -> bool:
        """Hold deletions beyond the budget, release approved ones; return whether the status changed."""
        brake, destination = self.brake, self.destination
        if self.marker.standing is FolderOwnership.THEIRS:
            self._disown()
        every = (*self.batcher.deletions(), *self._owed.values())
        waiting = [change for change in every if change.path not in brake.approved]
        if not waiting and not brake.changed:
            return False
        before, used = brake.plan, brake.approvals_used
        verdict = brake.decide(
            waiting,
            self.managed + len(waiting),
            destination.budget,
            destination.approvals,
            self._clock.monotonic(),
        )
        if verdict is DeletionVerdict.HOLD:
            self._hold(waiting)
        elif verdict is DeletionVerdict.RELEASE:
            log.info("deletions.approved", destination=str(destination.ref), count=len(brake.approved))
            self._release()
        if brake.plan is not None and (before is None or before.digest != brake.plan.digest):
            held = brake.plan
            log.warning(
                "deletions.held", destination=str(destination.ref), count=held.files, plan=held.digest
            )
        return (brake.plan, brake.approvals_used) != (before, used)

    def _disown(self) -> None:
        """Withdraw inferred deletions, because another installation took over the folder."""
        self._hold([each for each in self.batcher.deletions() if each.observed is None])
        for path in [path for path, change in self.brake.held.items() if change.observed is None]:
            self.brake.returned(path)
            self.leave(path)

    def _hold(self, waiting: Sequence[PendingFileChange]) -> None:
        self.batcher.withdraw(waiting)
        for change in waiting:
            self._owed.pop(change.path, None)
            self.brake.held[change.path] = change
            self.files[change.path] = self._leaving.pop(change.path)

    def _release(self) -> None:
        held, self.brake.held = self.brake.held, {}
        for path, change in held.items():
            self._leaving[path] = self.files.pop(path)
            if not self.batcher.add(change):
                self._owed[path] = change
        self.hurry()

    def equals_git(self, change: PendingFileChange, in_git: str) -> None:
        """Withdraw a change because the file in git, with this blob id, already holds its values."""
        self.batcher.withdraw((change,))
        ours = self.files.get(change.path)
        if change.path not in self.batcher.waiting and change.content is not None:
            self.files[change.path] = in_git
            self._equal[change.path] = in_git, ours or ""
            self.unwritten.pop(change.path, None)

    def leave(self, path: str) -> None:
        """Mark a file whose object is gone or no longer selected; it stays until the sweep."""
        self.unwritten.pop(path, None)
        if path in self.files:
            self.unclaimed.add(path)
            self.sweep_soon()

    def refuse(self, path: str, why: str) -> None:
        """Record an object that cannot be written; the last state of its file stays in git."""
        self._blame(path, why)
        self._wake()

    def settled(self, paths: Collection[str], refused: Mapping[str, str]) -> None:
        """Record the outcome of a push; a refused path is not in git, whatever was expected."""
        waits = self.batcher.waiting | self._owed.keys()
        self.brake.pushed([path for path in paths if path not in refused])
        for path in paths:
            if path not in waits:
                self._leaving.pop(path, None)
            if path in refused:
                self.files.pop(path, None)
                self._blame(path, refused[path])
            elif self.unwritten:
                self.unwritten.pop(path, None)

    def _blame(self, path: str, why: str) -> None:
        self.unclaimed.discard(path)
        if len(self.unwritten) < MAX_UNWRITTEN or path in self.unwritten:
            self.unwritten[path] = why

    def freed(self) -> None:
        """Queue deferred deletions again and wake waiting watches, after a push succeeded or failed."""
        owed, self._owed = self._owed, {}
        for path, change in owed.items():
            if path in self.files:
                continue  # the object exists again
            if not self.batcher.add(change):
                self._owed[path] = change
        if not self.holds_up:
            self._room.set()

    def arrived(self, tip: CommitId | None, now: datetime, written: Sequence[DeliveredCommit] = ()) -> None:
        """Record that taken changes are settled."""
        self.recent = (*reversed(written), *self.recent)[:MAX_RECENT]
        if tip is not None:
            self.last_commit, self.last_push = tip, now
        self.freed()

    def kept(self, count: int) -> None:
        """Record how many orphans stay: by the prune policy, by the marker, or because of their content."""
        if count != self.orphans_kept:
            self.orphans_kept = count
            self._wake()

    def sweep_soon(self) -> None:
        """Request a sweep: a list is complete, or rules or kinds changed."""
        self.to_be_swept = True
        self._wake()

    async def wait_for_room(self) -> None:
        """Wait until there is room, or until pushes fail."""
        while self.holds_up:
            self._room.clear()
            await self._room.wait()

    def release(self) -> None:
        """Wake all waiting watches, because this outbox is closed."""
        self.failing = True
        self._room.set()

    def hurry(self) -> None:
        """Make pending changes due now, because they are complete."""
        if len(self.batcher):
            self.in_a_hurry = True
        self._wake()

    def due_at(self) -> float | None:
        """Return when pending changes must become commits; None if there are none."""
        due = self.batcher.due_at()
        return 0.0 if due is not None and self.in_a_hurry else due
