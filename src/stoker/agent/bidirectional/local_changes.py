"""Tracks which capturable files differ from the ledger, while reading as little as possible.

Each look compares the disk with the ledger and the differences already known. So a changed file is read once
and not at every look, and a look at one path costs no more than that path. A walk over everything finds
changes of which the kernel reported no event.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from stoker.agent.bidirectional.holds import version_id
from stoker.agent.sync.threads import run_in_thread
from stoker.domain.errors import InvalidValue
from stoker.domain.git_objects import BlobId, FileVersion
from stoker.domain.paths import RelPath
from stoker.engine.layout.reverse_map import CapturablePaths, gateway_changes
from stoker.engine.plan.ledger import STAT, Ledger, encode_record
from stoker.engine.plan.live import LiveDifferences, LiveKind
from stoker.fs.clean_folders import CleanFolderCache
from stoker.fs.data_folder import DataFolder
from stoker.fs.exec_bit_support import supports_modes
from stoker.fs.find_changes import scan_folder
from stoker.fs.stop_check import StopCheck
from stoker.fs.watch.paths import ChangedPaths

UNREAD_VERSION = FileVersion(str.__new__(BlobId, "unread"))
"""A placeholder for content that could not be read; it must not be overwritten."""

MAX_MODE_CHANGES = 50
"""Mode-only changes above this number are ignored: they come from a script, not from an edit."""


class LocalChanges:
    """The known differences of one data folder; one look at a time."""

    def __init__(self, allowed: CapturablePaths) -> None:
        self.allowed = allowed
        self.modes: bool | None = None
        """Whether the filesystem stores the executable bit; None before the first look."""
        self.unread: set[str] = set()
        """Files that could not be read or changed meanwhile; the next look reads them again."""
        self._seen: dict[str, bytes | None] = {}
        """Records of files that differ from the ledger; None for a missing file."""
        self._touched: dict[str, bytes] = {}
        """Records of files with the ledger's content but another stamp, so that they are not read again."""
        self._visits = CleanFolderCache()
        self._walked = False

    def changes(self, ledger: Ledger) -> dict[str, FileVersion | None]:
        found = gateway_changes(self._seen, ledger, self.allowed, modes=bool(self.modes))
        alone = [path for path, version in found.items() if _has_same_content(version, ledger.version(path))]
        if len(alone) > MAX_MODE_CHANGES:
            for path in alone:
                del found[path]
        return found

    def undone(self, recorded: Mapping[str, str], ledger: Ledger) -> dict[str, FileVersion | None]:
        """Return changes that git recorded and that were reverted on the gateway, not by the agent."""
        found: dict[str, FileVersion | None] = {}
        for path, blob in recorded.items() if self._walked else ():
            ours = ledger.version(path)
            if path in self._seen or not self.allowed.takes(path):
                continue
            if ours is None and blob:
                found[path] = None
            elif ours is not None and version_id(ours) != blob and path in self._touched:
                found[path] = ours
        return found

    def forget(self, paths: Collection[str]) -> None:
        """Forget these paths: the agent has written them, so they equal the ledger."""
        for path in paths:
            self._seen.pop(path, None)
            self._touched.pop(path, None)

    async def walk(self, folder: DataFolder, ledger: Ledger) -> None:
        """Look at all capturable paths."""
        await run_in_thread(lambda stop: self._walk(folder, ledger, stop.is_set))
        self._walked = True

    async def look(self, folder: DataFolder, ledger: Ledger, noticed: ChangedPaths) -> None:
        """Look at the noticed paths and nothing else."""
        paths = {path for path in (*noticed.paths, *self.unread) if self._is_one(path)}
        for place in noticed.folders:
            inside = f"{place}/"
            paths.add(place)
            paths.update(path for path in ledger.files if path.startswith(inside) and self._is_one(path))
            paths.update(path for path in self._seen if path.startswith(inside))
        if paths:
            await run_in_thread(lambda stop: self._look(folder, ledger, paths, stop.is_set))

    async def check(self, folder: DataFolder, ledger: Ledger, paths: Iterable[str]) -> None:
        """Look at these paths now, as far as they can be captured."""
        await self.look(folder, ledger, ChangedPaths(frozenset(paths)))

    def _is_one(self, path: str) -> bool:
        try:
            RelPath(path)
        except InvalidValue:
            return False
        return self.allowed.takes(path)

    def _walk(self, folder: DataFolder, ledger: Ledger, stopped: StopCheck) -> None:
        self._learn(folder)
        roots = [root for one in self.allowed.roots for root in ([one] if one else self._top(folder))]
        known = self._known(ledger, roots)
        live = scan_folder(
            folder,
            known,
            managed_folders=roots,
            digits=_blob_id_digits(ledger),
            visits=self._visits,
            stopped=stopped,
        )
        self.unread.clear()
        self._take(folder, ledger, live, stopped)

    def _learn(self, folder: DataFolder) -> None:
        if self.modes is None:
            self.modes = supports_modes(folder)

    def _look(self, folder: DataFolder, ledger: Ledger, paths: Collection[str], stopped: StopCheck) -> None:
        self._learn(folder)
        known = self._known(ledger, None)
        live = scan_folder(
            folder,
            known,
            compared=frozenset(paths),
            walk=False,
            digits=_blob_id_digits(ledger),
            stopped=stopped,
        )
        self.unread.difference_update(paths)
        self._take(folder, ledger, live, stopped)

    def _take(self, folder: DataFolder, ledger: Ledger, live: LiveDifferences, stopped: StopCheck) -> None:
        """Record the result of a look; read unmanaged files only if they can be captured."""
        strangers = {
            path
            for path, entry in live.found.items()
            if entry is not None
            and entry.kind is LiveKind.FILE
            and entry.version is None
            and path not in ledger.kept
            and self.allowed.takes(path)
        }
        found = dict(live.found)
        if strangers:
            more = scan_folder(
                folder,
                self._known(ledger, None),
                compared=strangers,
                walk=False,
                digits=_blob_id_digits(ledger),
                stopped=stopped,
            )
            found.update({path: entry for path, entry in more.found.items() if path in strangers})
        for path, entry in found.items():
            if not self.allowed.takes(path):
                continue
            if entry is None or entry.kind is LiveKind.FOLDER:
                self._gone(path, ledger)
            elif entry.kind is LiveKind.FILE and entry.version is not None:
                self._is(path, encode_record(entry.version, entry.stat), ledger)
            elif entry.kind is LiveKind.FILE:
                self.unread.add(path)
            else:  # a link or a device has no content: it is neither sent nor taken for a deletion
                self._seen.pop(path, None)

    def _is(self, path: str, kept: bytes, ledger: Ledger) -> None:
        if self._same(ledger.files.get(path), kept):
            self._seen.pop(path, None)
            self._touched[path] = kept
        else:
            self._touched.pop(path, None)
            self._seen[path] = kept

    def _gone(self, path: str, ledger: Ledger) -> None:
        self._touched.pop(path, None)
        if path in ledger.files:
            self._seen[path] = None
        else:
            self._seen.pop(path, None)

    def _known(self, ledger: Ledger, roots: Collection[str] | None) -> Ledger:
        """Return the ledger as if the agent had written all known differences."""
        files = dict(ledger.files)
        self._touched = {path: it for path, it in self._touched.items() if self._same(files.get(path), it)}
        files.update(self._touched)
        if roots is not None:
            insides = tuple(f"{root}/" for root in roots)
            files = {path: it for path, it in files.items() if path.startswith(insides) or path in roots}
        for path, kept in self._seen.items():
            if kept is None:
                files.pop(path, None)
            else:
                files[path] = kept
        return replace(ledger, files=files)

    def _same(self, ours: bytes | None, kept: bytes) -> bool:
        """Return whether two records have equal content and executable flag, whatever their stamps."""
        if ours is None or ours[STAT.size :] != kept[STAT.size :]:
            return False
        return not self.modes or ours[STAT.size - 1] == kept[STAT.size - 1]

    def _top(self, folder: DataFolder) -> list[str]:
        """Return the entries of the data folder itself that can be captured or contain such paths."""
        with os.scandir(folder.fd) as entries:
            names = [entry.name for entry in entries]
        return [name for name in names if self.allowed.enters(name) or self._is_one(name)]


def _has_same_content(version: FileVersion | None, ours: FileVersion | None) -> bool:
    """Return whether only the mode differs."""
    return version is not None and ours is not None and version.blob == ours.blob


def _blob_id_digits(ledger: Ledger) -> int:
    return len(ledger.commit) or 40
