"""Planned commits as git gets them, and how they are cut when a server does not take them. Pure.

A `Made` is built once and stays as it is until its push is there. Only where a server has
said for certain that it does not want it (too large, declined), it is cut into smaller
ones, down to single objects, so that one object which the server refuses does not hold
up the others. The marker of a destination goes with its first commit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from stoker.git.commit.types import Author, FileEdit, NewCommit
from stoker.reverser.authors.commit_identity import author_of
from stoker.reverser.writer.batch import Planned
from stoker.reverser.writer.commit_message import Origin, message_of
from stoker.reverser.writer.outbox import Outbox
from stoker.reverser.writer.ownership_marker import Standing, marker_of, marker_path

COMMITTER_DOMAIN = "configbutler.invalid"
"""Not the one of `commit_identity`: no user can look like the controller."""


@dataclass(frozen=True, slots=True)
class Made:
    """One commit of one destination."""

    outbox: Outbox
    planned: Planned
    commit: NewCommit
    at: float
    """Monotonic seconds at which it was made."""

    @property
    def size(self) -> int:
        return len(self.planned.changes)


class Maker:
    """Builds commits in the name of one installation."""

    def __init__(self, origin: Origin) -> None:
        self._origin = origin
        self.committer = Author(origin.controller_name, f"{origin.controller_name}@{COMMITTER_DOMAIN}")

    def made(
        self, outbox: Outbox, plans: Iterable[Planned], before: Sequence[Made], *, at: float, when: int
    ) -> list[Made]:
        """Commits of an outbox that follow those that are made already."""
        marked = outbox.marker.standing is not Standing.FREE or any(each.outbox is outbox for each in before)
        made: list[Made] = []
        for planned in plans:
            edits = tuple(FileEdit(change.path, change.content) for change in planned.changes)
            if not marked:
                marker = FileEdit(marker_path(outbox.destination.base), marker_of(self._origin))
                edits, marked = (marker, *edits), True
            if outbox.sealer is not None:
                edits = (*edits, *outbox.sealer.joined(edits))
            author = self.committer if planned.author is None else author_of(planned.author)
            message = message_of(planned, self._origin, outbox.template)
            made.append(Made(outbox, planned, NewCommit(author, self.committer, message, edits, when), at))
        return made

    def cut(self, made: Sequence[Made], most: int) -> list[Made]:
        """The same changes in commits of at most so many each."""
        again: list[Made] = []
        for one in made:
            plans = _pieces(one.planned, most)
            again += self.made(one.outbox, plans, again, at=one.at, when=one.commit.when)
        return again


def _pieces(planned: Planned, most: int) -> Iterator[Planned]:
    for first in range(0, len(planned.changes), most):
        yield Planned(planned.author, planned.changes[first : first + most])
