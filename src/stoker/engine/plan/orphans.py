"""Files of others in managed folders: which are deleted, and which stay until a person approves.

With `orphans: owned`, the default, all of them stay: they are listed, and those that were added since the
first sync count as drift. With `mirror` a managed folder contains the files of the repository and nothing
else, so files of others are deleted, with two exceptions. API keys stay, because people create them on the
gateway and they cannot be created again. On first contact, files that were in a folder before it was
managed are kept and listed, and only a plan that a person approved deletes them.

First contact is decided for each folder: a mapping that is new in this sync did not manage its folder
before, and a folder that was `owned` until now may contain many files that were allowed there.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from stoker.domain.git_objects import PathNote
from stoker.domain.intent.files import DeletionPolicy, OrphanPolicy
from stoker.domain.paths import RelPath
from stoker.engine.layout.desired_files import DesiredFiles
from stoker.engine.match.globs import PathBatch
from stoker.engine.plan.ledger import Ledger
from stoker.engine.plan.live import LiveDifferences, LiveKind


class _FolderRule(NamedTuple):
    """The rules that apply to the files of one folder."""

    managed: bool
    mirrored: bool
    mirrored_before: bool
    """Mirrored now, and according to the ledger also at the last sync."""


class ForeignFiles:
    """The entries in managed folders that Stoker did not write."""

    def __init__(
        self,
        desired: DesiredFiles,
        live: LiveDifferences,
        ledger: Ledger,
        deletion: DeletionPolicy,
        *,
        first_contact: bool,
    ) -> None:
        self._desired = desired
        self._live = live
        self._ledger = ledger
        self._default = desired.orphans.get("", deletion.orphans)
        self._rules: dict[str, _FolderRule] = {}
        found = dict(self._found())
        covered = desired.protection.sparing(PathBatch(found)) if found else set()
        theirs = found.keys() - covered
        self.welcome: frozenset[str] = frozenset(path for path in theirs if not self._rule(path).mirrored)
        """Files of others in `owned` folders."""
        files = {path for path in theirs - self.welcome if found[path] is LiveKind.FILE}
        self._met: frozenset[str] = frozenset(
            path for path in self.welcome if first_contact or path in ledger.kept or not ledger.manages(path)
        )
        """Those of `welcome` that existed before the folder was managed, and therefore are not drift."""
        self.deletable: frozenset[str] = frozenset(
            path
            for path in files
            if not first_contact and path not in ledger.kept and self._rule(path).mirrored_before
        )
        self.kept: frozenset[str] = frozenset(files - self.deletable).union(self._unseen())
        self.left: tuple[PathNote, ...] = tuple(
            PathNote(path, f"is a {found[path]} on the data volume, which is left alone")
            for path in sorted(theirs - self.welcome - files)
        )
        """Entries that are not regular files are never deleted."""

    def remembered(self, folders: frozenset[str]) -> frozenset[str]:
        """Return the files that the ledger shall record as kept, given its managed folders."""
        if self._live.walked:
            elsewhere = (path for path in self._ledger.kept if self._live.found.get(path) is not None)
        else:
            elsewhere = (path for path in self._ledger.kept if self._live.found.get(path, "") is not None)
        return self.kept.union(
            self._met,
            (
                path
                for path in elsewhere
                if path not in self._desired.files
                and any(above in folders for above in _path_and_parents(path))
            ),
        )

    def mirrored(self, folders: frozenset[str]) -> frozenset[str]:
        return frozenset(folder for folder in folders if self._is_mirrored(folder))

    def _found(self) -> Iterator[tuple[str, LiveKind]]:
        """Iterate over entries in managed folders that are not ours, not desired and not in a kept place."""
        desired, ledger = self._desired, self._ledger
        for path, entry in self._live.found.items():
            if (
                entry is not None
                and entry.kind is not LiveKind.FOLDER
                and path not in ledger.files
                and path not in desired.files
                and not self._is_ours(path)
                and self._rule(path).managed
                and not any(place in desired.kept for place in (*_path_and_parents(path), ""))
            ):
                yield path, entry.kind

    def _unseen(self) -> Iterator[str]:
        """Iterate over kept files that this look at the disk did not cover."""
        if not self._live.walked:
            for path in self._ledger.kept:
                if (
                    path not in self._live.found
                    and path not in self._desired.files
                    and self._rule(path).mirrored
                ):
                    yield path

    def _is_ours(self, path: str) -> bool:
        """Whether the file is a write that an interrupted sync completed."""
        intended = self._ledger.intended.get(path)
        entry = self._live.found[path]
        return (
            intended is not None
            and entry is not None
            and entry.version is not None
            and entry.version.blob == intended.blob
        )

    def _rule(self, path: str) -> _FolderRule:
        folder = path.rpartition("/")[0]
        if folder not in self._rules:
            above = _path_and_parents(folder)
            managed = any(place in self._desired.managed.folders for place in above)
            mirrored = managed and self._is_mirrored(folder)
            self._rules[folder] = _FolderRule(managed, mirrored, mirrored and self._ledger.mirrors(path))
        return self._rules[folder]

    def _is_mirrored(self, folder: str) -> bool:
        """Whether a folder is mirrored; the rule of the deepest destination above it applies."""
        rules = self._desired.orphans
        said = next((rules[place] for place in _path_and_parents(folder) if place in rules), self._default)
        return said is OrphanPolicy.MIRROR


def _path_and_parents(path: str) -> tuple[str, ...]:
    own = RelPath.known(path)
    return (own, *own.ancestors()) if own else ()
