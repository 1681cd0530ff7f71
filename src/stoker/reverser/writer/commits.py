"""Build git commits from planned commits, and split them when a server refuses them. Pure.

A `BuiltCommit` is built once and stays unchanged until it is pushed. After a definite refusal (too large,
declined), and only then, it is split into smaller commits, down to single objects, so that a refused object
does not block the others. The first commit of a destination carries its ownership marker.
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
"""Another domain than that of `commit_identity`, so that no user can look like the controller."""


@dataclass(frozen=True, slots=True)
class BuiltCommit:
    """One commit of one destination."""

    outbox: DestinationOutbox
    planned: PlannedCommit
    commit: NewCommit
    at: float
    """Monotonic seconds at which the commit was built."""

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
        """Build the commits of an outbox that follow the commits in `before`."""
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
        """Split the same changes into commits of at most `most` changes."""
        again: list[BuiltCommit] = []
        for one in made:
            plans = _split_commit(one.planned, most)
            again += self.made(one.outbox, plans, again, at=one.at, when=one.commit.when)
        return again


def _split_commit(planned: PlannedCommit, most: int) -> Iterator[PlannedCommit]:
    for first in range(0, len(planned.changes), most):
        yield PlannedCommit(planned.author, planned.changes[first : first + most])
