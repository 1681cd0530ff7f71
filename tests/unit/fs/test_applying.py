"""Plans on a disk that does not always obey."""

from __future__ import annotations

import errno
import os
import resource
import signal
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from stoker.domain.errors import Retry
from stoker.domain.paths import RelPath
from stoker.domain.reasons import Reason
from stoker.engine.ledger import Ledger
from stoker.engine.objects import Blob, BlobId, FileVersion, blob_of
from stoker.engine.plans import Delete, Plan, SetMode, Write
from stoker.fs.applying import SYNC_EACH, Applied, Stopped, apply
from stoker.fs.confined import DataFolder, why
from stoker.fs.ledger import MANIFEST, load, save


class Disk:
    """A data folder, and contents to put there."""

    def __init__(self, folder: DataFolder) -> None:
        self.folder = folder
        self.place = folder.place
        self.contents: dict[BlobId, bytes] = {}

    def write(self, path: str, content: bytes, *, executable: bool = False, replaces: bool = False) -> Write:
        self.contents[blob_of(content)] = content
        return Write(RelPath(path), FileVersion(blob_of(content), executable), replaces)

    def read(self, ids: Sequence[BlobId]) -> Iterator[Blob]:
        return (Blob(blob, len(self.contents[blob]), iter([self.contents[blob]])) for blob in ids)

    def apply(self, plan: Plan) -> Applied:
        return apply(self.folder, plan, load(self.folder).ledger, self.read)

    @property
    def ours(self) -> set[str]:
        ledger = load(self.folder).ledger
        assert ledger is not None
        assert not ledger.intended
        return set(ledger.files)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    with DataFolder.opened(tmp_path) as folder:
        yield Disk(folder)


def paths(*names: str) -> frozenset[RelPath]:
    return frozenset(map(RelPath, names))


def ours(files: dict[str, bytes], *folders: str) -> Ledger:
    written = {RelPath(path): FileVersion(blob_of(content)) for path, content in files.items()}
    return Ledger(written, folders=paths(*folders))


@pytest.mark.parametrize("count", [3, SYNC_EACH + 1])
def test_files_get_content_mode_and_a_place_in_the_ledger(disk: Disk, count: int) -> None:
    writes = [disk.write(f"d/{n}", b"%d" % n, executable=n == 1) for n in range(count)]
    applied = disk.apply(Plan(writes=tuple(writes)))
    assert len(applied.added) == count
    assert applied.bytes_written == sum(len(str(n)) for n in range(count))
    assert {(disk.place / f"d/{n}").read_text() for n in range(count)} == {str(n) for n in range(count)}
    modes = {n: stat.S_IMODE((disk.place / f"d/{n}").stat().st_mode) for n in range(3)}
    assert modes == {0: 0o644, 1: 0o755, 2: 0o644}
    assert disk.ours == {f"d/{n}" for n in range(count)}


def test_a_plan_without_actions_writes_the_ledger_once_and_then_nothing(disk: Disk) -> None:
    plan = Plan(before=ours({"d/a": b"1"}))
    assert disk.apply(plan) == Applied()
    first = (disk.place / MANIFEST).stat()
    assert disk.apply(plan) == Applied()
    assert (disk.place / MANIFEST).stat().st_ino == first.st_ino


def test_deleted_files_take_their_emptied_folders_with_them_up_to_the_managed_one(disk: Disk) -> None:
    disk.apply(Plan(writes=(disk.write("p/d/x/y/a", b"1"), disk.write("p/d/b", b"1"))))
    (disk.place / "p/d/stranger").mkdir()
    plan = Plan(
        deletions=(Delete(RelPath("p/d/x/y/a")), Delete(RelPath("p/d/b"))),
        before=ours({"p/d/x/y/a": b"1", "p/d/b": b"1"}),
        prunable=paths("p/d"),
    )
    assert set(disk.apply(plan).deleted) == {"p/d/x/y/a", "p/d/b"}
    assert [path.name for path in (disk.place / "p/d").iterdir()] == ["stranger"]
    assert disk.ours == set()
    (disk.place / "p/d/stranger").rmdir()
    disk.apply(Plan(writes=(disk.write("p/d/b", b"1"),)))
    disk.apply(
        Plan(deletions=(Delete(RelPath("p/d/b")),), before=ours({"p/d/b": b"1"}), prunable=paths("p/d"))
    )
    assert not (disk.place / "p/d").exists()
    assert (disk.place / "p").exists()


