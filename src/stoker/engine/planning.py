"""From what shall be, what is, and what we wrote before to a plan.

A pure function. It deletes only what the ledger names and nothing desires any
more; without a ledger (first contact) it deletes nothing. With `orphans: mirror`
a file in a managed folder that we did not write is reported as `orphans_kept` and
stays, exactly as with `owned`: this version never deletes a stranger's file.

What it will not do is overwrite by surprise: a symlink, a device, or a folder with
a stranger's file where a file shall be is a conflict, named and left alone. Beside
a file that cannot be delivered the `resource.json` is held back with it, because
it would tell the gateway that the resource is complete; and the one that lies there
keeps the files that it names.
"""

from __future__ import annotations

from stoker.domain.intent.files import DeletionPolicy, Orphans
from stoker.domain.paths import RelPath
from stoker.engine.ledger import Ledger, Live, LiveEntry, LiveKind
from stoker.engine.mapping import Desired
from stoker.engine.objects import FileVersion, Note
from stoker.engine.plans import RESOURCE_MANIFEST, Delete, Plan, SetMode, Write


def plan(desired: Desired, live: Live, ledger: Ledger | None, deletion: DeletionPolicy) -> Plan:
    """What has to happen so that the managed places hold the desired files."""
    return _Planner(desired, live, ledger or Ledger(), deletion).plan()


class _Planner:
    """Holds the three sides while the plan is put together."""

    def __init__(self, desired: Desired, live: Live, ledger: Ledger, deletion: DeletionPolicy) -> None:
        self._desired = desired
        self._live = live
        self._ledger = ledger
        self._deletion = deletion
        self._owned = ledger.owned(live)
        self._deletable = frozenset(
            path
            for path in self._owned
            if path not in desired.files and not desired.protection.covers(path) and not self._kept(path)
        )
        self._clearings: set[RelPath] = set()
        self._writes: list[Write] = []
        self._modes: list[SetMode] = []
        self._conflicts: dict[RelPath, str] = {}
        self._in_the_way: dict[RelPath, str | None] = {RelPath(""): None}
        self._unfinished: frozenset[RelPath] = frozenset()

    def plan(self) -> Plan:
        for path, version in self._desired.files.items():
            self._decide(path, version)
        self._hold_back_manifests()
        return Plan(
            clearings=tuple(Delete(path) for path in sorted(self._clearings)),
            writes=tuple(sorted(self._writes, key=lambda w: (w.path.name == RESOURCE_MANIFEST, w.path))),
            modes=tuple(sorted(self._modes, key=lambda m: m.path)),
            deletions=tuple(
                Delete(path)
                for path in sorted(
                    self._deletable - self._clearings, key=lambda p: (p.name != RESOURCE_MANIFEST, p)
                )
                if path.parent not in self._unfinished
            ),
            skipped=self._desired.skipped,
            refused=self._desired.refused,
            conflicts=self._desired.conflicts
            + tuple(Note(path, why) for path, why in sorted(self._conflicts.items())),
            orphans_kept=tuple(sorted(self._orphans())),
            before=self._before(),
            prunable=self._desired.managed.folders | self._ledger.folders,
        )

    def _decide(self, path: RelPath, version: FileVersion) -> None:
        blocked = self._blocked_above(path.parent)
        if blocked is not None:
            self._conflicts[path] = blocked
            return
        there = self._live.entries.get(path)
        if there is None:
            self._writes.append(Write(path, version, replaces=False))
        elif there.kind is LiveKind.FOLDER:
            self._replace_folder(path, version)
        elif there.kind is not LiveKind.FILE:
            self._conflicts[path] = f"is a {there.kind} on the data volume, which is never replaced"
        elif there.blob != version.blob:
            self._writes.append(Write(path, version, replaces=True))
        elif there.executable != version.executable:
            self._modes.append(SetMode(path, version))

    def _blocked_above(self, folder: RelPath) -> str | None:
        """Why nothing can be written in a folder; remembered, because siblings ask the same."""
        if folder not in self._in_the_way:
            above = self._blocked_above(folder.parent)
            self._in_the_way[folder] = above if above is not None else self._blocked_at(folder)
        return self._in_the_way[folder]

    def _blocked_at(self, folder: RelPath) -> str | None:
        there = self._live.entries.get(folder)
        if there is None or there.kind is LiveKind.FOLDER:
            return None
        if folder in self._deletable:
            self._clearings.add(folder)
            return None
        return f"cannot be written: {folder} is a {there.kind} on the data volume, not a folder"

    def _replace_folder(self, path: RelPath, version: FileVersion) -> None:
        inside = list(self._live.below(path))
        stranger = next((p for p, entry in inside if not self._may_go(p, entry)), None)
        if stranger is not None or path in self._live.opaque:
            what = f"{stranger}, which we did not write" if stranger is not None else "what is not ours"
            self._conflicts[path] = f"is a folder on the data volume and holds {what}"
            return
        self._clearings.update(p for p, entry in inside if entry.kind is LiveKind.FILE)
        self._writes.append(Write(path, version, replaces=False))

    def _may_go(self, path: RelPath, entry: LiveEntry) -> bool:
        if entry.kind is LiveKind.FOLDER:
            return path not in self._live.opaque
        return entry.kind is LiveKind.FILE and path in self._deletable

    def _hold_back_manifests(self) -> None:
        troubled = self._desired.incomplete.union(path.parent for path in self._conflicts)
        self._unfinished = troubled.intersection(
            path.parent
            for path, entry in self._live.entries.items()
            if path.name == RESOURCE_MANIFEST and entry.kind is LiveKind.FILE
        )
        held = [w for w in self._writes if w.path.name == RESOURCE_MANIFEST and w.path.parent in troubled]
        for write in held:
            self._conflicts[write.path] = "is held back: a file of the same resource cannot be written"
        self._writes = [write for write in self._writes if write.path not in self._conflicts]

    def _kept(self, path: RelPath) -> bool:
        while path not in self._desired.kept:
            if not path:
                return False
            path = path.parent
        return True

    def _orphans(self) -> set[RelPath]:
        if self._deletion.orphans is not Orphans.MIRROR:
            return set()
        known = self._owned.keys() | self._desired.files.keys()
        return {
            path
            for folder in self._desired.managed.folders
            for path, entry in self._live.below(folder)
            if entry.kind is not LiveKind.FOLDER
            and path not in known
            and not self._desired.protection.covers(path)
            and not self._kept(path)
        }

    def _before(self) -> Ledger:
        """A file that already has the desired content counts as ours: a crash may have hidden that it is."""
        adopted = {
            path: FileVersion(version.blob, self._live.entries[path].executable)
            for path, version in self._desired.files.items()
            if self._live.blob(path) == version.blob
        }
        return Ledger(
            files=self._owned | adopted,
            mappings=self._desired.delivered,
            folders=self._desired.managed.folders | self._to_be_emptied(),
        )

    def _to_be_emptied(self) -> set[RelPath]:
        """Folders of the last pass that are still to go, should this one not get as far as its deletions."""
        above: set[RelPath] = set()
        for path in self._deletable:
            folder = path.parent
            while folder and folder not in above:
                above.add(folder)
                folder = folder.parent
        return above & self._ledger.folders
