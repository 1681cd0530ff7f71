"""A data folder of which snapshots are taken, for tests and measurements.

    site = SnapshotSite(tmp_path)
    site.write("projects/Line 1/view.json", b"{}")
    first = site.take()
    assert site.restored(first.id) == site.files()

Files are walked and opened as the agent does it, never through a symlink. `opened`
tells which files were read for the last snapshot.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from stoker.domain.intent.policies import SnapshotScope
from stoker.fs.data_folder import open_regular
from stoker.fs.folder_cursor import DirWalk
from stoker.snapshots.folder_storage import FolderStorage
from stoker.snapshots.repository import SnapshotRepository
from stoker.snapshots.storage import ObjectStorage
from stoker.snapshots.types import ScannedFile, Snapshot, SnapshotFile

SnapshotFiles = dict[str, tuple[bytes, int]]
"""By path, content and mode."""


class SnapshotSite:
    """A gateway's files and its snapshots."""

    def __init__(
        self,
        folder: Path,
        storage: ObjectStorage | None = None,
        *,
        gateway: str = "site",
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.data = folder / "data"
        self.store = folder / "store" / gateway
        self.data.mkdir(parents=True, exist_ok=True)
        (folder / "store").mkdir(exist_ok=True)
        self.storage = storage or FolderStorage(folder / "store", gateway)
        self.snapshots = SnapshotRepository(self.storage, gateway, clock=clock)
        self.opened: list[str] = []

    def write(self, path: str, content: bytes, mode: int = 0o644) -> None:
        place = self.data / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content)
        place.chmod(mode)

    def files(self) -> SnapshotFiles:
        return {
            found.path: ((self.data / found.path).read_bytes(), found.mode) for found in found_in(self.data)
        }

    def take(self, known: Mapping[str, SnapshotFile] | None = None, **options: Any) -> Snapshot:
        """A snapshot of all files; `known` are those of which the content need not be looked at."""
        found = found_in(self.data)
        if known is not None:
            found = [one._replace(blob=known[one.path].blob if one.path in known else None) for one in found]
        options.setdefault("scope", SnapshotScope.MANAGED)
        self.opened = []
        root = os.open(self.data, os.O_RDONLY | os.O_DIRECTORY)
        try:
            with DirWalk(root) as descent:

                def open_file(path: str) -> int:
                    self.opened.append(path)
                    above, _, name = path.rpartition("/")
                    return open_regular(descent.enter(above), name)

                return self.snapshots.take(found, open_file, **options)
        finally:
            os.close(root)

    def restored(self, snapshot_id: str) -> SnapshotFiles:
        """The files that a restore would write."""
        opened = self.snapshots.open(snapshot_id)
        files = opened.manifest.files
        blobs = opened.read([kept.blob for kept in files.values()])
        return {
            path: (b"".join(blob.chunks), kept.mode)
            for (path, kept), blob in zip(files.items(), blobs, strict=True)
        }


def found_in(folder: Path, below: str = "") -> list[ScannedFile]:
    """Every regular file, in the order of paths; symlinks and special files are left out."""
    found: list[ScannedFile] = []
    with os.scandir(folder / below) as entries:
        ordered = sorted(entries, key=lambda entry: entry.name)
    for entry in ordered:
        path = f"{below}/{entry.name}" if below else entry.name
        if entry.is_dir(follow_symlinks=False):
            found += found_in(folder, path)
        elif entry.is_file(follow_symlinks=False):
            there = entry.stat(follow_symlinks=False)
            found.append(ScannedFile(path, there.st_size, there.st_mode & 0o777))
    return found
