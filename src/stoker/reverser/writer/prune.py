"""Which files are orphans: their object is gone, and nobody saw it go. Pure.

Looked at are only files that no living object has claimed since the branch was listed.
Such a file may go when all of this holds (C-154 … C-156):

- its path is one that an object's file would have; everything else is somebody else's,
- a rule of the destination still names it, so a rule that was removed leaves its files,
- the list that would show the object was read to its end since this replica got the
  branch, and does not show it; or the kind is gone from a complete discovery,
- a rule asks for deletions, and the destination's prune policy is `Always`.

At most `cap` go in one pass; what is left waits for the next.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from stoker.reverser.manifest.path import ObjectKey, placed
from stoker.reverser.selection.rules import DestinationRef
from stoker.reverser.selection.selection import Selection, Watched

DELETE_CAP = 500

Shows = Callable[[Watched, ObjectKey], bool | None]
"""Whether a list shows a living object that belongs into the destination; None if it was not read yet."""


class Orphan(NamedTuple):
    """A file whose object is gone."""

    path: str
    key: ObjectKey
    unknown_kind: bool = False
    """The kind, or this version of it, is gone: whether the file is ours has to be read out of it first."""


class Sweep(NamedTuple):
    """What one pass found."""

    orphans: tuple[Orphan, ...]
    """In the order of their paths, no more than may go at once."""
    found: int
    """All of them."""
    undecided: int
    """Files of which nothing can be said yet, because a list is not in."""

    @property
    def more(self) -> bool:
        return self.found > len(self.orphans)


def sweep(
    unclaimed: Iterable[str],
    base: str,
    destination: DestinationRef,
    selection: Selection,
    shows: Shows,
    cap: int = DELETE_CAP,
) -> Sweep:
    """The orphans among the files that nobody has claimed."""
    found: list[Orphan] = []
    undecided = 0
    for path in sorted(unclaimed):
        key = placed(path, base)
        if key is None:
            continue
        watched = selection.listed_in(key, destination)
        gone = watched is None and selection.is_gone(key, destination)
        if watched is None and not gone:
            continue
        if watched is not None:
            living = shows(watched, key)
            if living is None:
                undecided += 1
            if living is not False:
                continue
        if selection.deletes(key, destination):
            current = watched is not None and watched.resource.version == key.version
            found.append(Orphan(path, key, unknown_kind=not current))
    return Sweep(tuple(found[:cap]), len(found), undecided)
