"""A folder as a storage: who may see it, what is not followed, and what happens when it is full."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import pytest

from stoker.domain.errors import Retry, Stalled, Wait
from stoker.domain.reasons import Reason
from stoker.snapshots import folder_storage
from stoker.snapshots.folder_storage import FolderStorage
from stoker.snapshots.storage import ObjectMissing
from stoker_testkit.environments.snapshot_environment import SnapshotSite


@pytest.fixture
def site(tmp_path: Path) -> SnapshotSite:
    site = SnapshotSite(tmp_path)
    site.write("a", b"one")
    return site


def test_no_other_user_can_read_a_snapshot(site: SnapshotSite) -> None:
    os.umask(os.umask(0))
    site.take()
    assert site.store.stat().st_mode & 0o7777 == 0o700
    for path in site.store.iterdir():
        assert path.stat().st_mode & 0o7777 == 0o600, path.name


def test_a_symlink_on_the_way_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "data" / ".sync-state").mkdir(parents=True)
    (tmp_path / "data" / ".sync-state" / "snapshots").symlink_to(tmp_path / "elsewhere")
    site = SnapshotSite(tmp_path, FolderStorage(tmp_path / "data", ".sync-state/snapshots/site"))
    with pytest.raises(Retry) as caught:
        site.take()
    assert caught.value.reason is Reason.SNAPSHOT_FAILED
    assert list((tmp_path / "elsewhere").iterdir()) == []
    with pytest.raises(Retry, match="cannot be entered"):
        site.snapshots.listed()


def test_a_symlink_among_the_objects_is_none_of_them(site: SnapshotSite, tmp_path: Path) -> None:
    taken = site.take()
    for name in (f"{taken.id}.manifest", f"{taken.id}.pack"):
        real = site.store / name
        real.rename(tmp_path / name)
        real.symlink_to(tmp_path / name)
    assert site.snapshots.listed() == ()
    with pytest.raises(Retry, match="it is a symlink"):
        site.snapshots.open(taken.id)


def test_a_pipe_or_a_folder_in_the_place_of_an_object_stops_no_operation(site: SnapshotSite) -> None:
    taken = site.take()
    (site.store / f"{taken.id}.pack").unlink()
    os.mkfifo(site.store / f"{taken.id}.pack")
    with pytest.raises(Stalled, match="is gone"):
        site.snapshots.open(taken.id)
    (site.store / "site-20200101-000000.manifest").mkdir()
    assert [one.id for one in site.snapshots.listed()] == [taken.id]
    again = site.take()
    site.snapshots.verify(again.id)


def test_a_lock_that_is_a_symlink_is_refused(site: SnapshotSite, tmp_path: Path) -> None:
    site.take()
    (site.store / ".lock").unlink()
    (site.store / ".lock").symlink_to(tmp_path / "made")
    with pytest.raises(Retry, match="cannot be locked: it is a symlink"):
        site.take()
    assert not (tmp_path / "made").exists()


def test_a_process_waits_while_another_one_works(site: SnapshotSite) -> None:
    site.take()
    with (site.store / ".lock").open("rb") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        for ask in (site.take, lambda: site.snapshots.prune(1)):
            with pytest.raises(Wait, match="another process is at work") as caught:
                ask()
            assert caught.value.reason is Reason.SYNC_IN_PROGRESS
        assert len(site.snapshots.listed()) == 1, "looking is always possible"
    site.take()


def test_a_volume_is_not_filled_to_the_last_byte(site: SnapshotSite, monkeypatch: pytest.MonkeyPatch) -> None:
    site.take()
    before = {path.name: path.read_bytes() for path in site.store.iterdir()}
    site.write("a", b"two")
    monkeypatch.setattr(folder_storage, "MIN_FREE_BYTES", 1 << 60)
    monkeypatch.setattr(folder_storage, "KEEP_PART", 1)
    with pytest.raises(Retry, match="No space left on device") as caught:
        site.take()
    assert caught.value.reason is Reason.SNAPSHOT_FAILED
    assert {path.name: path.read_bytes() for path in site.store.iterdir()} == before


def test_a_storage_that_is_gone_is_tried_again_later(tmp_path: Path) -> None:
    site = SnapshotSite(tmp_path, FolderStorage(tmp_path / "claim", "site"))
    site.write("a", b"one")
    with pytest.raises(Retry, match="No such file or directory"):
        site.take()
    (tmp_path / "claim").mkdir()
    assert site.snapshots.listed() == ()
    taken = site.take()
    assert site.restored(taken.id) == site.files()


def test_objects_are_read_in_part_and_deleted_once(tmp_path: Path) -> None:
    storage = FolderStorage(tmp_path, "a/b")
    assert storage.listed() == []
    storage.delete("x")
    storage.put("x", [b"0123", b"", b"456789"])
    assert storage.get("x", 2, 4) == b"2345"
    assert storage.get("x", 8, 100) == b"89"
    assert storage.get("x", 100, 5) == b""
    assert [(one.name, one.size) for one in storage.listed()] == [("x", 10)]
    storage.delete("x")
    storage.delete("x")
    with pytest.raises(ObjectMissing):
        storage.get("x", 0, 1)
