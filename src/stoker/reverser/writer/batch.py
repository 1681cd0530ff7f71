"""Which changes become which commits, and when they have to.

One `ChangeBatcher` for each destination. Changes wait in the order in which they came, until
there are enough files or bytes, or the first of them has waited for `max_wait`. That
time is counted from the first change and never begun anew: a steady drip is written as
soon as anything else. `take` hands out all that waits, so that one push can carry it.

Consecutive changes of one author are one commit; with another author a new one begins,
so the history of an object tells every hand that was on it, in order. Within a commit
an object's last state counts. Whose a change is gets asked when it is taken, not
before: facts may be late, but nothing waits for them.

It is bounded: what has been taken counts until it is settled, and when there is no
room `add` says so and takes nothing; nothing that was taken in is ever dropped. It has
no clock. A change that cannot be written is handed back by `put_back` and holds up no other.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
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
    """`GitDestination.spec.batch`; a `max_wait` of 0 is at once."""

    max_files: int = MAX_FILES
    max_bytes: int = MAX_BYTES
    max_wait: float = MAX_WAIT


class QueueCapacity(NamedTuple):
    """What may wait or be on its way before whoever brings changes has to wait himself."""

    changes: int = 5_000
    size: int = 2 * MAX_BYTES


class PushCadence(NamedTuple):
    """`GitRepoConfig.spec.push`: when commits that were made are pushed, whichever comes first (C-163)."""

    interval: float = 0.0
    max_commits: int | None = None

    def due_at(self, oldest: float, commits: int) -> float:
        """When the oldest of so many commits, made at `oldest`, has to be pushed."""
        return oldest if self.max_commits and commits >= self.max_commits else oldest + self.interval


@dataclass(frozen=True, slots=True)
class PendingFileChange:
    """A file that is to become something else."""

    key: ManifestKey
    path: str
    content: bytes | None
    """None: it is deleted."""
    operation: ChangeOperation
    at: float
    """Monotonic seconds at which it was noticed."""
    author: RequestUser | None = None
    """Who made it, once that is known."""
    observed: ObservedEvent | None = None
    """What to find the author by; None if the change was not seen as one step of a watch."""
    over_foreign: bool = False
    """The file in git was not written by this process and not compared yet: it may hold the same values."""

    @property
    def size(self) -> int:
        return len(self.content) if self.content is not None else 0


@dataclass(frozen=True, slots=True)
class PlannedCommit:
    """One commit: at most one change for each path, all by one author, who may be unknown."""

    author: RequestUser | None
    changes: tuple[PendingFileChange, ...]


AuthorLookup = Callable[[ObservedEvent], RequestUser | None]


class ChangeBatcher:
    """The changes of one destination on their way into commits."""

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
        """Changes that are not settled yet: the depth of the queue."""
        return len(self._waiting) + self._out

    @property
    def waiting(self) -> frozenset[str]:
        """The paths of what waits."""
        return frozenset(self._files)

    @property
    def is_full(self) -> bool:
        """Whether the next change has to wait outside."""
        return len(self) >= self._capacity.changes or self._size + self._out_size >= self._capacity.size

    def add(self, change: PendingFileChange) -> bool:
        """Take a change in; False if there is no room, and then it is still the caller's."""
        if self.is_full:
            return False
        self._waiting.append(change)
        self._files.add(change.path)
        self._size += change.size
        return True

    def deletions(self) -> list[PendingFileChange]:
        """The deletions among what waits that no later change of the same file undoes."""
        last = {change.path: change for change in self._waiting}
        return [change for change in last.values() if change.content is None]

    def over_foreign(self) -> list[PendingFileChange]:
        """What waits to overwrite a file that this process did not write."""
        return [change for change in self._waiting if change.over_foreign]

    def compared(self, changes: Iterable[PendingFileChange]) -> None:
        """These were compared with the file in git, hold other values and may overwrite it."""
        known = set(map(id, changes))
        self._waiting = [
            replace(change, over_foreign=False) if id(change) in known else change for change in self._waiting
        ]

    def withdraw(self, changes: Iterable[PendingFileChange]) -> None:
        """Take these out of what waits; all others keep their order."""
        out = set(map(id, changes))
        self._waiting = [change for change in self._waiting if id(change) not in out]
        self._recount()

    def oldest_at(self) -> float | None:
        """When the first of what waits was noticed."""
        return self._waiting[0].at if self._waiting else None

    def unsettled_since(self) -> float | None:
        """When the first of all that is not settled was noticed; None: everything is."""
        return min((at for at in (self.oldest_at(), self._out_since) if at is not None), default=None)

    def due_at(self) -> float | None:
        """The time from which on what waits is to be taken; None if nothing waits."""
        if not self._waiting:
            return None
        first = self._waiting[0].at
        enough = len(self._files) >= self.limits.max_files or self._size >= self.limits.max_bytes
        due = first if enough or self.is_full else first + self.limits.max_wait
        return max(due, self._not_before)

    def take(
        self, author_of: AuthorLookup | None = None, *, now: float = 0.0, patience: float = 0.0
    ) -> tuple[PlannedCommit, ...]:
        """Everything that waits, as commits in order. It stays counted until it is settled or put back.

        With `patience` a change whose author is not known yet, and that was noticed less than so
        many seconds ago, goes on waiting, and so does all that came after it.
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
        # Asked again soon: the fact is most often on its way.
        self._not_before = (
            min(self._waiting[0].at + patience, now + _AUTHOR_POLL_SECONDS) if self._waiting else 0.0
        )
        commits = tuple(plan_commits(taken, self.limits))
        self._count_out(commits, 1)
        return commits

    def settle(self, commits: Iterable[PlannedCommit]) -> None:
        """They are pushed, or turned out to change nothing."""
        self._count_out(commits, -1)

    def put_back(
        self, commits: Sequence[PlannedCommit], refused: Collection[str] = ()
    ) -> tuple[PendingFileChange, ...]:
        """They could not be pushed: wait again, in front of what came meanwhile.

        What lies at a path in `refused` can never be written and is handed back to be reported.
        """
        self._count_out(commits, -1)
        back = [
            replace(change, author=commit.author or change.author)
            for commit in commits
            for change in commit.changes
        ]
        kept = [change for change in back if change.path not in refused]
        self._waiting[:0] = kept
        self._files |= {change.path for change in kept}
        self._size += sum(change.size for change in kept)
        return tuple(change for change in back if change.path in refused)

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
    """Changes, whose authors are known as far as they ever will be, as commits in order."""
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
    """Two changes of one file in one commit: the last state, and what that is to who saw neither."""
    operation = last.operation
    if last.content is not None:
        operation = (
            ChangeOperation.CREATE if first.operation is ChangeOperation.CREATE else ChangeOperation.UPDATE
        )
    return replace(last, operation=operation, at=first.at)


def _is_author_pending(change: PendingFileChange) -> bool:
    """Whether somebody may still say whose it is."""
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
