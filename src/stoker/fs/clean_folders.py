"""Caches folders that a walk found exactly as the ledger has them, so that the next walk need not list them.

The content of a folder cannot change without its own times changing: a name that is added, removed or
replaced changes the times of the folder, and an edit in place changes the stamp of the file. So a process
that walks the same folder again compares the times of both and opens nothing. A folder is cached only if it
had not changed for a while, because filesystem clocks advance in steps, and the number of cached folders is
bounded. The cache is never stored: a new process starts with a full walk.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from typing import NamedTuple

from stoker.fs.stat_stamp import is_at_rest

MAX_FOLDERS = 20_000
"""In folders; about ten megabytes."""

_FolderTimes = tuple[int, int, int, int]


class CleanFolder(NamedTuple):
    """A folder at an earlier walk: its times and its content, all as in the ledger."""

    times: _FolderTimes
    files: tuple[str, ...]
    folders: tuple[str, ...]


class CleanFolderCache:
    """Clean folders by path; one cache for all walks that a process makes over one data folder."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[str, CleanFolder] = {}

    def __contains__(self, path: str) -> bool:
        return path in self._known

    def unchanged(self, path: str, there: os.stat_result) -> CleanFolder | None:
        """Return the cached folder if its times are unchanged."""
        known = self._known.get(path)
        return known if known is not None and known.times == _times(there) else None

    def keep(self, path: str, there: os.stat_result, files: Iterable[str], folders: Iterable[str]) -> bool:
        """Cache a folder with its times before it was listed; return False if it cannot be relied on."""
        full = len(self._known) >= MAX_FOLDERS and path not in self._known
        if full or not is_at_rest(max(there.st_mtime_ns, there.st_ctime_ns)):
            self.forget(path)
            return False
        self._known[path] = CleanFolder(
            _times(there), tuple(map(sys.intern, files)), tuple(map(sys.intern, folders))
        )
        return True

    def forget(self, path: str) -> None:
        self._known.pop(path, None)


def _times(there: os.stat_result) -> _FolderTimes:
    return (there.st_mtime_ns, there.st_ctime_ns, there.st_ino, there.st_dev)
