"""What a look at the data folder found that is not as the ledger says.

A walk over 100,000 files that nobody touched finds nothing, and then this is
empty: whatever is not named here lies on disk exactly as the ledger has it, or,
if the ledger does not know it, is not there. `walked` tells how far that goes:
after a walk it holds for everything in the managed folders, so files of others
are named too; without one only for the paths that were asked for.
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
    """One thing on disk; `version` is known for a file whose content was asked for and could be read."""

    kind: LiveKind
    version: FileVersion | None = None
    stat: bytes = UNSEEN_STAT


def entry_content(entry: LiveEntry | None) -> str:
    """What an entry holds, as text: its blob id and whether it may be executed; empty where nothing is."""
    if entry is None:
        return ""
    if entry.version is None:
        return str(entry.kind)
    return f"{entry.version.blob}+x" if entry.version.executable else str(entry.version.blob)


class LiveDifferences(NamedTuple):
    """The differences between the data folder and the ledger."""

    found: Mapping[str, LiveEntry | None] = MappingProxyType({})
    """By path: what lies there and is not as in the ledger; None for what is in the ledger and is gone."""
    opaque: frozenset[str] = frozenset()
    """Folders that hold more than is listed: names that are no paths to us, or what is never listed."""
    walked: bool = False

    def at(self, path: str, ledger: Ledger) -> LiveEntry | None:
        """What lies at a path; it must have been looked at, or lie where the walk went."""
        if path in self.found:
            return self.found[path]
        kept = ledger.version(path)
        return None if kept is None else LiveEntry(LiveKind.FILE, kept)

    def below(self, folder: str, ledger: Ledger) -> Iterator[tuple[str, LiveEntry]]:
        """Everything strictly inside a folder; needed only where a folder stands in a file's way."""
        inside = folder + "/"
        for path, entry in self.found.items():
            if entry is not None and path.startswith(inside):
                yield path, entry
        for path in ledger.files:
            if path.startswith(inside) and path not in self.found:
                yield path, LiveEntry(LiveKind.FILE, ledger.version(path))
