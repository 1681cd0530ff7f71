"""Changes live files: one method per kind of action in a plan.

`stoker.fs.apply_plan` calls it. Every access is by descriptor, and every failure is recorded as the failure
of that file. It tracks which folders have to be made durable, and the ledger records of published files: a
rename changes the stamp of a file, so `look_again` reads the stamps from disk at the end.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Collection, Iterable, Sequence

from stoker.domain.failpoints import reach_failpoint
from stoker.domain.paths import RelPath
from stoker.engine.plan.ledger import STAT, encode_record, recorded_stat
from stoker.engine.plan.plan import RESOURCE_MANIFEST, DeleteFile, SetFileMode
from stoker.fs.data_folder import (
    DataFolder,
    open_folder,
    os_error_reason,
    publish_file,
    remove_empty_folder,
    remove_file,
    set_mode,
    sync_volume,
)
from stoker.fs.file_rules import FileRules
from stoker.fs.folder_cursor import DirWalk
from stoker.fs.staging import HELD_BACK_MESSAGE, SYNC_EACH, StagingArea, StagingProgress
from stoker.fs.stat_stamp import encode_stamp, trusted_stamp, unseen_stamp, wait_until_at_rest
from stoker.fs.stop_check import StopCheck, raise_if_stopped

_EXISTS_ERRNOS = (errno.ENOTEMPTY, errno.EEXIST)


class LiveFileWriter:
    """Writes, changes and deletes files of one data folder."""

    def __init__(self, folder: DataFolder, rules: FileRules, stopped: StopCheck) -> None:
        self.errors: dict[str, str] = {}
        self.records: dict[str, bytes] = {}
        """The new ledger record of each changed file."""
        self.bytes_written = 0
        self.deleted: list[RelPath] = []
        self._folder = folder
        self._rules = rules
        self._stopped = stopped
        self._touched: set[str] = set()

    def publish_trees(self, staged: StagingArea) -> list[str]:
        """Rename new folders into place.

        Return the files of folders that another process created meanwhile.
        """
        left: list[str] = []
        if sum(len(tree.paths) for tree in staged.trees.values()) > SYNC_EACH:
            # Otherwise every later walk would read the youngest of them again.
            wait_until_at_rest(staged.filled_at)
        with DirWalk(self._folder.fd, self._make) as live:
            for top, (staged_as, paths) in staged.trees.items():
                raise_if_stopped(self._stopped)
                if not paths:
                    continue
                above, _, name = top.rpartition("/")
                now = time.time_ns()
                try:
                    if not _rename_folder(staged.fd, staged_as, live.enter(above), name):
                        left += paths
                        continue
                except OSError as error:
                    self.errors |= dict.fromkeys(paths, os_error_reason(error))
                    continue
                self._touched.add(above)
                for path in paths:
                    self._wrote(path, staged, now)
        return left

    def publish_files(
        self, staged: StagingArea, paths: Sequence[str], progress: StagingProgress | None
    ) -> None:
        """Rename files into place, one by one and in this order."""
        troubled = {path.rpartition("/")[0] for path in self.errors}
        with DirWalk(self._folder.fd, self._make) as live, DirWalk(staged.fd) as inside:
            for number, path in enumerate(paths):
                raise_if_stopped(self._stopped)
                above, _, name = path.rpartition("/")
                if name == RESOURCE_MANIFEST and above in troubled:
                    self.errors.setdefault(path, HELD_BACK_MESSAGE)
                    continue
                folder, _, source = staged.location(path).rpartition("/")
                try:
                    publish_file(inside.enter(folder), source, live.enter(above), name)
                except OSError as error:
                    self.errors[path] = os_error_reason(error)
                    continue
                self._touched.add(above)
                self._wrote(path, staged)
                if progress is not None:
                    progress("publishing", number + 1, len(paths))

    def set_modes(self, changes: Iterable[SetFileMode]) -> None:
        with DirWalk(self._folder.fd) as live:
            for path, version in changes:
                raise_if_stopped(self._stopped)
                above, _, name = path.rpartition("/")
                try:
                    set_mode(live.enter(above), name, self._rules.mode(version.mode))
                except OSError as error:
                    self.errors[path] = os_error_reason(error)
                else:
                    self.records[str(path)] = encode_record(version, unseen_stamp(version.executable))

    def delete(self, deletions: Sequence[DeleteFile], prunable: Collection[str]) -> None:
        emptied: set[str] = set()
        try:
            with DirWalk(self._folder.fd) as live:
                for (path,) in deletions:
                    raise_if_stopped(self._stopped)
                    above, _, name = path.rpartition("/")
                    try:
                        remove_file(live.enter(above), name)
                    except FileNotFoundError:  # its folder is gone too
                        pass
                    except OSError as error:
                        self.errors[path] = os_error_reason(error)
                        continue
                    self.deleted.append(path)
                    emptied.add(above)
        finally:  # also after a stop: no later step would remove an empty folder
            self._touched |= emptied
            self.prune(emptied, prunable)

    def prune(self, folders: Iterable[str], prunable: Collection[str]) -> None:
        """Remove emptied folders, up to the folder of a mapping and never above it."""
        with DirWalk(self._folder.fd) as live:
            for emptied in sorted(folders, reverse=True):
                folder = emptied
                while any(f"{folder}/".startswith(f"{top}/") for top in prunable):
                    above, _, name = folder.rpartition("/")
                    try:
                        if not remove_empty_folder(live.enter(above), name):
                            break
                    except FileNotFoundError:  # its folder is gone too
                        pass
                    except OSError:
                        break
                    self._touched.add(above)
                    folder = above

    def flush(self) -> None:
        """Make the names durable in all folders that changed since the last flush."""
        touched, self._touched = sorted(self._touched), set()
        if not touched:
            return
        reach_failpoint("flush.before")
        if len(touched) > SYNC_EACH:
            sync_volume(self._folder.fd)
        else:
            with DirWalk(self._folder.fd) as live:
                for folder in touched:
                    try:
                        os.fsync(live.enter(folder))
                    except (FileNotFoundError, NotADirectoryError):
                        # The folder was deleted since; its parent is in `touched` and is synced instead.
                        continue
        reach_failpoint("flush.after")

    def look_again(self, paths: Iterable[str]) -> None:
        """Read the stamps of renamed files at their destination, if those are still the moved files."""
        now = time.time_ns()
        with DirWalk(self._folder.fd) as live:
            for path in sorted(paths):
                moved = self.records[path]
                above, _, name = path.rpartition("/")
                found = unseen_stamp(bool(moved[STAT.size - 1]))
                try:
                    there = encode_stamp(os.stat(name, dir_fd=live.enter(above), follow_symlinks=False))
                    if _same_but_moved(moved, there):
                        found = trusted_stamp(there, now)
                except OSError:
                    pass
                self.records[path] = found + moved[STAT.size :]

    def _wrote(self, path: str, staged: StagingArea, now: int | None = None) -> None:
        kept = staged.records.pop(path)
        self.bytes_written += STAT.unpack_from(kept)[0]
        self.records[path] = kept if now is None else trusted_stamp(kept, now)

    def _make(self, above: int, name: str, path: str) -> int:
        reach_failpoint("mkdir.before")
        fd = self._rules.make_folder(above, name)
        reach_failpoint("mkdir.after")
        self._touched.add(path.rpartition("/")[0])
        return fd


def _rename_folder(source: int, staged: str, above: int, name: str) -> bool:
    """Rename a folder to its destination; return False if a folder exists there by now."""
    try:
        os.close(open_folder(above, name))
    except FileNotFoundError:
        pass
    else:
        return False
    try:
        reach_failpoint("folder.rename.before")
        os.rename(staged, name, src_dir_fd=source, dst_dir_fd=above)
        reach_failpoint("folder.rename.after")
    except OSError as error:
        if error.errno in _EXISTS_ERRNOS:
            return False
        raise
    return True


def _same_but_moved(staged: bytes, there: bytes) -> bool:
    """Whether size, mtime, inode and mode are those of the file that was staged."""
    ours, theirs = STAT.unpack(recorded_stat(staged)), STAT.unpack(there)
    return (*ours[:2], *ours[3:]) == (*theirs[:2], *theirs[3:])
