"""The ledger: what Stoker has written to a data folder, remembered between syncs.

Without approval a sync deletes only files that the ledger names. The ledger also saves reading unchanged
files: each file has a record with its blob id and its stat data at the time when the content was last
verified. While the stat data is unchanged, the content counts as unchanged.

A sync saves it twice (`stoker.fs.apply_plan`): before the first change, with the planned writes as
`intended`, and after the last change, with what is really on disk. A crash in between leaves intentions
behind. An intended file counts as ours only if the file on disk has exactly the intended content, so a
file of others that a write did not reach is never taken for ours.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field

from stoker.domain.git_objects import BlobId, FileVersion
from stoker.domain.paths import RelPath

# size, mtime, ctime, inode, executable: if all are equal, the file was not touched.
STAT = struct.Struct("<qqqqB")
UNSEEN_STAT = STAT.pack(0, 0, 0, 0, 0)
"""Matches no file, so the content is read again."""


def encode_record(version: FileVersion, stat: bytes = UNSEEN_STAT) -> bytes:
    """Encode the record of one file, as small as possible: a ledger may have 100,000 of them."""
    return stat + bytes.fromhex(version.blob)


def recorded_version(kept: bytes) -> FileVersion:
    """Return the version that Stoker wrote; the executable bit is the last byte of the stat data."""
    return FileVersion(str.__new__(BlobId, kept[STAT.size :].hex()), bool(kept[STAT.size - 1]))


def recorded_stat(kept: bytes) -> bytes:
    return kept[: STAT.size]


@dataclass(frozen=True, slots=True)
class Ledger:
    """The state that the last sync left in a data folder."""

    files: Mapping[str, bytes] = field(default_factory=dict)
    """Every file that Stoker wrote, by canonical path, with its `encode_record`."""
    intended: Mapping[str, FileVersion] = field(default_factory=dict)
    mappings: frozenset[str] = frozenset()
    """The mappings, as the user wrote them, that delivered files in the last sync."""
    folders: frozenset[str] = frozenset()
    """The folders that the last sync managed; an emptied one may be removed, but no folder above it."""
    kept: frozenset[str] = frozenset()
    """Files of others that were in managed folders on first contact: no drift, deleted only on approval."""
    excludes: frozenset[str] = frozenset()
    """The excluded globs: a matching file is not drift."""
    mirrored: frozenset[str] = frozenset()
    """Those of the folders in which a file of others is deleted (`orphans: mirror`)."""
    given: frozenset[str] = frozenset()
    """File counts of each mapping in each managed place, as `stoker.engine.layout.counts` writes them."""
    held: frozenset[str] = frozenset()
    """Places whose changes were held back, each after the commit that it is at: `<commit> <place>`."""
    skipped: frozenset[str] = frozenset()
    """The first names of skipped content, as `stoker.engine.plan.skipped` writes them."""
    skipped_total: int = 0
    approvals_used: frozenset[str] = frozenset()
    """Approvals whose plan was applied, as `PlanApproval.text`, until withdrawn: each counts once."""
    approvals_begun: frozenset[str] = frozenset()
    """Approvals of a plan that was begun and not settled; they become used once a sync is settled."""
    unmapped: frozenset[str] = frozenset()
    """Files of removed mappings that stayed, such as excluded ones: they are deleted only on approval."""
    ref: str = ""
    commit: str = ""
    settings: str = ""
    """A digest of the mappings and of everything else that shapes the files."""
    complete: bool = False
    """Whether `files` is all that `settings` gives at `commit`: nothing failed, nothing was held back."""

    def held_at(self, place: str) -> str:
        """Return the commit that a place is at, held back or not."""
        behind = (text.partition(" ") for text in self.held)
        return next((commit for commit, _, name in behind if name == place), self.commit)

    def mirrors(self, path: str) -> bool:
        """Whether the last sync allowed no file of others there.

        The rule of the deepest managed folder applies.
        """
        above = RelPath.known(path).ancestors()
        return next((folder in self.mirrored for folder in above if folder in self.folders), False)

    def manages(self, path: str) -> bool:
        """Whether the last sync managed the folder of a path, or a folder above it."""
        return any(folder in self.folders for folder in RelPath.known(path).ancestors())

    @property
    def awaiting_approval(self) -> tuple[str, ...]:
        """Kept files of others that the approval of a plan would delete, sorted."""
        return tuple(sorted(path for path in self.kept if self.mirrors(path)))

    def version(self, path: str) -> FileVersion | None:
        kept = self.files.get(path)
        return None if kept is None else recorded_version(kept)
