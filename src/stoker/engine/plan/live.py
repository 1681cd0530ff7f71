"""The differences between the data folder and the ledger, as `stoker.fs` found them.

A walk over 100,000 unchanged files finds nothing, and then this value is empty: a path that is not listed
here is on disk exactly as the ledger has it, or does not exist if the ledger does not have it either.
`walked` gives the scope of that statement: after a walk it covers everything in the managed folders, so
files of others are listed too; without a walk it covers only the requested paths.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import NamedTuple

from stoker.domain.git_objects import FileVersion
from stoker.engine.plan.ledger import UNSEEN_STAT, Ledger


class LiveKind(StrEnum):
    FILE = "file"
    FOLDER = "folder"
    SYMLINK = "symlink"
    SPECIAL = "device, socket or pipe"


class LiveEntry(NamedTuple):
    """One entry on disk; `version` is set for a file whose content was requested and could be read."""

    kind: LiveKind
    version: FileVersion | None = None
    stat: bytes = UNSEEN_STAT


def entry_content(entry: LiveEntry | None) -> str:
    """Return the content of an entry as text: blob id and executable bit; empty for no entry."""
    if entry is None:
        return ""
    if entry.version is None:
        return str(entry.kind)
    return f"{entry.version.blob}+x" if entry.version.executable else str(entry.version.blob)


class LiveDifferences(NamedTuple):
    """The differences between the data folder and the ledger."""

    found: Mapping[str, LiveEntry | None] = MappingProxyType({})
    """By path: an entry that differs from the ledger; None for a file of the ledger that no longer exists."""
    opaque: frozenset[str] = frozenset()
    """Folders that contain more than is listed: names that are not valid paths, or entries never listed."""
    walked: bool = False

    def at(self, path: str, ledger: Ledger) -> LiveEntry | None:
        """Return the entry at a path; the path must have been requested, or be within the walked folders."""
        if path in self.found:
            return self.found[path]
        kept = ledger.version(path)
        return None if kept is None else LiveEntry(LiveKind.FILE, kept)

    def below(self, folder: str, ledger: Ledger) -> Iterator[tuple[str, LiveEntry]]:
        """Iterate over everything below a folder.

        It is needed only where a folder is in the place of a desired file.
        """
        inside = folder + "/"
        for path, entry in self.found.items():
            if entry is not None and path.startswith(inside):
                yield path, entry
        for path in ledger.files:
            if path.startswith(inside) and path not in self.found:
                yield path, LiveEntry(LiveKind.FILE, ledger.version(path))
