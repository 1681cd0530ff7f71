"""Checks new files for collisions with the paths of a ledger, without folding all of its names.

`stoker.engine.layout.incremental` uses it. The ledger of a complete sync has no collision, so a new path
can collide only at its first new folder, or at its own name if all its folders exist. That one name is
searched in all ledger paths at once, as text. When the search is uncertain or would run too often, the
result is "may collide". The caller then lays out the whole commit, which decides exactly and names the
colliding files.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from collections.abc import Set as AbstractSet

from stoker.domain.paths import RelPath, collision_key, collision_keys
from stoker.engine.match.globs import folders_above

MAX_NEW_FILES = 400
"""Searching for this many new files costs about as much as laying out the whole commit, whatever its size."""


def may_collide(fresh: Collection[str], gone: AbstractSet[str], files: Collection[str]) -> bool:
    """Whether new files may collide with each other or with `files`; paths in `gone` are being removed."""
    if not fresh:
        return False
    if len(fresh) > MAX_NEW_FILES:
        return True
    there = _LedgerPaths(files)
    spelt: dict[str, str] = {}
    for path in map(RelPath.known, fresh):
        if any(folder in files and folder not in gone for folder in path.ancestors()):
            return True
        new = [path, *there.new_above(path, gone)]
        for number, place in enumerate(new):
            # The mark distinguishes a file from a folder of the same name.
            mark = place + ("" if number else "\n")
            if spelt.setdefault(collision_key(place), mark) != mark:
                return True
        if new[-1] not in gone and there.is_taken(new[-1]):
            return True
    return False


class _LedgerPaths:
    """The paths of a ledger as one text."""

    def __init__(self, files: Collection[str]) -> None:
        self._text = "\n" + "\n".join(files) + "\n"
        self._spellings: dict[str, str | None] = {}
        # A case-insensitive regex folds names as filesystems do only within ASCII.
        plain = self._text.isascii()
        self._keys = frozenset[str]() if plain else frozenset(collision_keys([*files, *folders_above(files)]))

    def new_above(self, path: RelPath, gone: AbstractSet[str]) -> list[RelPath]:
        """Return the folders above a path that do not exist yet, the topmost last.

        It searches from the top: existing folders are found at once, and below the first missing folder no
        search is needed.
        """
        folders = list(path.ancestors())
        while folders and folders[-1] not in gone and self._spelling(folders[-1]) == folders[-1]:
            folders.pop()
        return folders

    def is_taken(self, path: RelPath) -> bool:
        """Whether a file or folder has that name, or a name that some filesystem treats as equal."""
        return collision_key(path) in self._keys if self._keys else self._spelling(path) is not None

    def _spelling(self, path: RelPath) -> str | None:
        """Return how an existing path spells that name; None if it does not exist.

        Each search scans the whole text.
        """
        if path not in self._spellings:
            above, slash, name = path.rpartition("/")
            if not name.isascii() and not self._keys:
                name = collision_key(name)  # for example the Kelvin sign, which folds to a plain k
            alike = f"(?ai:{re.escape(name)})" if not self._keys else re.escape(name)
            found = re.search(f"\n({re.escape(above + slash)}{alike})[/\n]", self._text)
            self._spellings[path] = found[1] if found is not None else None
        return self._spellings[path]
