"""Folders that a walk found exactly as the ledger says, so that the next one need not list them.

What is in a folder cannot change without its own times changing: a name that comes,
goes or is replaced shows there, and a file that is edited in place shows in the file's
own stamp. So a process that walks the same folder again looks at the times of both and
opens nothing. Only folders that had been at rest for a while are kept, because a clock
moves in steps, and only so many that their memory is bounded. Nothing here is written
down: another process starts with a walk of its own.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from typing import NamedTuple

from stoker.fs.stat_stamp import is_at_rest

MAX_FOLDERS = 20_000
"""Folders; some ten megabytes."""

_FolderTimes = tuple[int, int, int, int]


class CleanFolder(NamedTuple):
    """A folder as it was: its times, and what it held, all of it as the ledger says."""

    times: _FolderTimes
    files: tuple[str, ...]
    folders: tuple[str, ...]


class CleanFolderCache:
    """By path; one for as many walks over one data folder as a process makes."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[str, CleanFolder] = {}

    def __contains__(self, path: str) -> bool:
        return path in self._known

    def unchanged(self, path: str, there: os.stat_result) -> CleanFolder | None:
        """The visit, if the folder is still as it was then."""
        known = self._known.get(path)
        return known if known is not None and known.times == _times(there) else None

    def keep(self, path: str, there: os.stat_result, files: Iterable[str], folders: Iterable[str]) -> bool:
        """Remember a folder, as it was before it was listed; False if it cannot be relied on."""
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
