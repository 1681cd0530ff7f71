"""A plan: frozen actions in the order in which they are safe.

Dry run, report, approval and execution read the same value. The order is the
gateway's: data files before the `resource.json` of their resource, which says
that they are complete; deletions after additions, and there the `resource.json`
first, so that a resource is gone before its data is. Only what must make room
for a file or folder of the same name is deleted up front.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from stoker.domain.git_objects import FileVersion, HeldPath, PathNote
from stoker.domain.paths import RelPath
from stoker.engine.plan.ledger import Ledger, encode_record

RESOURCE_MANIFEST = "resource.json"


class WriteFile(NamedTuple):
    """Put this content there, as a whole or not at all."""

    path: RelPath
    version: FileVersion
    replaces: bool

    def __str__(self) -> str:
        return f"{'modify' if self.replaces else 'add'} {self.path}"


class SetFileMode(NamedTuple):
    """The content is right, the executable bit is not."""

    path: RelPath
    version: FileVersion

    def __str__(self) -> str:
        return f"mode {self.path} {self.version.mode:o}"


class DeleteFile(NamedTuple):
    """Remove a file of a managed place: one that we wrote, or with `orphans: mirror` any."""

    path: RelPath

    def __str__(self) -> str:
        return f"delete {self.path}"


PlanAction = WriteFile | SetFileMode | DeleteFile


@dataclass(frozen=True, slots=True)
class LedgerFacts:
    """What the ledger shall say besides the files, once the plan is carried out."""

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


@dataclass(frozen=True, slots=True)
class SyncPlan:
    """What one pass does to one data folder."""

    clearings: tuple[DeleteFile, ...] = ()
    """Deletions that make room where a file becomes a folder or a folder a file (C-183)."""
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
    """Records of files that already lie there as wanted and of which the ledger does not say so."""
    forgotten: frozenset[str] = frozenset()
    """Paths of the ledger where nothing of ours lies any more."""
    facts: LedgerFacts = field(default_factory=LedgerFacts)
    prunable: frozenset[str] = frozenset()
    """Folders that may go when they become empty, with what is below them; none above."""
    lingering: bool = False
    """Whether the ledger will still hold a file that nothing desires, or a place where nothing may go.

    One that is excluded does not count: as long as the settings stay the same, so does it.
    """
    held: tuple[HeldPath, ...] = ()
    """Places whose changes wait; the rest goes on."""
    given_back: frozenset[str] = frozenset()
    """Files of others that are put back as they were: written, and not ours afterwards."""

    @property
    def actions(self) -> tuple[PlanAction, ...]:
        return (*self.clearings, *self.writes, *self.modes, *self.deletions)

    @property
    def delivers_all(self) -> bool:
        """Whether nothing is left out or over, so that the ledger will be exactly what the mappings give."""
        return not (self.refused or self.conflicts or self.lingering or self.held)

    def with_orphans(self) -> SyncPlan:
        """The plan as an approval releases it: it also deletes what is kept. Its digest is the same."""
        return replace(
            self,
            deletions=tuple(
                sorted((*self.deletions, *map(DeleteFile, self.orphans_kept)), key=deletion_order)
            ),
            orphans_kept=(),
            facts=replace(self.facts, kept=self.facts.kept.difference(self.orphans_kept)),
        )

    def holding(self, held: Sequence[HeldPath], ledger: Ledger | None) -> SyncPlan:
        """The plan without what would happen in these places; what the ledger says of them stays true."""
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
        """The plan without writing these files; what the ledger says of them stays as it is."""
        if not paths:
            return self
        return replace(
            self,
            writes=tuple(write for write in self.writes if write.path not in paths),
            modes=tuple(mode for mode in self.modes if mode.path not in paths),
        )

    def adopting(self, stats: Mapping[str, bytes]) -> SyncPlan:
        """The plan without these writes: what lies there means the same as what they would put there.

        The ledger remembers the desired version, with the stat data of the file that stays: as long as
        nobody touches that, nobody has to compare the two again.
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
        """Whatever makes another file of one that is there: its content or its mode."""
        return (*(write for write in self.writes if write.replaces), *self.modes)

    @property
    def removals(self) -> tuple[DeleteFile, ...]:
        return self.clearings + self.deletions

    @property
    def digest(self) -> str:
        """Names everything that an approval of this plan does, the deletion of kept orphans included."""
        actions = self.with_orphans().actions if self.orphans_kept else self.actions
        return hashlib.sha256("".join(_canonical_line(a) + "\n" for a in actions).encode()).hexdigest()

    @property
    def needs_digest(self) -> bool:
        """Whether there is anything that a person could approve."""
        return bool(self.actions or self.orphans_kept)

    def lines(self) -> Iterator[str]:
        """The plan for people."""
        yield from map(str, self.actions)
        for word, notes in (("skip", self.skipped), ("refuse", self.refused), ("conflict", self.conflicts)):
            yield from (f"{word} {note.path}: {note.why}" for note in notes)
        yield from (f"keep {path}: not written by us" for path in (*self.orphans_kept, *self.not_ours))

    def as_json(self) -> dict[str, object]:
        """The plan for machines."""
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
    """A resource is gone before its data is."""
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
