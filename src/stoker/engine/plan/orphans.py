"""Files of others in managed folders: which are deleted, and which stay until a person approves.

With `orphans: owned`, the default, all of them stay: they are listed, and those that were put there since
the first sync count as drift. With `mirror` a managed folder holds what the repository says and nothing
else, so they are deleted, except for API keys, which people make on the gateway and which cannot be made
again, and except on first contact: what was in a folder before it was managed is kept, is listed, and is
deleted only by a plan that a person approved. First contact is with each folder by itself: a mapping that
is new today did not manage its folder yesterday, and a folder that was `owned` until now may be full of
files that were welcome there.
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
    """What holds for the files of one folder."""

    managed: bool
    mirrored: bool
    mirrored_before: bool
    """Mirrored, and by the ledger it was so at the last sync."""


class ForeignFiles:
    """What a look at the data folder found that we did not write."""

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
        """In `owned` folders."""
        files = {path for path in theirs - self.welcome if found[path] is LiveKind.FILE}
        self._met: frozenset[str] = frozenset(
            path for path in self.welcome if first_contact or path in ledger.kept or not ledger.manages(path)
        )
        """Those of them that were there first, and therefore are no drift."""
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
        """What is no file is never deleted."""

    def remembered(self, folders: frozenset[str]) -> frozenset[str]:
        """What shall stay in the ledger as kept, given the folders that it will call ours."""
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
        """Everything in managed folders that is not ours, nor desired, nor where something is missing."""
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
        """Kept ones that nobody looked for this time."""
        if not self._live.walked:
            for path in self._ledger.kept:
                if (
                    path not in self._live.found
                    and path not in self._desired.files
                    and self._rule(path).mirrored
                ):
                    yield path

    def _is_ours(self, path: str) -> bool:
        """Whether it is a write that a killed pass got as far as."""
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
        """The deepest destination that says something about it is heard."""
        rules = self._desired.orphans
        said = next((rules[place] for place in _path_and_parents(folder) if place in rules), self._default)
        return said is OrphanPolicy.MIRROR


def _path_and_parents(path: str) -> tuple[str, ...]:
    own = RelPath.known(path)
    return (own, *own.ancestors()) if own else ()
