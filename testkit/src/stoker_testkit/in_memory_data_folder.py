"""A data folder in memory, for property tests of plans: finds differences and applies plans.

It behaves as `stoker.fs` does when nothing fails, so that thousands of histories run in the time that a disk
needs for one. It is strict where a disk would fail: a write below a path that is not a folder, or onto a
folder, is an error of the plan.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import fields

from stoker.domain.git_objects import FileVersion
from stoker.domain.paths import RelPath
from stoker.engine.layout.desired_files import ManagedPaths
from stoker.engine.plan.ledger import STAT, Ledger, encode_record
from stoker.engine.plan.live import LiveDifferences, LiveEntry, LiveKind
from stoker.engine.plan.plan import LedgerFacts, SyncPlan


class ModelFolder:
    """Files and other entries by path; a folder exists if something is in it."""

    def __init__(self, files: Mapping[str, FileVersion] | None = None) -> None:
        self.files: dict[str, FileVersion] = {}
        self.others: dict[str, LiveKind] = {}
        self._stats: dict[str, bytes] = {}
        self._time = 0
        for path, version in (files or {}).items():
            self.put(path, version)

    def copy(self) -> ModelFolder:
        """A copy, including stat data."""
        twin = ModelFolder()
        twin.files, twin.others = dict(self.files), dict(self.others)
        twin._stats, twin._time = dict(self._stats), self._time
        return twin

    def put(self, path: str, version: FileVersion) -> None:
        """Write a file; raises if a disk would."""
        above = [*RelPath.known(path).ancestors()]
        if (
            self.is_folder(path)
            or path in self.others
            or any(a in self.files or a in self.others for a in above)
        ):
            raise OSError(f"{path} cannot be written")
        self.files[path] = version
        self._touch(path)

    def delete(self, path: str) -> None:
        del self.files[path]
        del self._stats[path]

    def is_folder(self, path: str) -> bool:
        return any(other.startswith(path + "/") for other in (*self.files, *self.others))

    def record(self, path: str) -> bytes:
        return encode_record(self.files[path], self._stats[path])

    def walk(
        self, ledger: Ledger | None, managed: ManagedPaths, compared: Collection[str]
    ) -> LiveDifferences:
        """The differences that a walk over all managed paths finds."""
        known = ledger if ledger is not None else Ledger()
        asked = {*known.files, *known.intended, *compared}
        inside = {path for path in (*self.files, *self.others) if managed.hold(path)} | self._below(asked)
        return LiveDifferences(self._found(inside | _with_ancestors(asked), known, asked), walked=True)

    def look(self, ledger: Ledger, compared: Collection[str]) -> LiveDifferences:
        """The differences at some paths and their ancestors, and below a folder in the place of a file."""
        return LiveDifferences(
            self._found(_with_ancestors(compared) | self._below(compared), ledger, compared)
        )

    def carry_out(self, plan: SyncPlan, ledger: Ledger | None) -> Ledger:
        """Apply a plan in its order, and return the resulting ledger."""
        for clearing in plan.clearings:
            self.delete(clearing.path)
        for write in plan.writes:
            if write.replaces != (write.path in self.files):
                raise OSError(f"{write.path} is not as the plan says")
            self.put(write.path, write.version)
        for mode in plan.modes:
            self.files[mode.path] = mode.version
            self._touch(mode.path)
        for deletion in plan.deletions:
            self.delete(deletion.path)
        records = dict(ledger.files) if ledger is not None else {}
        records |= plan.remembered
        records |= {write.path: self.record(write.path) for write in plan.writes}
        records |= {mode.path: self.record(mode.path) for mode in plan.modes}
        gone = plan.forgotten.union(delete.path for delete in plan.removals)
        facts = {field.name: getattr(plan.facts, field.name) for field in fields(LedgerFacts)}
        return Ledger(
            {path: kept for path, kept in records.items() if path not in gone},
            complete=plan.delivers_all,
            **facts,
        )

    def _below(self, paths: Collection[str]) -> set[str]:
        """Everything inside of folders that are in the place of these files."""
        folders = tuple(f"{path}/" for path in paths)
        return {path for path in (*self.files, *self.others) if path.startswith(folders)}

    def _found(
        self, paths: Iterable[str], ledger: Ledger, asked: Collection[str]
    ) -> dict[str, LiveEntry | None]:
        found: dict[str, LiveEntry | None] = {}
        for path in paths:
            if path in self.files:
                if ledger.files.get(path) != self.record(path):
                    version = self.files[path] if path in asked else None
                    found[path] = LiveEntry(LiveKind.FILE, version, self._stats[path])
            elif path in self.others:
                found[path] = LiveEntry(self.others[path])
            elif self.is_folder(path):
                if path in asked:
                    found[path] = LiveEntry(LiveKind.FOLDER)
            elif path in ledger.files:
                found[path] = None
        return found

    def _touch(self, path: str) -> None:
        self._time += 1
        stamp = (0, self._time, self._time, self._time, self.files[path].executable)
        self._stats[path] = STAT.pack(*stamp)


def _with_ancestors(paths: Collection[str]) -> set[str]:
    return {*paths, *(above for path in paths for above in RelPath.known(path).ancestors())}
