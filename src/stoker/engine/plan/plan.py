"""A plan: frozen actions in the order in which they are safe.

Dry run, report, approval and execution read the same value. The order follows the gateway's rules. Data
files come before the `resource.json` of their resource, which declares them complete. Deletions come after
additions, and there `resource.json` comes first, so that a resource is gone before its data is. Only
entries that must make room for a file or folder of the same name are deleted first.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from stoker.domain.git_objects import FileVersion, HeldPath, PathNote
from stoker.domain.paths import RelPath
from stoker.engine.layout.desired_files import NO_PLACES, ManagedPaths
from stoker.engine.plan.ledger import Ledger, encode_record

RESOURCE_MANIFEST = "resource.json"


class WriteFile(NamedTuple):
    """Write this content to the path, atomically."""

    path: RelPath
    version: FileVersion
    replaces: bool

    def __str__(self) -> str:
        return f"{'modify' if self.replaces else 'add'} {self.path}"


class SetFileMode(NamedTuple):
    """Set the executable bit; the content is already right."""

    path: RelPath
    version: FileVersion

    def __str__(self) -> str:
        return f"mode {self.path} {self.version.mode:o}"


class DeleteFile(NamedTuple):
    """Delete a file of a managed place: one that Stoker wrote, or with `orphans: mirror` any file."""

    path: RelPath

    def __str__(self) -> str:
        return f"delete {self.path}"


PlanAction = WriteFile | SetFileMode | DeleteFile


@dataclass(frozen=True, slots=True)
class LedgerFacts:
    """The fields of the ledger besides the files, as they are once the plan is applied."""

    ref: str = ""
    commit: str = ""
    settings: str = ""
    mappings: frozenset[str] = frozenset()
    folders: frozenset[str] = frozenset()
    kept: frozenset[str] = frozenset()
    excludes: frozenset[str] = frozenset()
    mirrored: frozenset[str] = frozenset()
    given: frozenset[str] = frozenset()
    held: frozenset[str] = frozenset()
    skipped: frozenset[str] = frozenset()
    skipped_total: int = 0
    approvals_used: frozenset[str] = frozenset()
    approvals_begun: frozenset[str] = frozenset()
    unmapped: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class SyncPlan:
    """The changes that one sync makes to one data folder."""

    clearings: tuple[DeleteFile, ...] = ()
    """Deletions that make room where a file becomes a folder or a folder becomes a file."""
    writes: tuple[WriteFile, ...] = ()
    modes: tuple[SetFileMode, ...] = ()
    deletions: tuple[DeleteFile, ...] = ()
    skipped: tuple[PathNote, ...] = ()
    refused: tuple[PathNote, ...] = ()
    conflicts: tuple[PathNote, ...] = ()
    orphans_kept: tuple[RelPath, ...] = ()
    """Files of others in mirrored folders, found on first contact; approving the plan deletes them."""
    not_ours: tuple[RelPath, ...] = ()
    """Files of others in folders with `orphans: owned`; they stay, whatever is approved."""
    remembered: Mapping[str, bytes] = field(default_factory=dict)
    """Records of files that are already on disk as desired and that the ledger does not have yet."""
    forgotten: frozenset[str] = frozenset()
    """Paths of the ledger where no file of ours exists any more."""
    facts: LedgerFacts = field(default_factory=LedgerFacts)
    prunable: frozenset[str] = frozenset()
    """Folders that may be removed when they become empty, with folders below them, but none above."""
    lingering: bool = False
    """Whether the ledger will still have an undesired file, or a place where nothing may be deleted.

    An excluded file does not count: it stays as long as the settings stay the same.
    """
    held: tuple[HeldPath, ...] = ()
    """Places whose changes are held back; the rest is applied."""
    abandoned: ManagedPaths = NO_PLACES
    """Places of the last sync that the changed mappings no longer have; deletions there need an approval."""
    given_back: frozenset[str] = frozenset()
    """Files of others that a restore writes back as they were; they are not ours afterwards."""

    @property
    def actions(self) -> tuple[PlanAction, ...]:
        return (*self.clearings, *self.writes, *self.modes, *self.deletions)

    @property
    def delivers_all(self) -> bool:
        """Whether nothing is left out or left over, so that the ledger will match the mappings exactly."""
        return not (self.refused or self.conflicts or self.lingering or self.held)

    def with_orphans(self) -> SyncPlan:
        """Return the plan as an approval releases it: it also deletes the kept orphans.

        The digest is the same.
        """
        return replace(
            self,
            deletions=tuple(
                sorted((*self.deletions, *map(DeleteFile, self.orphans_kept)), key=deletion_order)
            ),
            orphans_kept=(),
            facts=replace(self.facts, kept=self.facts.kept.difference(self.orphans_kept)),
        )

    def holding(self, held: Sequence[HeldPath], ledger: Ledger | None) -> SyncPlan:
        """Return the plan without its actions in these places; the ledger's records of them stay valid."""
        if not held:
            return self

        def goes_on(action: PlanAction) -> bool:
            return not any(one.covers(action.path) for one in held)

        before = ledger if ledger is not None else Ledger()
        return replace(
            self,
            clearings=tuple(filter(goes_on, self.clearings)),
            writes=tuple(filter(goes_on, self.writes)),
            modes=tuple(filter(goes_on, self.modes)),
            deletions=tuple(filter(goes_on, self.deletions)),
            held=tuple(held),
            facts=replace(
                self.facts, held=frozenset(f"{before.held_at(one.place)} {one.place}" for one in held)
            ),
        )

    def without_writes(self, paths: Collection[str]) -> SyncPlan:
        """Return the plan without writing these files; the ledger's records of them stay as they are."""
        if not paths:
            return self
        return replace(
            self,
            writes=tuple(write for write in self.writes if write.path not in paths),
            modes=tuple(mode for mode in self.modes if mode.path not in paths),
        )

    def adopting(self, stats: Mapping[str, bytes]) -> SyncPlan:
        """Return the plan without these writes, because the files on disk are equivalent to their content.

        The ledger records the desired version with the stat data of the file that stays. While the file is
        untouched, the two contents need not be compared again.
        """
        taken: dict[str, bytes] = {
            write.path: encode_record(write.version, stats[write.path])
            for write in self.writes
            if write.path in stats
        }
        return replace(
            self,
            writes=tuple(write for write in self.writes if write.path not in taken),
            remembered={**self.remembered, **taken},
        )

    @property
    def rewrites(self) -> tuple[WriteFile | SetFileMode, ...]:
        """The actions that change an existing file: its content or its mode."""
        return (*(write for write in self.writes if write.replaces), *self.modes)

    @property
    def removals(self) -> tuple[DeleteFile, ...]:
        return self.clearings + self.deletions

    @property
    def digest(self) -> str:
        """Identifies everything that an approval of this plan does, including deletions of kept orphans."""
        actions = self.with_orphans().actions if self.orphans_kept else self.actions
        return hashlib.sha256("".join(_canonical_line(a) + "\n" for a in actions).encode()).hexdigest()

    @property
    def needs_digest(self) -> bool:
        """Whether the plan contains anything that a person could approve."""
        return bool(self.actions or self.orphans_kept)

    def lines(self) -> Iterator[str]:
        """Format the plan for people."""
        yield from map(str, self.actions)
        for word, notes in (("skip", self.skipped), ("refuse", self.refused), ("conflict", self.conflicts)):
            yield from (f"{word} {note.path}: {note.why}" for note in notes)
        yield from (f"keep {path}: not written by us" for path in (*self.orphans_kept, *self.not_ours))

    def as_json(self) -> dict[str, object]:
        """Format the plan for machines."""
        return {
            "digest": self.digest if self.needs_digest else None,
            "actions": [_action_as_json(action) for action in self.actions],
            "skipped": [{"path": note.path, "message": note.why} for note in self.skipped],
            "refused": [{"path": note.path, "message": note.why} for note in self.refused],
            "conflicts": [{"path": note.path, "message": note.why} for note in self.conflicts],
            "orphansKept": list(self.orphans_kept),
            "notOurs": list(self.not_ours),
            "mirrored": sorted(self.facts.mirrored),
        }


def deletion_order(delete: DeleteFile) -> tuple[bool, RelPath]:
    """Sort key: `resource.json` first, so that a resource is gone before its data is."""
    return (delete.path.name != RESOURCE_MANIFEST, delete.path)


def _canonical_line(action: PlanAction) -> str:
    if isinstance(action, DeleteFile):
        return f"delete {action.path}"
    verb = "write" if isinstance(action, WriteFile) else "mode"
    blob, executable = action.version
    return f"{verb} {'755' if executable else '644'} {blob} {action.path}"


def _action_as_json(action: PlanAction) -> dict[str, object]:
    if isinstance(action, DeleteFile):
        return {"action": "delete", "path": action.path}
    verb = "mode" if isinstance(action, SetFileMode) else "modify" if action.replaces else "add"
    return {
        "action": verb,
        "path": action.path,
        "blob": action.version.blob,
        "mode": f"{action.version.mode:04o}",
    }
