"""Makes the plan from the desired files, the live files and the ledger.

A pure function. It deletes files that the ledger names and that are no longer desired. A file of others in
a managed folder stays; with `orphans: mirror` it is deleted too (`stoker.engine.plan.orphans`). Without a
ledger, or with `first_contact`, it deletes nothing.

It never overwrites unexpectedly: a symlink, a device, or a folder with content that must stay, in the place
of a desired file, is a conflict, which the plan lists and leaves alone. If a file of a resource cannot be
delivered, its `resource.json` is held back too, because it would declare the resource complete to the
gateway. As long as the old `resource.json` is on disk, the files that it names are not deleted.

A partial `DesiredFiles` lists only changed files. All other files shall be as in the ledger, and the
planner looks at them only where the live side reports a difference.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from operator import itemgetter

from stoker.domain.git_objects import FileVersion, PathNote
from stoker.domain.intent.files import DeletionPolicy
from stoker.domain.paths import RelPath
from stoker.engine.layout.desired_files import DesiredFiles
from stoker.engine.match.globs import PathBatch, folders_above
from stoker.engine.plan.ledger import STAT, Ledger, encode_record
from stoker.engine.plan.live import LiveDifferences, LiveEntry, LiveKind
from stoker.engine.plan.mapping_changes import abandoned_places
from stoker.engine.plan.orphans import ForeignFiles
from stoker.engine.plan.plan import (
    RESOURCE_MANIFEST,
    DeleteFile,
    LedgerFacts,
    SetFileMode,
    SyncPlan,
    WriteFile,
    deletion_order,
)
from stoker.engine.plan.skipped import SkippedContent

_AS_FILE = LiveEntry(LiveKind.FILE)


def make_plan(
    desired: DesiredFiles,
    live: LiveDifferences,
    ledger: Ledger | None,
    deletion: DeletionPolicy,
    *,
    commit: str = "",
    first_contact: bool = False,
) -> SyncPlan:
    """Return the actions after which the managed places contain the desired files.

    `first_contact`: others filled the folder although there is a ledger, so nothing is deleted this time,
    and files that are not ours wait for approval.
    """
    first_contact = first_contact or ledger is None
    planner = _Planner(desired, live, ledger or Ledger(), deletion, first_contact=first_contact)
    made = planner.plan()
    return replace(made, facts=replace(made.facts, commit=commit))


class _Planner:
    """Holds desired files, live files and ledger while the plan is made."""

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
        self._ours = frozenset(self._obsolete())
        self._strangers = ForeignFiles(desired, live, ledger, deletion, first_contact=first_contact)
        self._covered = desired.protection.covering(PathBatch(self._ours)) if self._ours else set()
        mine = {path for path in self._ours if path not in self._covered and not self._is_kept(path)}
        self._mine = frozenset() if first_contact else frozenset(mine)
        self._deletable = self._mine | self._strangers.deletable
        self._abandoned = abandoned_places(desired, ledger)
        self._clearings: set[str] = set()
        self._writes: list[WriteFile] = []
        self._modes: list[SetFileMode] = []
        self._remembered: dict[str, bytes] = {}
        self._conflicts: dict[str, str] = {}
        self._in_the_way: dict[str, str | None] = {"": None}

    def plan(self) -> SyncPlan:
        self._compare()
        troubled = self._desired.incomplete.union(path.rpartition("/")[0] for path in self._conflicts)
        self._hold_back_manifests(troubled)
        manifests = {folder: _manifest_path(folder) for folder in troubled}
        unfinished = {
            f for f, path in manifests.items() if self._is_file(path) and path not in self._clearings
        }
        going = [p for p in self._deletable - self._clearings if p.rpartition("/")[0] not in unfinished]
        desired = self._desired
        return SyncPlan(
            clearings=tuple(DeleteFile(RelPath.known(path)) for path in sorted(self._clearings)),
            writes=_data_before_manifests(self._writes),
            modes=tuple(sorted(self._modes)),
            deletions=tuple(sorted((DeleteFile(RelPath.known(path)) for path in going), key=deletion_order)),
            skipped=desired.skipped + desired.excluded + self._strangers.left,
            refused=desired.refused,
            conflicts=desired.conflicts
            + tuple(PathNote(path, why) for path, why in sorted(self._conflicts.items())),
            orphans_kept=tuple(map(RelPath.known, sorted(self._strangers.kept))),
            not_ours=tuple(map(RelPath.known, sorted(self._strangers.welcome))),
            remembered=self._remembered,
            forgotten=frozenset(self._forgotten()),
            facts=self._facts(self._clearings.union(going)),
            prunable=desired.managed.folders | self._ledger.folders,
            abandoned=self._abandoned,
            lingering=bool(desired.kept) or not self._ours <= self._clearings.union(going, self._covered),
        )

    def _obsolete(self) -> Iterable[str]:
        """Return the files of ours that are on disk and that nothing desires."""
        desired, ledger = self._desired, self._ledger
        if desired.partial:
            paths = {path for path in desired.removed if path in ledger.files}
        else:
            paths = ledger.files.keys() - desired.files.keys()
        if self._live.found:
            paths = {path for path in paths if self._is_file(path)}
        reached = {
            path
            for path, version in ledger.intended.items()
            if path not in desired.files and self._holds(path, version)
        }
        return paths | reached

    def _compare(self) -> None:
        """Compare every desired file with the live one: the loop in which planning spends its time."""
        found, records, known, size = self._live.found, self._ledger.files, RelPath.known, STAT.size
        folder, blocked = "", None
        for path, version in self._desired.files.items():
            kept = records.get(path)
            if path in found:
                self._decide(path, version)
            elif kept is None:
                above = path.rpartition("/")[0]
                if above != folder:
                    folder, blocked = above, self._blocked_above(above)
                if blocked is None:
                    self._writes.append(WriteFile(known(path), version, replaces=False))
                else:
                    self._conflicts[path] = blocked
            elif kept[size:].hex() != version.blob:
                self._writes.append(WriteFile(known(path), version, replaces=True))
            elif kept[size - 1] != version.executable:
                self._modes.append(SetFileMode(known(path), version))
        if self._desired.partial:
            self._restore()

    def _restore(self) -> None:
        """Plan to restore files that others changed and whose desired content did not change."""
        named = self._desired.paths
        for path in self._live.found:
            version = self._ledger.version(path) if path not in named else None
            if version is not None and not self._is_kept(path) and not self._desired.protection.covers(path):
                self._decide(path, version)

    def _decide(self, path: str, version: FileVersion) -> None:
        blocked = self._blocked_above(path.rpartition("/")[0])
        if blocked is not None:
            self._conflicts[path] = blocked
            return
        there = self._at(path)
        if there is None:
            self._writes.append(WriteFile(RelPath.known(path), version, replaces=False))
        elif there.kind is LiveKind.FOLDER:
            self._replace_folder(path, version)
        elif there.kind is not LiveKind.FILE:
            self._conflicts[path] = f"is a {there.kind} on the data volume, which is never replaced"
        elif there.version is None or there.version.blob != version.blob:
            self._writes.append(WriteFile(RelPath.known(path), version, replaces=True))
        elif there.version.executable != version.executable:
            self._modes.append(SetFileMode(RelPath.known(path), version))
        elif self._ledger.files.get(path) != (seen := encode_record(version, there.stat)):
            self._remembered[path] = seen

    def _blocked_above(self, folder: str) -> str | None:
        """Return why no file can be written in a folder; cached, because siblings need the same answer."""
        if folder not in self._in_the_way:
            above = self._blocked_above(folder.rpartition("/")[0])
            self._in_the_way[folder] = above if above is not None else self._blocked_at(folder)
        return self._in_the_way[folder]

    def _blocked_at(self, folder: str) -> str | None:
        there = self._at(folder)
        if there is None or there.kind is LiveKind.FOLDER:
            return None
        if folder in self._deletable:
            self._clearings.add(folder)
            return None
        return f"cannot be written: {folder} is a {there.kind} on the data volume, not a folder"

    def _replace_folder(self, path: str, version: FileVersion) -> None:
        inside = list(self._live.below(path, self._ledger))
        stranger = next((p for p, entry in inside if not self._may_go(p, entry)), None)
        if stranger is not None or path in self._live.opaque:
            what = f"{stranger}, which we did not write" if stranger is not None else "what is not ours"
            self._conflicts[path] = f"is a folder on the data volume and holds {what}"
            return
        self._clearings.update(p for p, entry in inside if entry.kind is LiveKind.FILE)
        self._writes.append(WriteFile(RelPath.known(path), version, replaces=False))

    def _may_go(self, path: str, entry: LiveEntry) -> bool:
        if entry.kind is LiveKind.FOLDER:
            return path not in self._live.opaque
        return entry.kind is LiveKind.FILE and path in self._deletable

    def _hold_back_manifests(self, troubled: frozenset[str]) -> None:
        for write in self._writes if troubled else ():
            if write.path.name == RESOURCE_MANIFEST and write.path.parent in troubled:
                self._conflicts[write.path] = "is held back: a file of the same resource cannot be written"
        if self._conflicts:
            self._writes = [write for write in self._writes if write.path not in self._conflicts]

    def _forgotten(self) -> Iterable[str]:
        written = {write.path for write in self._writes}
        for path in self._live.found:
            if path in self._ledger.files and not self._is_file(path) and path not in written:
                yield path
        if self._live.walked and not self._ledger.complete:
            # An interrupted sync may have deleted them and left the folders that it emptied.
            yield from (path for path in self._ledger.kept if path not in self._live.found)

    def _facts(self, gone: Collection[str]) -> LedgerFacts:
        desired, ledger = self._desired, self._ledger
        managed: frozenset[str] = desired.managed.folders
        if not self._live.walked:  # files in a folder that was not walked must not count as new later
            managed &= ledger.folders
        folders = managed | (folders_above(self._mine) & ledger.folders)
        skipped = SkippedContent.of(desired.skipped)
        return LedgerFacts(
            settings=desired.settings,
            mappings=desired.delivered,
            folders=folders,
            kept=self._strangers.remembered(folders),
            excludes=desired.excludes,
            mirrored=self._strangers.mirrored(folders),
            given=desired.given,
            # A partial layout contains only changes, so the skipped content is that of the ledger.
            skipped=ledger.skipped if desired.partial else skipped.texts,
            skipped_total=ledger.skipped_total if desired.partial else skipped.total,
            unmapped=self._unmapped(gone),
        )

    def _unmapped(self, gone: Collection[str]) -> frozenset[str]:
        """Files of removed mappings that stay in this sync: what keeps them may end without an approval."""
        before = (path for path in self._ledger.unmapped if path not in self._desired.files)
        staying = self._ours.difference(gone)
        now = (path for path in staying if self._abandoned.hold(RelPath.known(path)))
        return frozenset((*before, *now)).difference(gone)

    def _at(self, path: str) -> LiveEntry | None:
        if path in self._live.found:
            return self._live.found[path]
        return _AS_FILE if path in self._ledger.files else None

    def _is_file(self, path: str) -> bool:
        there = self._at(path)
        return there is not None and there.kind is LiveKind.FILE

    def _holds(self, path: str, version: FileVersion) -> bool:
        there = self._live.found.get(path)
        return there is not None and there.version is not None and there.version.blob == version.blob

    def _is_kept(self, path: str) -> bool:
        kept = self._desired.kept
        if not kept:
            return False
        own = RelPath.known(path)
        return "" in kept or own in kept or any(folder in kept for folder in own.ancestors())


def _manifest_path(folder: str) -> str:
    return f"{folder}/{RESOURCE_MANIFEST}" if folder else RESOURCE_MANIFEST


def _data_before_manifests(writes: list[WriteFile]) -> tuple[WriteFile, ...]:
    inside = f"/{RESOURCE_MANIFEST}"
    ordered = sorted(writes, key=itemgetter(0))
    data = [write for write in ordered if not f"/{write.path}".endswith(inside)]
    manifests = [write for write in ordered if f"/{write.path}".endswith(inside)] if data != ordered else []
    return (*data, *manifests)
