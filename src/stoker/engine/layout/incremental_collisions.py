"""Whether new files collide with what a ledger holds, told without folding all of its names.

A ledger whose pass was complete holds no collision, so a new path can only collide
where it leaves what is there: by the first of its folders that is new, or by its own
name. That one name is looked for among all paths at once, as text. Whenever it is not
sure, or would have to look too often, it says that names may clash; then the whole commit
is mapped, which finds out for certain and names the parties.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from collections.abc import Set as AbstractSet

from stoker.domain.paths import RelPath, collision_key, collision_keys
from stoker.engine.match.globs import folders_above

MAX_NEW_FILES = 400
"""New files; to look for so many costs about as much as to map everything, whatever its size."""


def may_collide(fresh: Collection[str], gone: AbstractSet[str], files: Collection[str]) -> bool:
    """Whether new files collide with one another or with `files`, of which those in `gone` make room."""
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
            # A file's own mark keeps it from being taken for a folder of the same name.
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
        # A regex ignores case as the filesystems of the world do only in ASCII.
        plain = self._text.isascii()
        self._keys = frozenset[str]() if plain else frozenset(collision_keys([*files, *folders_above(files)]))

    def new_above(self, path: RelPath, gone: AbstractSet[str]) -> list[RelPath]:
        """The folders of a path that are not there, the topmost last.

        Looked for from the top: what is there is found at once, and below the first that
        is not there nothing has to be looked for.
        """
        folders = list(path.ancestors())
        while folders and folders[-1] not in gone and self._spelling(folders[-1]) == folders[-1]:
            folders.pop()
        return folders

    def is_taken(self, path: RelPath) -> bool:
        """Whether a file or folder has that name, or one that some filesystem takes for the same."""
        return collision_key(path) in self._keys if self._keys else self._spelling(path) is not None

    def _spelling(self, path: RelPath) -> str | None:
        """How what has that name is spelt there; None: nothing has it. Each question reads it all."""
        if path not in self._spellings:
            above, slash, name = path.rpartition("/")
            if not name.isascii() and not self._keys:
                name = collision_key(name)  # such as the Kelvin sign, which folds to a plain k
            alike = f"(?ai:{re.escape(name)})" if not self._keys else re.escape(name)
            found = re.search(f"\n({re.escape(above + slash)}{alike})[/\n]", self._text)
            self._spellings[path] = found[1] if found is not None else None
        return self._spellings[path]
