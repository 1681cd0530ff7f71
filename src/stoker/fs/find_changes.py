"""Finds the files of a data folder that differ from the ledger.

A file whose stamp is still that of the ledger counts as unchanged; any other file is read and identified by
its blob id, so an edit that keeps the date is found as well. Nothing is stored for unchanged files: a walk
over 100,000 of them uses no memory for its result. Symlinks are never followed; one above a managed place
is reported as what blocks that place. Folders of the gateway itself are not even listed.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Collection, Iterable

from stoker.domain.errors import InvalidValue, Retry
from stoker.domain.paths import MAX_DEPTH, RelPath
from stoker.domain.reasons import Reason
from stoker.engine.layout.protected_paths import PROTECTED_PATHS
from stoker.engine.plan.ledger import STAT, Ledger
from stoker.engine.plan.live import LiveDifferences, LiveEntry, LiveKind
from stoker.fs.clean_folders import CleanFolder, CleanFolderCache
from stoker.fs.data_folder import OPEN_FOLDER_FLAGS, DataFolder, os_error_reason
from stoker.fs.folder_cursor import DirWalk
from stoker.fs.hash_file import inspect_file
from stoker.fs.stop_check import StopCheck, never_stop, raise_if_stopped

_FORMAT, _REGULAR = 0o170000, 0o100000
_FOLDER = LiveEntry(LiveKind.FOLDER)
_FOREIGN_FILE = LiveEntry(LiveKind.FILE)

# Most folders need no full check: below the top levels such a name is neither reserved nor protected.
_PLAIN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_+-]*", re.ASCII).fullmatch
_TOP = max(pattern.count("/") for pattern in PROTECTED_PATHS.patterns if not pattern.startswith("**/."))
_DEEP = MAX_DEPTH // 2


def scan_folder(
    folder: DataFolder,
    ledger: Ledger,
    *,
    managed_folders: Collection[str] = (),
    managed_files: Collection[str] = (),
    compared: Collection[str] = (),
    walk: bool = True,
    digits: int = 40,
    visits: CleanFolderCache | None = None,
    stopped: StopCheck = never_stop,
) -> LiveDifferences:
    """Return the differences between the data folder and the ledger.

    `compared` are further paths whose content is needed, `digits` is the length of blob ids. With `walk`,
    everything in the managed places and everything in the ledger is checked; without it only `compared`.
    `visits` caches earlier walks over this folder.
    """
    compared = compared if isinstance(compared, (set, frozenset, dict)) else frozenset(compared)
    with DirWalk(folder.fd) as descent:
        scanner = _ChangeScanner(folder, descent, ledger, compared, digits, visits, stopped)
        if walk:
            scanner.walk(managed_folders, managed_files)
        else:
            scanner.look_at(compared)
    return LiveDifferences(scanner.found, frozenset(scanner.opaque), walked=walk)


class _ChangeScanner:
    def __init__(
        self,
        folder: DataFolder,
        descent: DirWalk,
        ledger: Ledger,
        compared: Collection[str],
        digits: int,
        visits: CleanFolderCache | None,
        stopped: StopCheck,
    ) -> None:
        self._folder = folder
        self._descent = descent
        self._files = ledger.files
        self._compared = compared
        self._digits = digits
        self._visits = visits
        self._stopped = stopped
        self._absent: set[str] = set()
        self._last = "", False
        self._unreadable: set[str] = set()
        self._seen = 0
        self.found: dict[str, LiveEntry | None] = {}
        self.opaque: set[str] = set()

    def walk(self, folders: Collection[str], files: Collection[str]) -> None:
        """Check everything in the managed places, then other paths whose state is needed."""
        places: list[str] = []
        # A folder may be in the place of a managed file. With the trailing slash it sorts right before its
        # content.
        for inside in sorted({f"{place}/" for place in (*folders, *files)}):
            if not places or not inside.startswith(f"{places[-1]}/"):
                places.append(inside[:-1])
        for place in places:
            self._place(place)
        walked = tuple(f"{place}/" for place in places)
        known = {*places}
        self.look_at(
            path
            for path in self._compared
            if path not in self._files
            and path not in known
            and (not path.startswith(walked) or self._is_hidden(path))
        )
        if self._seen < len(self._files):  # some files are elsewhere, or gone
            self.look_at(self._files)

    def look_at(self, paths: Iterable[str]) -> None:
        """Check these paths one by one, and whatever blocks them from above."""
        for path in sorted(paths):
            if path not in self.found:
                self._look(path)

    def _place(self, place: str) -> None:
        """Walk a managed place, which may be a folder, a file, or not exist yet."""
        entered = self._entered(place)
        if entered is None:
            return
        if place in self._files or place in self._compared:
            self._seen += place in self._files
            self.found[place] = _FOLDER
        try:
            self._list(entered, place, place.count("/") + 1)
        except OSError as error:
            raise self._unknown(place, error) from error

    def _entered(self, folder: str) -> int | None:
        """Open a folder; return None if it does not exist, after checking whatever is in its place."""
        if folder in self._absent:
            return None
        try:
            return self._descent.enter(folder)
        except FileNotFoundError:
            pass
        except NotADirectoryError:
            blocking = self._descent.next_of(folder)
            if blocking not in self._absent:
                self._absent.add(blocking)
                self._look(blocking)
        except OSError as error:
            raise self._unknown(folder, error) from error
        self._absent.add(folder)
        return None

    def _look(self, path: str) -> None:
        above, _, name = path.rpartition("/")
        if above != self._last[0]:
            self._last = above, PROTECTED_PATHS.matches(above)
        if self._last[1]:
            return
        fd = self._entered(above)
        try:
            if fd is None:
                raise FileNotFoundError
            self._entry(fd, name, path, os.stat(name, dir_fd=fd, follow_symlinks=False))
            if self.found.get(path) is _FOLDER and self._may_enter(path, above):
                self._descend(fd, name, path, path.count("/") + 1)
        except FileNotFoundError:
            if path in self._files:
                self.found[path] = None
        except OSError as error:
            raise self._unknown(path, error) from error

    def _list(self, fd: int, place: str, depth: int) -> bool:
        """Check everything in a folder; return True if all is as in the ledger. The hot loop of a walk."""
        raise_if_stopped(self._stopped)
        before = os.fstat(fd) if self._visits is not None else None
        inside = f"{place}/"
        recorded = self._files.get
        pack = STAT.pack
        folders: list[str] = []
        files: list[str] = []
        others = False
        with os.scandir(fd) as entries:
            for entry in entries:
                name = entry.name
                try:
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(name)
                        continue
                    there = entry.stat(follow_symlinks=False)
                    path = inside + name
                    mode = there.st_mode
                    kept = recorded(path)
                    if (
                        kept is not None
                        and mode & _FORMAT == _REGULAR
                        and kept.startswith(
                            pack(
                                there.st_size,
                                there.st_mtime_ns,
                                there.st_ctime_ns,
                                there.st_ino,
                                mode >> 6 & 1,
                            )
                        )
                    ):
                        files.append(name)
                        continue
                    others = True
                    if kept is not None or self._is_path(path, place):
                        self._entry(fd, name, path, there)
                except FileNotFoundError:  # deleted during the walk
                    others = True
                except OSError:  # a folder that can be listed and not entered
                    others = True
                    self._hide(place)
        self._seen += len(files)
        others |= not self._enter_all(fd, place, folders, depth)
        if self._visits is None or before is None:
            return False
        if others:
            self._visits.forget(place)
            return False
        return self._visits.keep(place, before, files, folders)

    def _enter_all(self, fd: int, place: str, folders: Iterable[str], depth: int) -> bool:
        """Check everything in the subfolders of a folder; return True if all is as in the ledger."""
        whole = True
        for name in folders:
            path = f"{place}/{name}"
            # Only a folder near the top, or with an unusual name, can be one that must not be entered.
            if not (_TOP < depth < _DEEP and _PLAIN(name)) and not self._may_enter(path, place):
                whole = False
                continue
            self._in_place_of_a_file(path)
            whole &= self._descend(fd, name, path, depth + 1)
        return whole

    def _revisit(self, visits: CleanFolderCache, path: str, known: CleanFolder, depth: int) -> bool:
        """Check a cached folder: its files and its subfolders, without listing it.

        It uses whole paths. None of them leads through a symlink: a folder that was replaced by one would
        have
        changed the times of the folder above. This is the second hot loop of a walk.
        """
        raise_if_stopped(self._stopped)
        fd, look, recorded, pack = self._folder.fd, os.lstat, self._files.get, STAT.pack
        inside = f"{path}/"
        try:
            for name in known.files:
                file = inside + name
                there = look(file, dir_fd=fd)
                mode, kept = there.st_mode, recorded(file)
                if (
                    kept is None
                    or mode & _FORMAT != _REGULAR
                    or not kept.startswith(
                        pack(there.st_size, there.st_mtime_ns, there.st_ctime_ns, there.st_ino, mode >> 6 & 1)
                    )
                ):
                    return self._open(path, depth)
            below = [(inside + name, look(inside + name, dir_fd=fd)) for name in known.folders]
        except OSError:  # deleted during the walk
            return self._open(path, depth)
        self._seen += len(known.files)
        whole = True
        for folder, there in below:
            self._in_place_of_a_file(folder)
            seen = visits.unchanged(folder, there)
            if seen is None:
                whole &= self._open(folder, depth + 1)
            else:
                whole &= self._revisit(visits, folder, seen, depth + 1)
        return whole

    def _open(self, path: str, depth: int) -> bool:
        """List a folder completely, because its cached state is outdated."""
        try:
            with self._folder.entered(path) as fd:
                return self._list(fd, path, depth)
        except OSError:
            self._hide(path)
            return False

    def _in_place_of_a_file(self, path: str) -> None:
        if path in self._files or path in self._compared:
            self._seen += path in self._files
            self.found[path] = _FOLDER

    def _may_enter(self, path: str, place: str) -> bool:
        if not self._is_path(path, place):
            return False
        if PROTECTED_PATHS.matches(path):
            self.opaque.add(path)
            return False
        return True

    def _descend(self, above: int, name: str, path: str, depth: int) -> bool:
        """Check a subfolder; return True if all in it is as in the ledger."""
        visits = self._visits
        try:
            if visits is not None and path in visits:
                known = visits.unchanged(path, os.stat(name, dir_fd=above, follow_symlinks=False))
                if known is not None:
                    return self._revisit(visits, path, known, depth)
            fd = os.open(name, OPEN_FOLDER_FLAGS, dir_fd=above)
        except OSError:  # unreadable, or replaced during the walk: its content is unknown
            self._hide(path)
            return False
        try:
            return self._list(fd, path, depth)
        finally:
            os.close(fd)

    def _entry(self, folder: int, name: str, path: str, there: os.stat_result) -> None:
        """Record one entry unless it is as in the ledger."""
        kept = self._files.get(path)
        self._seen += kept is not None
        kind = _live_kind(there)
        if kind is LiveKind.FOLDER:
            if kept is not None or path in self._compared:
                self.found[path] = _FOLDER
        elif kind is not LiveKind.FILE:
            self.found[path] = LiveEntry(kind)
        elif kept is None and path not in self._compared:
            self.found[path] = _FOREIGN_FILE
        else:
            live = inspect_file(folder, name, there, kept, digits=self._digits)
            if live is not None:
                self.found[path] = live

    def _is_path(self, path: str, place: str) -> bool:
        """Whether a name on disk is a valid path; if not, record that its folder has more than is listed."""
        try:
            RelPath(path)
        except InvalidValue:
            self.opaque.add(place)
            return False
        return True

    def _hide(self, folder: str) -> None:
        self.opaque.add(folder)
        self._unreadable.add(folder)

    def _is_hidden(self, path: str) -> bool:
        """Whether a path is below a folder that the walk could not read."""
        return bool(self._unreadable) and path.startswith(tuple(f"{f}/" for f in self._unreadable))

    def _unknown(self, path: str, error: OSError) -> Retry:
        """Return the error for an unreadable path: without its state no plan may be made."""
        return Retry(
            f"{self._folder.place / path} {os_error_reason(error)}", reason=Reason.DATA_VOLUME_FAILED
        )


def _live_kind(found: os.stat_result) -> LiveKind:
    if stat.S_ISREG(found.st_mode):
        return LiveKind.FILE
    if stat.S_ISDIR(found.st_mode):
        return LiveKind.FOLDER
    return LiveKind.SYMLINK if stat.S_ISLNK(found.st_mode) else LiveKind.SPECIAL