def test_a_file_and_a_folder_change_places(disk: Disk) -> None:
    disk.apply(Plan(writes=(disk.write("d/a", b"1"), disk.write("d/b/c", b"1"))))
    plan = Plan(
        clearings=(Delete(RelPath("d/a")), Delete(RelPath("d/b/c"))),
        writes=(disk.write("d/a/x", b"2"), disk.write("d/b", b"2")),
        before=ours({"d/a": b"1", "d/b/c": b"1"}),
        prunable=paths("d"),
    )
    assert not disk.apply(plan).errors
    assert (disk.place / "d/a/x").read_bytes() == (disk.place / "d/b").read_bytes() == b"2"
    assert disk.ours == {"d/a/x", "d/b"}


def test_only_the_mode_changes(disk: Disk) -> None:
    disk.apply(Plan(writes=(disk.write("d/a", b"1"),)))
    before = (disk.place / "d/a").stat()
    version = FileVersion(blob_of(b"1"), executable=True)
    disk.apply(Plan(modes=(SetMode(RelPath("d/a"), version),), before=ours({"d/a": b"1"})))
    after = (disk.place / "d/a").stat()
    assert after.st_ino == before.st_ino
    assert stat.S_IMODE(after.st_mode) == 0o755
    ledger = load(disk.folder).ledger
    assert ledger is not None
    assert ledger.files == {RelPath("d/a"): version}


def test_one_file_that_fails_is_reported_others_go_on_and_nothing_is_deleted(disk: Disk) -> None:
    disk.apply(Plan(writes=(disk.write("d/old", b"1"),)))
    (disk.place / "outside").mkdir()
    (disk.place / "d/link").symlink_to(disk.place / "outside")
    plan = Plan(
        writes=(disk.write("d/a", b"2"), disk.write("d/link/x", b"2"), disk.write("d/z", b"2")),
        deletions=(Delete(RelPath("d/old")),),
        before=ours({"d/old": b"1"}),
    )
    applied = disk.apply(plan)
    assert set(applied.added) == {"d/a", "d/z"}
    assert applied.deleted == ()
    assert [note.path for note in applied.errors] == ["d/link/x"]
    assert "symlink" in applied.errors[0].why
    assert (disk.place / "d/old").exists()
    assert list((disk.place / "outside").iterdir()) == []
    assert disk.ours == {"d/a", "d/z", "d/old"}


def test_a_resource_json_waits_for_its_data(disk: Disk) -> None:
    (disk.place / "d/v/view.json").mkdir(parents=True)
    (disk.place / "d/v/view.json/stranger").touch()
    applied = disk.apply(
        Plan(
            writes=(
                disk.write("d/v/view.json", b"1"),
                disk.write("d/w/view.json", b"1"),
                disk.write("d/v/resource.json", b"1"),
                disk.write("d/w/resource.json", b"1"),
            )
        )
    )
    assert set(applied.added) == {"d/w/view.json", "d/w/resource.json"}
    assert {note.path for note in applied.errors} == {"d/v/view.json", "d/v/resource.json"}
    assert not (disk.place / "d/v/resource.json").exists()


