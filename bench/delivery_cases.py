"""What is measured by `bench/delivery.py`, each in a process of its own."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from harness import measured, report
from stoker.agent.rollback import scope
from stoker.domain.git_objects import FileVersion, blob_of
from stoker.domain.intent.policies import SnapshotScope
from stoker.engine.plan.ledger import Ledger, encode_record
from stoker.fs.data_folder import DataFolder, open_regular
from stoker.fs.folder_cursor import DirWalk
from stoker.fs.stat_stamp import encode_stamp
from stoker.snapshots.folder_storage import FolderStorage
from stoker.snapshots.repository import SnapshotRepository
from stoker_testkit.environments.snapshot_environment import found_in

Go = Callable[[], None]


def ledger_of(data: Path) -> Ledger:
    """What a sync would have noted of these files."""
    return Ledger(
        {
            found.path: encode_record(FileVersion(blob_of(place.read_bytes())), encode_stamp(place.stat()))
            for found in found_in(data)
            for place in (data / found.path,)
        }
    )


def snapshot(data: Path, store: Path, go: Go) -> float:
    """One snapshot of everything, as an agent takes it before a sync; the bytes that it added."""
    ledger = ledger_of(data)
    snapshots = SnapshotRepository(FolderStorage(store, "site"), "site")
    go()
    with DataFolder.opened(data) as folder, DirWalk(folder.fd) as descent:
        covered = scope.managed_files(folder, ledger, (), lambda _: False, lambda: False)

        def opened(path: str) -> int:
            above, _, name = path.rpartition("/")
            return open_regular(descent.enter(above), name)

        taken = snapshots.take(covered.files, opened, scope=SnapshotScope.MANAGED)
    snapshots.prune(5)
    return float(taken.stored)


def verify(data: Path, store: Path, go: Go) -> float:
    """The newest snapshot read and checked, as it is before a restore; its files."""
    snapshots = SnapshotRepository(FolderStorage(store, "site"), "site")
    go()
    newest = snapshots.newest()
    assert newest is not None
    return float(len(snapshots.verify(newest.id).files))


SUBJECTS = {"snapshot": snapshot, "verify": verify}

if __name__ == "__main__":
    subject, data, store = SUBJECTS[sys.argv[1]], Path(sys.argv[2]), Path(sys.argv[3])
    report(measured(lambda go: subject(data, store, go)))
