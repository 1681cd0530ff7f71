"""Which files are orphans: their object is gone, and nobody saw it go. Pure.

Looked at are only files that no living object has claimed since the branch was listed.
Such a file may go when all of this holds (C-154 … C-156):

- its path is one that an object's file would have; everything else is somebody else's,
- a rule of the destination still names it, so a rule that was removed leaves its files,
- the list that would show the object was read to its end since this replica got the
  branch, and does not show it; or the kind is gone from a complete discovery,
- a rule asks for deletions, the destination's prune policy is `Always`, and the folder's marker
  is not another installation's,
- the file is a manifest of that very object (`stoker.reverser.manifest.compare`).

How many go without approval is decided by `stoker.reverser.writer.deletion_brake`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from stoker.reverser.manifest.path import ManifestKey, object_at_path
from stoker.reverser.selection.rules import DestinationRef
from stoker.reverser.selection.selection import Selection, WatchedKind

ObjectPresence = Callable[[WatchedKind, ManifestKey], bool | None]
"""Whether a list shows a living object that belongs into the destination; None if it was not read yet."""


class OrphanFile(NamedTuple):
    """A file whose object is gone."""

    path: str
    key: ManifestKey
    kind: str = ""
    """What its file has to say; empty where the kind, or this version of it, is gone."""


class OrphanSweep(NamedTuple):
    """What one pass found."""

    orphans: tuple[OrphanFile, ...]
    """In the order of their paths."""
    undecided: int
    """Files of which nothing can be said yet, because a list is not in."""


def find_orphans(
    unclaimed: Iterable[str],
    base: str,
    destination: DestinationRef,
    selection: Selection,
    shows: ObjectPresence,
) -> OrphanSweep:
    """The orphans among the files that nobody has claimed."""
    found: list[OrphanFile] = []
    undecided = 0
    for path in sorted(unclaimed):
        key = object_at_path(path, base)
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
            found.append(
                OrphanFile(path, key, watched.resource.kind if watched is not None and current else "")
            )
    return OrphanSweep(tuple(found), undecided)
