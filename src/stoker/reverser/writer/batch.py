"""Group changes into commits, and decide when they must be committed.

Each destination has one `ChangeBatcher`. Changes wait in order of arrival until there are enough files or
bytes, or until the first change has waited for `max_wait`. That time counts from the first change and never
restarts, so a steady trickle of changes does not delay a commit. `take` returns everything that waits, so
that one push can carry it.

Consecutive changes of one author form one commit; a change of another author begins a new commit. So the
history of an object shows every author in order. Within a commit only an object's last state counts. The
author of a change is looked up when the change is taken, not before: an author fact may arrive late.

The batcher is bounded. Taken changes count until they are settled. When there is no room, `add` returns False
and takes nothing; an accepted change is never dropped. The batcher has no clock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple

from stoker.reverser.authors.attribution import ObservedEvent
from stoker.reverser.authors.facts import RequestUser
from stoker.reverser.manifest.path import ManifestKey
from stoker.reverser.selection.rules import ChangeOperation

MAX_FILES = 200
MAX_BYTES = 10 << 20
MAX_WAIT = 20.0
_AUTHOR_POLL_SECONDS = 0.01


class BatchLimits(NamedTuple):
    """`GitDestination.spec.batch`; a `max_wait` of 0 commits at once."""

    max_files: int = MAX_FILES
    max_bytes: int = MAX_BYTES
    max_wait: float = MAX_WAIT


class QueueCapacity(NamedTuple):
    """How many changes and bytes may be pending before watches must wait."""

    changes: int = 5_000
    size: int = 2 * MAX_BYTES


class PushCadence(NamedTuple):
    """`GitRepoConfig.spec.push`: push after the interval or the number of commits, whichever is first."""

    interval: float = 0.0
    max_commits: int | None = None

    def due_at(self, oldest: float, commits: int) -> float:
        """Return when this many commits, the oldest made at `oldest`, must be pushed."""
        return oldest if self.max_commits and commits >= self.max_commits else oldest + self.interval


@dataclass(frozen=True, slots=True)
class PendingFileChange:
    """A file that is to be written or deleted."""

    key: ManifestKey
    path: str
    content: bytes | None
    """None deletes the file."""
    operation: ChangeOperation
    at: float
    """Monotonic seconds at which the change was noticed."""
    author: RequestUser | None = None
    """The user who made the change, once known."""
    observed: ObservedEvent | None = None
    """The watch event to find the author by; None if the change was not seen as a single watch event."""
    over_foreign: bool = False
    """Whether the file in git was not written by this process and not compared yet: it may hold the same
    values.
    """

    @property
    def size(self) -> int:
        return len(self.content) if self.content is not None else 0


@dataclass(frozen=True, slots=True)
class PlannedCommit:
    """One commit: at most one change per path, all by one author, who may be unknown."""

    author: RequestUser | None
    changes: tuple[PendingFileChange, ...]


AuthorLookup = Callable[[ObservedEvent], RequestUser | None]


class ChangeBatcher:
    """Collects the changes of one destination until they become commits."""

    def __init__(self, limits: BatchLimits | None = None, capacity: QueueCapacity | None = None) -> None:
        self.limits = limits or BatchLimits()
        self._capacity = capacity or QueueCapacity()
        self._waiting: list[PendingFileChange] = []
        self._files: set[str] = set()
        self._size = 0
        self._out = 0
        self._out_size = 0
        self._out_since: float | None = None
        self._not_before = 0.0

    def __len__(self) -> int:
        """Return the number of unsettled changes: the queue depth."""
        return len(self._waiting) + self._out

    @property
    def waiting(self) -> frozenset[str]:
        """The paths of the waiting changes."""
        return frozenset(self._files)

    @property
    def is_full(self) -> bool:
        """Whether the next change would be refused."""
        return len(self) >= self._capacity.changes or self._size + self._out_size >= self._capacity.size

    def add(self, change: PendingFileChange) -> bool:
        """Accept a change; return False if there is no room, and the caller then keeps it."""
        if self.is_full:
            return False
        self._waiting.append(change)
        self._files.add(change.path)
        self._size += change.size
        return True

    def deletions(self) -> list[PendingFileChange]:
        """Return the waiting deletions that no later change of the same file reverts."""
        last = {change.path: change for change in self._waiting}
        return [change for change in last.values() if change.content is None]

    def over_foreign(self) -> list[PendingFileChange]:
        """Return the waiting changes that would overwrite a file that this process did not write."""
        return [change for change in self._waiting if change.over_foreign]

    def compared(self, changes: Iterable[PendingFileChange]) -> None:
        """Mark changes that were compared with the file in git, differ in value, and may overwrite it."""
        known = set(map(id, changes))
        self._waiting = [
            replace(change, over_foreign=False) if id(change) in known else change for change in self._waiting
        ]

    def withdraw(self, changes: Iterable[PendingFileChange]) -> None:
        """Remove waiting changes; all others keep their order."""
        out = set(map(id, changes))
        self._waiting = [change for change in self._waiting if id(change) not in out]
        self._recount()

    def oldest_at(self) -> float | None:
        """Return when the first waiting change was noticed."""
        return self._waiting[0].at if self._waiting else None

    def unsettled_since(self) -> float | None:
        """Return when the first unsettled change was noticed; None if all are settled."""
        return min((at for at in (self.oldest_at(), self._out_since) if at is not None), default=None)

    def due_at(self) -> float | None:
        """Return when the waiting changes must be taken; None if there are none."""
        if not self._waiting:
            return None
        first = self._waiting[0].at
        enough = len(self._files) >= self.limits.max_files or self._size >= self.limits.max_bytes
        due = first if enough or self.is_full else first + self.limits.max_wait
        return max(due, self._not_before)

    def take(
        self, author_of: AuthorLookup | None = None, *, now: float = 0.0, patience: float = 0.0
    ) -> tuple[PlannedCommit, ...]:
        """Return all waiting changes as commits in order; they count until they are settled or put back.

        With `patience`, a change without a known author keeps waiting for up to that many seconds after it
        was noticed, and so do all changes after it.
        """
        asked = _with_authors(self._waiting, author_of)
        unknown = (
            at for at, each in enumerate(asked) if _is_author_pending(each) and now < each.at + patience
        )
        ready = next(unknown, len(asked))
        taken, self._waiting = asked[:ready], self._waiting[ready:]
        if taken and self._out_since is None:
            self._out_since = taken[0].at
        self._recount()
        # Poll soon, because the author fact is most often on its way.
        self._not_before = (
            min(self._waiting[0].at + patience, now + _AUTHOR_POLL_SECONDS) if self._waiting else 0.0
        )
        commits = tuple(plan_commits(taken, self.limits))
        self._count_out(commits, 1)
        return commits

    def settle(self, commits: Iterable[PlannedCommit]) -> None:
        """Stop counting commits that were pushed or turned out to change nothing."""
        self._count_out(commits, -1)

    def _recount(self) -> None:
        self._files = {change.path for change in self._waiting}
        self._size = sum(change.size for change in self._waiting)

    def _count_out(self, commits: Iterable[PlannedCommit], sign: int) -> None:
        for commit in commits:
            self._out += sign * len(commit.changes)
            self._out_size += sign * sum(change.size for change in commit.changes)
        if not self._out:
            self._out_since = None


def plan_commits(changes: Iterable[PendingFileChange], limits: BatchLimits) -> list[PlannedCommit]:
    """Group changes, whose authors are known as far as possible, into commits in order."""
    commits: list[PlannedCommit] = []
    run: dict[str, PendingFileChange] = {}
    author: RequestUser | None = None
    size = 0

    def close() -> None:
        nonlocal run, size
        if run:
            commits.append(PlannedCommit(author, tuple(run.values())))
        run, size = {}, 0

    for change in changes:
        before = run.get(change.path)
        grows = change.size - (before.size if before else 0)
        over = (before is None and len(run) >= limits.max_files) or size + grows > limits.max_bytes
        if _name(change.author) != _name(author) or (over and run):
            close()
            before, grows = None, change.size
        author = change.author
        run[change.path] = change if before is None else _merge_changes(before, change)
        size += grows
    close()
    return commits


def _name(author: RequestUser | None) -> str | None:
    return author.name if author is not None else None


def _merge_changes(first: PendingFileChange, last: PendingFileChange) -> PendingFileChange:
    """Merge two changes of one file: the last state, and the operation relative to the state before both."""
    operation = last.operation
    if last.content is not None:
        operation = (
            ChangeOperation.CREATE if first.operation is ChangeOperation.CREATE else ChangeOperation.UPDATE
        )
    return replace(last, operation=operation, at=first.at)


def _is_author_pending(change: PendingFileChange) -> bool:
    """Return whether the author may still become known."""
    return change.author is None and change.observed is not None


def _with_authors(
    changes: Iterable[PendingFileChange], author_of: AuthorLookup | None
) -> list[PendingFileChange]:
    if author_of is None:
        return list(changes)
    return [
        replace(change, author=author_of(change.observed))
        if change.author is None and change.observed is not None
        else change
        for change in changes
    ]
