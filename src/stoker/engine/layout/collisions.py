"""Finds paths that cannot all exist on every filesystem.

`View` and `view`, or two Unicode spellings of one name, are one file on a volume that folds case or
normalizes names, and the gateway itself compares names by canonical equivalence. A path also cannot be a
file and a folder at once. No file of a collision is delivered: choosing one of them would be a guess.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from collections.abc import Set as AbstractSet

from stoker.domain.paths import RelPath, collision_keys
from stoker.domain.text import first_names
from stoker.engine.match.globs import PathBatch


def find_collisions(paths: PathBatch, blocked: AbstractSet[str] = frozenset()) -> dict[str, str]:
    """Return those of `paths` that collide, each with the reason.

    A file below a `blocked` path collides too.
    """
    everything = [*paths.paths, *paths.folders]
    keys = collision_keys(everything)
    # A path that is both a file and a folder has its key twice as well, so nearly every commit returns here.
    if len(set(keys)) == len(keys) and not blocked & paths.folders:
        return {}
    spellings: defaultdict[str, set[str]] = defaultdict(set)
    for key, path in zip(keys, everything, strict=True):
        spellings[key].add(path)
    reasons: dict[str, str] = {}
    for same in spellings.values():
        if len(same) > 1:
            reasons |= dict.fromkeys(same, f"cannot be told apart on every filesystem: {_list_paths(same)}")
    for path in (blocked | set(paths.paths)) & paths.folders:
        reasons[path] = f"{path} is both a file and a folder in what is to be delivered"
    return {path: why for path in paths.paths if (why := _nearest_reason(path, reasons)) is not None}


def _nearest_reason(path: str, reasons: Mapping[str, str]) -> str | None:
    """Return the reason of the path itself or of the nearest folder above it that has one."""
    own = RelPath.known(path)
    return next((reasons[place] for place in (own, *own.ancestors()) if place in reasons), None)


def _list_paths(paths: Collection[str]) -> str:
    return first_names([repr(str(path)) for path in sorted(paths)], 4)
