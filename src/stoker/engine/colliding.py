"""Paths that cannot all exist on every filesystem.

`View` and `view`, or two Unicode spellings of one name, are one file on a volume
that folds case or normalizes names, and the gateway itself compares names by
canonical equivalence; a path can also not be a file and a folder at once. None of
the parties to such a collision is delivered: choosing one would be a guess.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection

from stoker.domain.paths import RelPath


def collisions(paths: Collection[RelPath], blocked: Collection[RelPath] = ()) -> dict[RelPath, str]:
    """Of `paths`, those that collide, each with the reason; nothing may lie below a `blocked` path."""
    spellings: defaultdict[str, set[RelPath]] = defaultdict(set)
    folders: set[RelPath] = set()
    for path in paths:
        spellings[path.collision_key()].add(path)
        folder = path.parent
        while folder and folder not in folders:
            folders.add(folder)
            spellings[folder.collision_key()].add(folder)
            folder = folder.parent
    files = set(paths)
    reasons: dict[RelPath, str] = {}
    for same in spellings.values():
        if len(same) > 1:
            reasons |= dict.fromkeys(same, f"cannot be told apart on every filesystem: {_listed(same)}")
    for path in (files | set(blocked)) & folders:
        reasons[path] = f"{path} is both a file and a folder in what is to be delivered"
    return {path: why for path in paths if (why := _first(path, reasons)) is not None} if reasons else {}


def _first(path: RelPath, reasons: dict[RelPath, str]) -> str | None:
    """The reason of the path itself or of the nearest folder above it that has one."""
    while path:
        if path in reasons:
            return reasons[path]
        path = path.parent
    return None


def _listed(paths: Collection[RelPath]) -> str:
    some = sorted(paths)[:4]
    return ", ".join(map(repr, map(str, some))) + (", …" if len(paths) > len(some) else "")
