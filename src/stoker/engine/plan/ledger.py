"""What we have written to a data folder: the memory between passes.

Only what the ledger names may ever be deleted without asking, and what it says of
a file need not be read again: each file has a record of what it is (its blob id)
and of how it lay on disk when it was last seen to be that (its stat data). Where
the two still agree, the content is taken to be the same.

It is saved twice in a pass (`stoker.fs.apply_plan`): before the first change, with
the writes that are about to happen as `intended`, and after the last one, with
what is really there. A crash in between leaves intentions behind; one of them
counts as ours only if the file that lies there now has exactly the intended
content. A stranger's file that a write did not reach is never taken for ours.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field

from stoker.domain.git_objects import BlobId, FileVersion
from stoker.domain.paths import RelPath

# size, mtime, ctime, inode, executable: what tells that a file was not touched since.
STAT = struct.Struct("<qqqqB")
UNSEEN_STAT = STAT.pack(0, 0, 0, 0, 0)
"""Fits no file: whoever finds it reads the content again."""


def encode_record(version: FileVersion, stat: bytes = UNSEEN_STAT) -> bytes:
    """What the ledger keeps of one file, as small as it can be: there may be 100,000 of them."""
    return stat + bytes.fromhex(version.blob)


def recorded_version(kept: bytes) -> FileVersion:
    """What we wrote there; the executable bit is the last byte of the stat data."""
    return FileVersion(str.__new__(BlobId, kept[STAT.size :].hex()), bool(kept[STAT.size - 1]))


def recorded_stat(kept: bytes) -> bytes:
    return kept[: STAT.size]


@dataclass(frozen=True, slots=True)
class Ledger:
    """Last applied."""

    files: Mapping[str, bytes] = field(default_factory=dict)
    """Every file that we wrote, by canonical path, with its `encode_record`."""
    intended: Mapping[str, FileVersion] = field(default_factory=dict)
    mappings: frozenset[str] = frozenset()
    """The mappings, as written, that gave files in the last pass."""
    folders: frozenset[str] = frozenset()
    """The folders that were managed in the last pass; an emptied one may go, none above it."""
    kept: frozenset[str] = frozenset()
    """Files of others that were in managed folders on first contact: no drift, deleted only on approval."""
    excludes: frozenset[str] = frozenset()
    """The globs that were excluded: what matches is nobody's drift."""
    mirrored: frozenset[str] = frozenset()
    """Those of the folders in which a file of others is deleted (`orphans: mirror`)."""
    given: frozenset[str] = frozenset()
    """How many files each mapping gives to each managed place, as `stoker.engine.layout.counts` writes it."""
    held: frozenset[str] = frozenset()
    """Places that were left as they were, each after the commit that it is at: `<commit> <place>`."""
    skipped: frozenset[str] = frozenset()
    """The first names of content that was skipped, as `stoker.engine.plan.skipped` writes them."""
    skipped_total: int = 0
    approvals_used: frozenset[str] = frozenset()
    """Approvals whose plan was carried out, as `PlanApproval.text`, while they are given: they count once."""
    approvals_begun: frozenset[str] = frozenset()
    """Approvals of a plan that was begun and not settled. They are used once a pass has been settled."""
    ref: str = ""
    commit: str = ""
    settings: str = ""
    """What the mappings and everything else that shapes the files were, as a digest."""
    complete: bool = False
    """Whether `files` is all that `settings` gives at `commit`: nothing failed, nothing was held back."""

    def held_at(self, place: str) -> str:
        """The commit that a place is at, held back or not."""
        behind = (text.partition(" ") for text in self.held)
        return next((commit for commit, _, name in behind if name == place), self.commit)

    def mirrors(self, path: str) -> bool:
        """Whether the last pass wanted no stranger's file there; the deepest of its folders is heard."""
        above = RelPath.known(path).ancestors()
        return next((folder in self.mirrored for folder in above if folder in self.folders), False)

    def manages(self, path: str) -> bool:
        """Whether the last pass managed the folder of a path, or one above it."""
        return any(folder in self.folders for folder in RelPath.known(path).ancestors())

    @property
    def awaiting_approval(self) -> tuple[str, ...]:
        """Kept files of others that the approval of a plan would delete, sorted."""
        return tuple(sorted(path for path in self.kept if self.mirrors(path)))

    def version(self, path: str) -> FileVersion | None:
        kept = self.files.get(path)
        return None if kept is None else recorded_version(kept)
