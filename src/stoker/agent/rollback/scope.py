"""Selects the files of a snapshot, and which of them are unmanaged.

`managed_files` are the files of the ledger and of the plan. `all_reachable_files` are all files that a sync
could ever reach: never the gateway's own files, which no restore would write, nor Stoker's. A file whose
stamp equals the ledger's is not read: the ledger knows its content. A file that may differ by noise is read,
because the ledger then records the intended content and not the content on disk.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Collection, Iterator
from typing import NamedTuple

from stoker.domain.errors import InvalidValue, Retry
from stoker.domain.paths import RelPath
from stoker.domain.reasons import Reason
from stoker.engine.layout.protected_paths import PROTECTED_PATHS
from stoker.engine.match.globs import PathBatch
from stoker.engine.plan.ledger import Ledger, recorded_version
from stoker.fs.data_folder import OPEN_FOLDER_FLAGS, DataFolder, os_error_reason
from stoker.fs.folder_cursor import DirWalk
from stoker.fs.stat_stamp import encode_stamp
from stoker.fs.stop_check import StopCheck, raise_if_stopped
from stoker.snapshots.types import ScannedFile

OwnershipDoubt = Callable[[str], bool]
"""Whether the content of a path may differ from the ledger by noise."""


class SnapshotFileSet(NamedTuple):
    """The files, sorted by path, and the unmanaged files among them."""

    files: tuple[ScannedFile, ...]
    foreign: tuple[str, ...]


def managed_files(
    folder: DataFolder, ledger: Ledger, touched: Collection[str], doubt: OwnershipDoubt, stopped: StopCheck
) -> SnapshotFileSet:
    """Return the managed files, and those that the plan writes or deletes."""
    paths = ledger.files.keys() | set(touched)
    found = tuple(
        _look_up_files(folder, ledger, paths - PROTECTED_PATHS.matching(PathBatch(paths)), doubt, stopped)
    )
    return SnapshotFileSet(found, tuple(one.path for one in found if one.path not in ledger.files))


def all_reachable_files(
    folder: DataFolder, ledger: Ledger, doubt: OwnershipDoubt, stopped: StopCheck
) -> SnapshotFileSet:
    """Return all files that a sync could reach."""
    try:
        found = sorted(_walk_files(folder.fd, "", ledger, doubt, stopped))
    except OSError as error:
        raise Retry(f"{folder.place} {os_error_reason(error)}", reason=Reason.SNAPSHOT_FAILED) from error
    return SnapshotFileSet(tuple(found), tuple(one.path for one in found if one.path not in ledger.files))


def _look_up_files(
    folder: DataFolder, ledger: Ledger, paths: Collection[str], doubt: OwnershipDoubt, stopped: StopCheck
) -> Iterator[ScannedFile]:
    with DirWalk(folder.fd) as descent:
        for path in sorted(paths):
            raise_if_stopped(stopped)
            above, _, name = path.rpartition("/")
            try:
                there = os.stat(name, dir_fd=descent.enter(above), follow_symlinks=False)
            except (FileNotFoundError, NotADirectoryError):
                continue
            except OSError as error:
                raise Retry(
                    f"{folder.place / path} {os_error_reason(error)}", reason=Reason.SNAPSHOT_FAILED
                ) from error
            if stat.S_ISREG(there.st_mode):
                yield _found_file(path, there, ledger, doubt)


def _walk_files(
    fd: int, place: str, ledger: Ledger, doubt: OwnershipDoubt, stopped: StopCheck
) -> Iterator[ScannedFile]:
    raise_if_stopped(stopped)
    folders: list[str] = []
    with os.scandir(fd) as entries:
        for entry in entries:
            path = f"{place}/{entry.name}" if place else entry.name
            if not _is_reachable(path):
                continue
            if entry.is_dir(follow_symlinks=False):
                folders.append(entry.name)
                continue
            try:
                there = entry.stat(follow_symlinks=False)
            except FileNotFoundError:  # removed during the walk
                continue
            if stat.S_ISREG(there.st_mode):
                yield _found_file(path, there, ledger, doubt)
    for name in folders:
        try:
            below = os.open(name, OPEN_FOLDER_FLAGS, dir_fd=fd)
        except (FileNotFoundError, NotADirectoryError):
            continue
        try:
            yield from _walk_files(below, f"{place}/{name}" if place else name, ledger, doubt, stopped)
        finally:
            os.close(below)


def _is_reachable(path: str) -> bool:
    try:
        RelPath(path)
    except InvalidValue:
        return False
    return not PROTECTED_PATHS.matches(path)


def _found_file(path: str, there: os.stat_result, ledger: Ledger, doubt: OwnershipDoubt) -> ScannedFile:
    kept = ledger.files.get(path)
    known = kept is not None and kept.startswith(encode_stamp(there)) and not doubt(path)
    blob = recorded_version(kept).blob if kept is not None and known else None
    return ScannedFile(path, there.st_size, stat.S_IMODE(there.st_mode) & 0o777, blob)
