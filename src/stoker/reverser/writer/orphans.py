"""Find orphans: files whose object is gone without an event that showed its deletion. Pure.

Only files that no living object has claimed since the branch was listed are considered. A file is an orphan,
and may be deleted, if all of this holds:

- its path is the path of an object's file; every other file belongs to other people,
- a rule of the destination still names the object, so a removed rule leaves its files,
- the list that would show the object was read to its end since this replica got the
  branch, and does not show it; or the kind is gone from a complete discovery,
- a rule wants deletions, the destination's prune policy is `Always`, and the folder's marker
  is not another installation's,
- the file is a manifest of exactly that object (`stoker.reverser.manifest.compare`).

`stoker.reverser.writer.deletion_brake` decides how many files are deleted without approval.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from stoker.reverser.manifest.path import ManifestKey, object_at_path
from stoker.reverser.selection.rules import DestinationRef
from stoker.reverser.selection.selection import Selection, WatchedKind

ObjectPresence = Callable[[WatchedKind, ManifestKey], bool | None]
"""Returns whether a list shows a living object of the destination; None if it was not read yet."""


class OrphanFile(NamedTuple):
    """A file whose object is gone."""

    path: str
    key: ManifestKey
    kind: str = ""
    """The `kind` that the file must have; empty if the kind, or this version of it, is gone."""


class OrphanSweep(NamedTuple):
    """The result of one sweep."""

    orphans: tuple[OrphanFile, ...]
    """Ordered by path."""
    undecided: int
    """Files that cannot be decided yet, because a list is not complete."""


def find_orphans(
    unclaimed: Iterable[str],
    base: str,
    destination: DestinationRef,
    selection: Selection,
    shows: ObjectPresence,
) -> OrphanSweep:
    """Return the orphans among the unclaimed files."""
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
