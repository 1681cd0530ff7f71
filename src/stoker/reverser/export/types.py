"""What an export is to do, where it writes to, and what it tells, as values.

`stoker.reverser.export.exporter` carries it out; a `ExportStore` is a folder of this machine
(`stoker.reverser.export.folder_store`) or a branch elsewhere (`stoker.reverser.export.branch_store`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from stoker.domain.deletion_guard import DeletionLimits
from stoker.domain.errors import StokerError
from stoker.domain.git_objects import PathNote
from stoker.reverser.encryption.digests import DigestKeys
from stoker.reverser.manifest.named_secrets import SecretRef
from stoker.reverser.selection.explain import ExplainTarget
from stoker.reverser.selection.preset import EXCLUDED, GroupResource
from stoker.reverser.selection.rules import DestinationRef, SelectionRule

_LISTED = 20


@dataclass(frozen=True, slots=True)
class ExportJob:
    """Which objects go where."""

    rules: tuple[SelectionRule, ...]
    targets: Mapping[DestinationRef, ExplainTarget]
    recipients: Mapping[DestinationRef, tuple[str, ...]] = field(default_factory=dict)
    """Of those whose policy is `Encrypt`."""
    excluded: frozenset[GroupResource] = EXCLUDED
    own: frozenset[SecretRef] = frozenset()
    """Secrets that are never written, as far as files tell; what the cluster tells comes to it."""
    keys: DigestKeys | None = None
    """By them an unchanged sealed file is recognised; without them all are sealed anew."""
    prune: bool = False
    budget: DeletionLimits = field(default_factory=DeletionLimits)
    approved_plan: str = ""
    """Digest of the deletions that a person approved."""


class FileUnwritable(StokerError):
    """One file cannot be written; others can."""


class ExportFinish(NamedTuple):
    """What became of it in the end."""

    commit: str | None = None
    refused: tuple[PathNote, ...] = ()


class ExportStore(Protocol):
    """Where files are written to. Everything but `begin`, `read` and `finish` is quick."""

    digits: int
    """How long its blob ids are."""

    async def begin(self, bases: Collection[str]) -> None:
        """Look at what is there."""
        ...

    def paths(self, base: str) -> Collection[str]:
        """The regular files below a base folder at the beginning."""
        ...

    def blob(self, path: str) -> str | None:
        """The id of what lies there now, or will when all is finished."""
        ...

    async def read(self, paths: Sequence[str]) -> dict[str, bytes]:
        """The contents of those that were there at the beginning."""
        ...

    def put(self, path: str, content: bytes | None, *, private: bool = False) -> None:
        """Have this content there, or nothing; raises Unwritable if only this one cannot be had."""
        ...

    async def finish(self, message: str) -> ExportFinish:
        """Make it last."""
        ...


@dataclass(slots=True)
class ExportReport:
    """What an export did."""

    to: str
    added: list[str] = field(default_factory=list)
    modified: list[str] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)
    orphans_kept: list[str] = field(default_factory=list)
    unchanged: int = 0
    left_out: int = 0
    in_clear: int = 0
    errors: list[PathNote] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)
    commit: str | None = None

    def as_json(self) -> dict[str, object]:
        return {
            "to": self.to,
            "commit": self.commit,
            "added": self.added,
            "modified": self.modified,
            "deleted": self.deleted,
            "orphansKept": self.orphans_kept,
            "unchanged": self.unchanged,
            "leftOut": self.left_out,
            "secretsInClear": self.in_clear,
            "errors": [{"path": note.path, "message": note.why} for note in self.errors],
            "notices": self.notices,
        }

    def lines(self) -> Iterator[str]:
        """The same for people; long lists are cut, numbers and errors are not."""
        for word, paths in (("added", self.added), ("modified", self.modified), ("deleted", self.deleted)):
            yield from _first_paths(word, paths)
        yield from _first_paths("kept", self.orphans_kept, ": its object is gone")
        yield from (f"error {note.path}: {note.why}" for note in self.errors)
        counts = (
            f"{len(self.added)} added, {len(self.modified)} modified, {len(self.deleted)} deleted, "
            f"{self.unchanged} unchanged, {self.left_out} objects left out"
        )
        where = f"{self.to} at {self.commit[:8]}" if self.commit else self.to
        yield f"{where}: {counts}"


def _first_paths(word: str, paths: Sequence[str], why: str = "") -> Iterator[str]:
    yield from (f"{word} {path}{why}" for path in paths[:_LISTED])
    if len(paths) > _LISTED:
        yield f"{word} {len(paths) - _LISTED} more"
