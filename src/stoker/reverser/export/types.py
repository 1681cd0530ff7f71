"""The job, the store interface and the report of an export.

`stoker.reverser.export.exporter` runs the job. An `ExportStore` is a local folder
(`stoker.reverser.export.folder_store`) or a remote branch (`stoker.reverser.export.branch_store`).
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
    """The objects to export and their destinations."""

    rules: tuple[SelectionRule, ...]
    targets: Mapping[DestinationRef, ExplainTarget]
    recipients: Mapping[DestinationRef, tuple[str, ...]] = field(default_factory=dict)
    """The recipients of the destinations whose policy is `Encrypt`."""
    excluded: frozenset[GroupResource] = EXCLUDED
    own: frozenset[SecretRef] = frozenset()
    """Secrets that are never written, named in local files; the exporter adds those of the cluster."""
    keys: DigestKeys | None = None
    """Keys that recognize unchanged encrypted files; without them all files are encrypted again."""
    prune: bool = False
    budget: DeletionLimits = field(default_factory=DeletionLimits)
    approved_plan: str = ""
    """Digest of the deletion plan that a person approved."""


class FileUnwritable(StokerError):
    """Raised if a single file cannot be written while other files can."""


class ExportFinish(NamedTuple):
    """The result of `ExportStore.finish`."""

    commit: str | None = None
    refused: tuple[PathNote, ...] = ()


class ExportStore(Protocol):
    """The target of an export. All methods but `begin`, `read` and `finish` are quick."""

    digits: int
    """The length of its blob ids."""

    async def begin(self, bases: Collection[str]) -> None:
        """Read the existing files below the base folders."""
        ...

    def paths(self, base: str) -> Collection[str]:
        """Return the regular files below a base folder, as they were at the beginning."""
        ...

    def blob(self, path: str) -> str | None:
        """Return the blob id of a path, as it is now or will be after `finish`."""
        ...

    async def read(self, paths: Sequence[str]) -> dict[str, bytes]:
        """Return the contents of files that existed at the beginning."""
        ...

    def put(self, path: str, content: bytes | None, *, private: bool = False) -> None:
        """Write a file, or delete it if the content is None; raises FileUnwritable if only this fails."""
        ...

    async def finish(self, message: str) -> ExportFinish:
        """Make all changes durable."""
        ...


@dataclass(slots=True)
class ExportReport:
    """The outcome of an export."""

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
        """Format the report for people; long lists are cut, counts and errors are not."""
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
