"""What we have written to a data folder, and what the disk holds.

`Ledger` is the memory between passes: only what it names may ever be deleted.
It is saved twice in a pass (`stoker.fs.applying`): before the first change, with
the writes that are about to happen as `intended`, and after the last one, with
what is really there. A crash in between leaves intentions behind; one of them
counts as ours only if the file that lies there now has exactly the intended
content. A stranger's file that a write did not reach is never taken for ours.

`Live` is the other side: what a scan found, by blob id.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property

from stoker.domain.paths import RelPath
from stoker.engine.objects import BlobId, FileVersion


@dataclass(frozen=True, slots=True)
class Ledger:
    """Last applied: files with the version that we gave them."""

    files: Mapping[RelPath, FileVersion] = field(default_factory=dict)
    intended: Mapping[RelPath, FileVersion] = field(default_factory=dict)
    mappings: frozenset[str] = frozenset()
    """The mappings, as written, that gave files in the last pass."""
    folders: frozenset[RelPath] = frozenset()
    """The folders that were managed in the last pass; an emptied one may go, none above it."""

    def owned(self, live: Live) -> dict[RelPath, FileVersion]:
        """What of the files on disk is ours."""
        written = {path: version for path, version in self.files.items() if live.is_file(path)}
        reached = {
            path: version for path, version in self.intended.items() if live.blob(path) == version.blob
        }
        return written | reached

    @property
    def paths(self) -> frozenset[RelPath]:
        """Every path whose state on disk matters for the next decision."""
        return frozenset(self.files) | frozenset(self.intended)


class LiveKind(StrEnum):
    FILE = "file"
    FOLDER = "folder"
    SYMLINK = "symlink"
    SPECIAL = "device, socket or pipe"


@dataclass(frozen=True, slots=True)
class LiveEntry:
    """One thing on disk. A file's blob id is known where it matters; None also if it cannot be read."""

    kind: LiveKind
    blob: BlobId | None = None
    executable: bool = False


@dataclass(frozen=True)
class Live:
    """What lies at and below the managed places, and what stands in the way above them."""

    entries: Mapping[RelPath, LiveEntry] = field(default_factory=dict)
    opaque: frozenset[RelPath] = frozenset()
    """Folders that hold more than is listed: names that are no paths to us, or what is never listed."""

    def is_file(self, path: RelPath) -> bool:
        entry = self.entries.get(path)
        return entry is not None and entry.kind is LiveKind.FILE

    def blob(self, path: RelPath) -> BlobId | None:
        entry = self.entries.get(path)
        return entry.blob if entry is not None else None

    def below(self, folder: RelPath) -> Iterator[tuple[RelPath, LiveEntry]]:
        """Everything strictly inside a folder."""
        inside = folder + "/"
        for path in self._sorted[bisect_left(self._sorted, inside) :]:
            if not path.startswith(inside):
                return
            yield path, self.entries[path]

    @cached_property
    def _sorted(self) -> list[RelPath]:
        return sorted(self.entries)