@contextmanager
def full_disk(at_bytes: int) -> Iterator[None]:
    """No file may grow beyond that size: the kernel answers as it does when the volume is full."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (at_bytes, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)


def test_a_file_for_which_there_is_no_room_leaves_the_old_one_whole(disk: Disk) -> None:
    disk.apply(Plan(writes=(disk.write("d/big", b"old"),)))
    plan = Plan(
        writes=(disk.write("d/big", b"x" * 100_000, replaces=True), disk.write("d/small", b"1")),
        before=ours({"d/big": b"old"}),
    )
    with full_disk(50_000):
        applied = disk.apply(plan)
    assert [note.path for note in applied.errors] == ["d/big"]
    assert applied.added == ("d/small",)
    assert applied.bytes_written == 1
    assert (disk.place / "d/big").read_bytes() == b"old"
    assert not (disk.place / ".sync-staging").exists()


def test_a_file_does_not_make_room_for_one_that_could_not_be_staged(disk: Disk) -> None:
    disk.apply(Plan(writes=(disk.write("d/a", b"old"),)))
    plan = Plan(
        clearings=(Delete(RelPath("d/a")),),
        writes=(disk.write("d/a/big", b"x" * 100_000),),
        before=ours({"d/a": b"old"}),
        prunable=paths("d"),
    )
    with full_disk(50_000):
        applied = disk.apply(plan)
    assert [note.path for note in applied.errors] == ["d/a/big"]
    assert (disk.place / "d/a").read_bytes() == b"old"
    assert disk.ours == {"d/a"}


def test_a_ledger_that_cannot_be_written_stops_the_pass_before_the_first_change(disk: Disk) -> None:
    plan = Plan(writes=tuple(disk.write(f"d/{n}", b"1") for n in range(50)))
    with full_disk(500), pytest.raises(Retry) as failed:
        disk.apply(plan)
    assert failed.value.reason is Reason.DATA_VOLUME_FAILED
    assert not (disk.place / "d").exists()


def test_a_volume_that_cannot_be_staged_on_is_named(disk: Disk) -> None:
    (disk.place / ".sync-staging").write_text("in the way")
    with pytest.raises(Retry, match=rf"{disk.place} failed: '\.sync-staging' is not a folder") as failed:
        disk.apply(Plan(writes=(disk.write("d/a", b"1"),)))
    assert failed.value.reason is Reason.DATA_VOLUME_FAILED
    assert not (disk.place / "d").exists()


def test_a_content_that_is_not_what_its_id_says_changes_nothing(disk: Disk) -> None:
    plan = Plan(writes=(disk.write("d/a", b"1"), disk.write("d/b", b"2")))
    disk.contents[blob_of(b"2")] = b"3"
    with pytest.raises(Retry, match="another content") as failed:
        disk.apply(plan)
    assert failed.value.reason is Reason.GIT_FAILED
    assert not (disk.place / "d").exists()


def test_before_the_first_change_the_ledger_says_what_is_intended(disk: Disk) -> None:
    plan = Plan(writes=(disk.write("d/a", b"1"), disk.write("d/b", b"2")))
    seen: list[Ledger | None] = []

    def stopped() -> bool:
        seen.append(load(disk.folder).ledger)
        return (disk.place / "d/a").exists()

    with pytest.raises(Stopped):
        apply(disk.folder, plan, None, disk.read, stopped)
    assert seen[0] is None  # while staging
    intended = seen[-1]
    assert intended is not None
    assert set(intended.intended) == {"d/a", "d/b"}
    assert disk.ours == {"d/a"}
    assert not (disk.place / "d/b").exists()


def test_another_volume_below_the_data_folder_is_said_so() -> None:
    assert (
        why(OSError(errno.EXDEV, os.strerror(errno.EXDEV))) == "lies on another volume than the data folder"
    )


def test_a_save_that_fails_in_the_end_is_not_hidden(disk: Disk) -> None:
    save(disk.folder, Ledger())
    (disk.place / MANIFEST).unlink()
    (disk.place / MANIFEST).mkdir()
    (disk.place / MANIFEST / "x").touch()
    with pytest.raises(Retry) as failed:
        apply(disk.folder, Plan(writes=(disk.write("d/a", b"1"),)), None, disk.read)
    assert failed.value.reason is Reason.DATA_VOLUME_FAILED
