"""Planned commits as git gets them, and how they are cut when a server does not take them. Pure.

A `BuiltCommit` is built once and stays as it is until its push is there. Only where a server has
said for certain that it does not want it (too large, declined), it is cut into smaller
ones, down to single objects, so that one object which the server refuses does not hold
up the others. The marker of a destination goes with its first commit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from stoker.git.commit.types import CommitAuthor, FileEdit, NewCommit
from stoker.reverser.authors.commit_identity import commit_author
from stoker.reverser.writer.batch import PlannedCommit
from stoker.reverser.writer.commit_message import CommitOrigin, commit_message
from stoker.reverser.writer.outbox import DestinationOutbox
from stoker.reverser.writer.ownership_marker import FolderOwnership, marker_content, marker_path

COMMITTER_DOMAIN = "configbutler.invalid"
"""Not the one of `commit_identity`: no user can look like the controller."""


@dataclass(frozen=True, slots=True)
class BuiltCommit:
    """One commit of one destination."""

    outbox: DestinationOutbox
    planned: PlannedCommit
    commit: NewCommit
    at: float
    """Monotonic seconds at which it was made."""

    @property
    def size(self) -> int:
        return len(self.planned.changes)


class CommitBuilder:
    """Builds commits in the name of one installation."""

    def __init__(self, origin: CommitOrigin) -> None:
        self._origin = origin
        self.committer = CommitAuthor(origin.controller_name, f"{origin.controller_name}@{COMMITTER_DOMAIN}")

    def made(
        self,
        outbox: DestinationOutbox,
        plans: Iterable[PlannedCommit],
        before: Sequence[BuiltCommit],
        *,
        at: float,
        when: int,
    ) -> list[BuiltCommit]:
        """Commits of an outbox that follow those that are made already."""
        marked = outbox.marker.standing is not FolderOwnership.FREE or any(
            each.outbox is outbox for each in before
        )
        made: list[BuiltCommit] = []
        for planned in plans:
            edits = tuple(FileEdit(change.path, change.content) for change in planned.changes)
            if not marked:
                marker = FileEdit(marker_path(outbox.destination.base), marker_content(self._origin))
                edits, marked = (marker, *edits), True
            if outbox.sealer is not None:
                edits = (*edits, *outbox.sealer.joined(edits))
            author = self.committer if planned.author is None else commit_author(planned.author)
            message = commit_message(planned, self._origin, outbox.template)
            made.append(
                BuiltCommit(outbox, planned, NewCommit(author, self.committer, message, edits, when), at)
            )
        return made

    def cut(self, made: Sequence[BuiltCommit], most: int) -> list[BuiltCommit]:
        """The same changes in commits of at most so many each."""
        again: list[BuiltCommit] = []
        for one in made:
            plans = _split_commit(one.planned, most)
            again += self.made(one.outbox, plans, again, at=one.at, when=one.commit.when)
        return again


def _split_commit(planned: PlannedCommit, most: int) -> Iterator[PlannedCommit]:
    for first in range(0, len(planned.changes), most):
        yield PlannedCommit(planned.author, planned.changes[first : first + most])
