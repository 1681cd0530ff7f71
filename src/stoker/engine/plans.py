"""A plan: frozen actions in the order in which they are safe.

Dry run, report, approval and execution read the same value. The order is the
gateway's: data files before the `resource.json` of their resource, which says
that they are complete; deletions after additions, and there the `resource.json`
first, so that a resource is gone before its data is. Only what must make room
for a file or folder of the same name is deleted up front.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field

from stoker.domain.paths import RelPath
from stoker.engine.ledger import Ledger
from stoker.engine.objects import FileVersion, Note

RESOURCE_MANIFEST = "resource.json"


@dataclass(frozen=True, slots=True)
class Write:
    """Put this content there, as a whole or not at all."""

    path: RelPath
    version: FileVersion
    replaces: bool

    def __str__(self) -> str:
        return f"{'modify' if self.replaces else 'add'} {self.path}"


@dataclass(frozen=True, slots=True)
class SetMode:
    """The content is right, the executable bit is not."""

    path: RelPath
    version: FileVersion

    def __str__(self) -> str:
        return f"mode {self.path} {self.version.mode:o}"


@dataclass(frozen=True, slots=True)
class Delete:
    """Remove a file that the ledger says we wrote."""

    path: RelPath

    def __str__(self) -> str:
        return f"delete {self.path}"


Action = Write | SetMode | Delete


@dataclass(frozen=True, slots=True)
class Plan:
    """What one pass does to one data folder."""

    clearings: tuple[Delete, ...] = ()
    """Deletions that make room where a file becomes a folder or a folder a file (C-183)."""
    writes: tuple[Write, ...] = ()
    modes: tuple[SetMode, ...] = ()
    deletions: tuple[Delete, ...] = ()
    skipped: tuple[Note, ...] = ()
    refused: tuple[Note, ...] = ()
    conflicts: tuple[Note, ...] = ()
    orphans_kept: tuple[RelPath, ...] = ()
    """Files in managed folders that we did not write; they stay."""
    before: Ledger = field(default_factory=Ledger)
    """What of ours is on disk before the first action; the ledger of a pass without actions."""
    prunable: frozenset[RelPath] = frozenset()
    """Folders that may go when they become empty, with what is below them; none above."""

    @property
    def actions(self) -> tuple[Action, ...]:
        return (*self.clearings, *self.writes, *self.modes, *self.deletions)

    @property
    def removals(self) -> tuple[Delete, ...]:
        return self.clearings + self.deletions

    @property
    def digest(self) -> str:
        """Names exactly these actions; who approves it approves nothing else."""
        return hashlib.sha256("".join(_canonical(a) + "\n" for a in self.actions).encode()).hexdigest()

    def lines(self) -> Iterator[str]:
        """The plan for people."""
        yield from map(str, self.actions)
        for word, notes in (("skip", self.skipped), ("refuse", self.refused), ("conflict", self.conflicts)):
            yield from (f"{word} {note.path}: {note.why}" for note in notes)
        yield from (f"keep {path}: not written by us" for path in self.orphans_kept)

    def as_json(self) -> dict[str, object]:
        """The plan for machines."""
        return {
            "digest": self.digest,
            "actions": [_as_json(action) for action in self.actions],
            "skipped": [{"path": note.path, "message": note.why} for note in self.skipped],
            "refused": [{"path": note.path, "message": note.why} for note in self.refused],
            "conflicts": [{"path": note.path, "message": note.why} for note in self.conflicts],
            "orphansKept": list(self.orphans_kept),
        }


def _canonical(action: Action) -> str:
    if isinstance(action, Delete):
        return f"delete {action.path}"
    verb = "write" if isinstance(action, Write) else "mode"
    return f"{verb} {action.version.mode:o} {action.version.blob} {action.path}"


def _as_json(action: Action) -> dict[str, object]:
    if isinstance(action, Delete):
        return {"action": "delete", "path": action.path}
    verb = "mode" if isinstance(action, SetMode) else "modify" if action.replaces else "add"
    return {
        "action": verb,
        "path": action.path,
        "blob": action.version.blob,
        "mode": f"{action.version.mode:04o}",
    }
