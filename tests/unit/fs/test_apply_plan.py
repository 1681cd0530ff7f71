"""Plans on a disk that does not always obey."""

from __future__ import annotations

import errno
import itertools
import os
import resource
import signal
import stat
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from stoker.domain import failpoints
from stoker.domain.errors import Retry
from stoker.domain.git_objects import Blob, BlobHash, BlobId, FileVersion, PathNote, blob_of
from stoker.domain.intent.files import ExcludePolicy
from stoker.domain.paths import RelPath
from stoker.domain.reasons import Reason
from stoker.engine.layout.reverse_map import CapturablePaths, gateway_changes
from stoker.engine.plan.ledger import STAT, Ledger, encode_record, recorded_version
from stoker.engine.plan.plan import DeleteFile, LedgerFacts, SetFileMode, SyncPlan, WriteFile
from stoker.fs import stat_stamp
from stoker.fs.apply_plan import SYNC_EACH, ApplyResult, FileRules, SyncStopped, apply_plan
from stoker.fs.data_folder import DataFolder
from stoker.fs.find_changes import scan_folder
from stoker.fs.ledger_store import JOURNAL, MANIFEST, LedgerStore
from stoker.fs.stat_stamp import encode_stamp, unseen_stamp
from stoker.fs.stop_check import never_stop
from stoker_testkit.open_files import open_below


class Disk:
    """A data folder, and contents to put there."""

    def __init__(self, folder: DataFolder) -> None:
        self.folder = folder
        self.place = folder.place
        self.contents: dict[BlobId, bytes] = {}

    def write(
        self, path: str, content: bytes, *, executable: bool = False, replaces: bool = False
    ) -> WriteFile:
        self.contents[blob_of(content)] = content
        return WriteFile(RelPath(path), FileVersion(blob_of(content), executable), replaces)

    def read(self, ids: Sequence[BlobId]) -> Iterator[Blob]:
        return (Blob(blob, len(self.contents[blob]), iter([self.contents[blob]])) for blob in ids)

    def apply(
        self, plan: SyncPlan, rules: FileRules | None = None, stopped: Callable[[], bool] = never_stop
    ) -> ApplyResult:
        book = LedgerStore.load(self.folder)
        return apply_plan(self.folder, plan, book, self.read, rules=rules or FileRules(), stopped=stopped)

    @property
    def ledger(self) -> Ledger:
        ledger = LedgerStore.load(self.folder).ledger
        assert ledger is not None
        return ledger

    @property
    def ours(self) -> set[str]:
        return set(self.ledger.files)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    with DataFolder.opened(tmp_path) as folder:
        yield Disk(folder)


def deletes(*paths: str) -> tuple[DeleteFile, ...]:
    return tuple(DeleteFile(RelPath(path)) for path in paths)


def reached(name: str, action: Callable[[], object]) -> Callable[[str], None]:
    """Does something once, when the pass comes to a failpoint."""
    actions = [action]

    def listener(spoken: str) -> None:
        if spoken == name and actions:
            actions.pop()()

    return listener


@contextmanager
def meanwhile(name: str, action: Callable[[], object]) -> Iterator[None]:
    failpoints.listen(reached(name, action))
    try:
        yield
    finally:
        failpoints.listen(None)


@pytest.mark.parametrize("count", [3, SYNC_EACH + 1])
@pytest.mark.parametrize("there", [False, True], ids=["new folder", "folder that is there"])
def test_files_get_content_mode_and_a_place_in_the_ledger(disk: Disk, count: int, there: bool) -> None:
    if there:
        (disk.place / "d").mkdir()
    writes = [disk.write(f"d/{n}", b"%d" % n, executable=n == 1) for n in range(count)]
    applied = disk.apply(SyncPlan(writes=tuple(writes)))
    assert len(applied.added) == count
    assert applied.bytes_written == sum(len(str(n)) for n in range(count))
    assert {(disk.place / f"d/{n}").read_text() for n in range(count)} == {str(n) for n in range(count)}
    modes = {n: stat.S_IMODE((disk.place / f"d/{n}").stat().st_mode) for n in range(3)}
    assert modes == {0: 0o644, 1: 0o755, 2: 0o644}
    ledger = disk.ledger
    assert {path: recorded_version(kept) for path, kept in ledger.files.items()} == {
        write.path: write.version for write in writes
    }
    assert ledger.complete
    assert not ledger.intended


def test_a_plan_without_actions_writes_the_ledger_once_and_then_nothing(disk: Disk) -> None:
    plan = SyncPlan(
        remembered={"d/a": encode_record(FileVersion(blob_of(b"1")))}, facts=LedgerFacts(commit="c")
    )
    assert disk.apply(plan) == ApplyResult()
    first = {path: path.stat() for path in disk.place.rglob("*")}
    assert disk.apply(plan) == ApplyResult()
    later = {path: path.stat() for path in disk.place.rglob("*")}
    assert {p: s.st_mtime_ns for p, s in first.items()} == {p: s.st_mtime_ns for p, s in later.items()}
    assert disk.ledger.commit == "c"
    assert disk.ours == {"d/a"}


def test_what_is_remembered_and_forgotten_is_in_the_ledger(disk: Disk) -> None:
    disk.apply(SyncPlan(writes=(disk.write("d/a", b"1"), disk.write("d/x/b", b"1"))))
    (disk.place / "d/x/b").unlink()
    plan = SyncPlan(
        remembered={"d/c": encode_record(FileVersion(blob_of(b"c")))},
        forgotten=frozenset({"d/x/b"}),
        prunable=frozenset({"d"}),
    )
    disk.apply(plan)
    assert disk.ours == {"d/a", "d/c"}
    assert not (disk.place / "d/x").exists()  # a killed pass had not come to that


def test_a_new_folder_appears_at_once(disk: Disk) -> None:
    (disk.place / "p").mkdir()
    writes = [
        disk.write(f"p/new/{n}/{name}", b"1") for n in range(3) for name in ("resource.json", "view.json")
    ]
    seen: list[list[str]] = []

    def look() -> None:
        seen.append(sorted(str(path) for path in (disk.place / "p").rglob("*")))

    with meanwhile("folder.rename.before", look):
        disk.apply(SyncPlan(writes=tuple(writes)))
    assert seen == [[]]
    assert len(list((disk.place / "p/new").rglob("*.json"))) == 6


def test_the_stamps_of_a_new_folder_are_known_without_a_second_stat(disk: Disk) -> None:
    writes = tuple(disk.write(f"d/x/{n}", b"%d" % n) for n in range(3))
    with meanwhile("base.flush.after", lambda: time.sleep(0.05)):  # they are staged, and not yet live
        disk.apply(SyncPlan(writes=writes))
    expected = {w.path: encode_record(w.version, encode_stamp((disk.place / w.path).stat())) for w in writes}
    assert disk.ledger.files == expected
    assert scan_folder(disk.folder, disk.ledger, managed_folders=["d"]).found == {}


def test_a_large_new_folder_appears_when_all_in_it_is_at_rest(disk: Disk) -> None:
    disk.apply(SyncPlan(writes=tuple(disk.write(f"d/{n}", b"%d" % n) for n in range(SYNC_EACH + 1))))
    assert scan_folder(disk.folder, disk.ledger, managed_folders=["d"]).found == {}


def test_the_stamps_of_renamed_files_are_those_after_the_rename(disk: Disk) -> None:
    (disk.place / "d").mkdir()
    writes = tuple(disk.write(f"d/{n}", b"%d" % n) for n in range(3))
    with meanwhile("flush.after", lambda: time.sleep(0.05)):
        disk.apply(SyncPlan(writes=writes))
    expected = {w.path: encode_record(w.version, encode_stamp((disk.place / w.path).stat())) for w in writes}
    assert disk.ledger.files == expected
    assert scan_folder(disk.folder, disk.ledger, managed_folders=["d"]).found == {}


@pytest.mark.parametrize("there", [False, True], ids=["new folder", "folder that is there"])
def test_no_stamp_is_trusted_of_a_file_that_is_not_at_rest(
    disk: Disk, monkeypatch: pytest.MonkeyPatch, there: bool
) -> None:
    if there:
        (disk.place / "d").mkdir()
    monkeypatch.setattr(stat_stamp, "FINE_TIMESTAMP_NS", 10**12)  # a clock that moves in steps of minutes
    monkeypatch.setattr(stat_stamp, "COARSE_TIMESTAMP_NS", 10**12)
    write = disk.write("d/a", b"1", executable=True)
    disk.apply(SyncPlan(writes=(write,)))
    assert disk.ledger.files == {"d/a": encode_record(write.version, unseen_stamp(True))}


def test_a_file_that_was_changed_at_once_again_is_read_by_the_next_walk(disk: Disk) -> None:
    (disk.place / "d").mkdir()
    write = disk.write("d/a", b"1", executable=True)

    def edit() -> None:
        (disk.place / "d/a").write_bytes(b"2")
        time.sleep(0.05)  # long enough to be at rest again

    with meanwhile("flush.before", edit):
        disk.apply(SyncPlan(writes=(write,)))
    assert disk.ledger.files == {"d/a": encode_record(write.version, unseen_stamp(True))}
    entry = scan_folder(disk.folder, disk.ledger, managed_folders=["d"]).found["d/a"]
    assert entry is not None
    assert entry.version == FileVersion(blob_of(b"2"), True)


def test_a_file_that_was_replaced_at_once_by_another_is_ours_as_we_wrote_it(disk: Disk) -> None:
    (disk.place / "d").mkdir()
    write = disk.write("d/a", b"1")
    with meanwhile("flush.before", (disk.place / "d/a").unlink):
        disk.apply(SyncPlan(writes=(write,)))
    assert disk.ledger.files == {"d/a": encode_record(write.version, unseen_stamp(False))}


@pytest.mark.parametrize("foreign", ["a folder", "a full folder"])
def test_a_folder_that_another_process_made_meanwhile_is_filled_file_by_file(
    disk: Disk, foreign: str
) -> None:
    names = ("code.py", "resource.json", "sub/x")
    writes = tuple(disk.write(f"d/new/{name}", name.encode()) for name in names)

    def make() -> None:
        (disk.place / "d/new").mkdir(parents=True)
        if foreign == "a full folder":
            (disk.place / "d/new/theirs").write_text("untouched")

    with meanwhile("stage.sync.after", make):
        applied = disk.apply(SyncPlan(writes=writes))
    assert not applied.errors
    assert {name: (disk.place / "d/new" / name).read_bytes() for name in names} == {
        name: name.encode() for name in names
    }
    assert disk.ours == {f"d/new/{name}" for name in names}
    assert (disk.place / "d/new/theirs").exists() == (foreign == "a full folder")


def test_a_folder_that_another_process_fills_at_the_last_moment_loses_nothing(disk: Disk) -> None:
    def make() -> None:
        (disk.place / "d").mkdir()
        (disk.place / "d/theirs").write_text("untouched")

    with meanwhile("folder.rename.before", make):
        applied = disk.apply(SyncPlan(writes=(disk.write("d/a", b"1"),)))
    assert applied.added == ("d/a",)
    assert (disk.place / "d/a").read_bytes() == b"1"
    assert (disk.place / "d/theirs").read_text() == "untouched"
    assert disk.ours == {"d/a"}


@pytest.mark.parametrize("what", ["symlink", "file"])
def test_something_else_in_the_place_of_a_new_folder_is_an_error_of_its_files(disk: Disk, what: str) -> None:
    (disk.place / "outside").mkdir()

    def plant() -> None:
        if what == "symlink":
            (disk.place / "d").symlink_to(disk.place / "outside")
        else:
            (disk.place / "d").write_text("theirs")

    with meanwhile("stage.sync.after", plant):
        applied = disk.apply(SyncPlan(writes=(disk.write("d/a", b"1"), disk.write("e/b", b"1"))))
    assert applied.added == ("e/b",)
    assert [note.path for note in applied.errors] == ["d/a"]
    assert ("symlink" if what == "symlink" else "not a folder") in applied.errors[0].why
    assert list((disk.place / "outside").iterdir()) == []
    assert disk.ours == {"e/b"}
    assert not disk.ledger.complete


def test_a_folder_that_cannot_be_moved_to_its_place_is_an_error_of_its_files(disk: Disk) -> None:
    def fail() -> None:
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))

    with meanwhile("folder.rename.before", fail):
        applied = disk.apply(SyncPlan(writes=(disk.write("d/a", b"1"), disk.write("e/b", b"1"))))
    assert applied.errors == (PathNote("d/a", "is on another volume than the data folder"),)
    assert disk.ours == {"e/b"}


def test_deleted_files_take_their_emptied_folders_with_them_up_to_the_managed_one(disk: Disk) -> None:
    disk.apply(SyncPlan(writes=(disk.write("p/d/x/y/a", b"1"), disk.write("p/d/b", b"1"))))
    (disk.place / "p/d/stranger").mkdir()
    plan = SyncPlan(deletions=deletes("p/d/x/y/a", "p/d/b"), prunable=frozenset({"p/d"}))
    assert set(disk.apply(plan).deleted) == {"p/d/x/y/a", "p/d/b"}
    assert [path.name for path in (disk.place / "p/d").iterdir()] == ["stranger"]
    assert disk.ours == set()
    (disk.place / "p/d/stranger").rmdir()
    disk.apply(SyncPlan(writes=(disk.write("p/d/b", b"1"),)))
    disk.apply(SyncPlan(deletions=deletes("p/d/b"), prunable=frozenset({"p/d"})))
    assert not (disk.place / "p/d").exists()
    assert (disk.place / "p").exists()


def test_a_file_that_is_gone_already_is_deleted(disk: Disk) -> None:
    disk.apply(SyncPlan(writes=(disk.write("d/a", b"1"), disk.write("d/x/b", b"1"))))
    (disk.place / "d/x/b").unlink()
    (disk.place / "d/x").rmdir()
    (disk.place / "d/a").unlink()
    applied = disk.apply(SyncPlan(deletions=deletes("d/a", "d/x/b"), prunable=frozenset({"d"})))
    assert applied.deleted == ("d/a", "d/x/b")
    assert not applied.errors
    assert not (disk.place / "d").exists()


def test_what_became_something_else_is_not_deleted(disk: Disk) -> None:
    disk.apply(SyncPlan(writes=(disk.write("d/a", b"1"), disk.write("d/b", b"1"), disk.write("d/x/c", b"1"))))
    (disk.place / "outside").mkdir()
    (disk.place / "outside/c").touch()
    (disk.place / "d/a").unlink()
    (disk.place / "d/a").symlink_to(disk.place / "outside/c")
    (disk.place / "d/x/c").unlink()
    (disk.place / "d/x").rmdir()
    (disk.place / "d/x").symlink_to(disk.place / "outside")
    applied = disk.apply(SyncPlan(deletions=deletes("d/a", "d/b", "d/x/c"), prunable=frozenset({"d"})))
    assert applied.deleted == ("d/b",)
    assert {note.path for note in applied.errors} == {"d/a", "d/x/c"}
    assert (disk.place / "outside/c").exists()
    assert disk.ours == {"d/a", "d/x/c"}


def test_a_file_and_a_folder_change_places(disk: Disk) -> None:
    disk.apply(SyncPlan(writes=(disk.write("d/a", b"1"), disk.write("d/b/c", b"1"))))
    plan = SyncPlan(
        clearings=deletes("d/a", "d/b/c"),
        writes=(disk.write("d/a/x", b"2"), disk.write("d/b", b"2")),
        prunable=frozenset({"d"}),
    )
    assert not disk.apply(plan).errors
    assert (disk.place / "d/a/x").read_bytes() == (disk.place / "d/b").read_bytes() == b"2"
    assert disk.ours == {"d/a/x", "d/b"}


def test_only_the_mode_changes(disk: Disk) -> None:
    disk.apply(SyncPlan(writes=(disk.write("d/a", b"1"),)))
    before = (disk.place / "d/a").stat()
    version = FileVersion(blob_of(b"1"), executable=True)
    applied = disk.apply(SyncPlan(modes=(SetFileMode(RelPath("d/a"), version),)), FileRules(umask=0o027))
    assert applied.modified == ("d/a",)
    after = (disk.place / "d/a").stat()
    assert after.st_ino == before.st_ino
    assert stat.S_IMODE(after.st_mode) == 0o750
    assert disk.ledger.version("d/a") == version


def test_a_mode_of_ours_is_intended_so_that_a_kill_does_not_make_it_an_edit(disk: Disk) -> None:
    disk.apply(SyncPlan(writes=(disk.write("d/a", b"1"),)))
    version = FileVersion(blob_of(b"1"), executable=True)
    seen: list[Ledger] = []
    with meanwhile("chmod.after", lambda: seen.append(disk.ledger)):
        disk.apply(SyncPlan(modes=(SetFileMode(RelPath("d/a"), version),)))
    (killed,) = seen
    assert killed.version("d/a") != version
    assert (
        gateway_changes(
            {"d/a": encode_record(version, unseen_stamp(True))},
            killed,
            CapturablePaths(("d/**",), (), ExcludePolicy()),
        )
        == {}
    )
    assert disk.ledger.version("d/a") == version
    assert not disk.ledger.intended


def test_a_strangers_file_is_not_ours_before_it_has_our_mode(disk: Disk) -> None:
    disk.apply(SyncPlan(writes=(disk.write("d/a", b"1"),)))
    (disk.place / "d/theirs").write_bytes(b"1")
    plan = SyncPlan(modes=(SetFileMode(RelPath("d/theirs"), FileVersion(blob_of(b"1"), executable=True)),))
    seen: list[Ledger] = []
    with meanwhile("chmod.before", lambda: seen.append(disk.ledger)):
        disk.apply(plan)
    (killed,) = seen
    assert "d/theirs" not in {*killed.files, *killed.intended}
    assert disk.ours == {"d/a", "d/theirs"}


def test_on_first_contact_a_file_may_need_no_more_than_its_mode(disk: Disk) -> None:
    (disk.place / "d").mkdir()
    (disk.place / "d/theirs").write_bytes(b"1")
    version = FileVersion(blob_of(b"1"), executable=True)
    assert disk.apply(SyncPlan(modes=(SetFileMode(RelPath("d/theirs"), version),))).modified == ("d/theirs",)
    assert disk.ledger.version("d/theirs") == version


def test_a_mode_that_cannot_be_set_is_an_error_and_nothing_is_deleted(disk: Disk) -> None:
    disk.apply(SyncPlan(writes=(disk.write("d/a", b"1"), disk.write("d/old", b"1"))))
    outside = disk.place / "outside"
    outside.touch(0o600)
    (disk.place / "d/a").unlink()
    (disk.place / "d/a").symlink_to(outside)
    change = SetFileMode(RelPath("d/a"), FileVersion(blob_of(b"1"), executable=True))
    applied = disk.apply(SyncPlan(modes=(change,), deletions=deletes("d/old")))
    assert applied.modified == ()
    assert [note.path for note in applied.errors] == ["d/a"]
    assert stat.S_IMODE(outside.stat().st_mode) == 0o600
    assert (disk.place / "d/old").exists()


def test_files_and_folders_have_their_mode_whatever_the_umask_of_the_process(disk: Disk) -> None:
    (disk.place / "there").mkdir()
    before = os.umask(0o077)
    try:
        disk.apply(SyncPlan(writes=(disk.write("a/b/c", b"1"), disk.write("there/d", b"1", executable=True))))
    finally:
        os.umask(before)
    modes = {
        path: stat.S_IMODE((disk.place / path).stat().st_mode) for path in ("a", "a/b", "a/b/c", "there/d")
    }
    assert modes == {"a": 0o755, "a/b": 0o755, "a/b/c": 0o644, "there/d": 0o755}


def test_the_umask_that_was_asked_for_takes_from_files_and_folders(disk: Disk) -> None:
    writes = (disk.write("a/b/c", b"1"), disk.write("a/run", b"1", executable=True))
    disk.apply(SyncPlan(writes=writes), FileRules(umask=0o027))
    modes = {
        path: stat.S_IMODE((disk.place / path).stat().st_mode) for path in ("a", "a/b", "a/b/c", "a/run")
    }
    assert modes == {"a": 0o750, "a/b": 0o750, "a/b/c": 0o640, "a/run": 0o750}


@pytest.mark.parametrize("asked", [None, (2004, 2005)])
def test_what_is_written_belongs_to_the_gateway(disk: Disk, asked: tuple[int, int] | None) -> None:
    """As root; another user can have only its own files."""
    mine = (os.geteuid(), os.getegid())
    wanted = (asked or (2003, 2003)) if os.geteuid() == 0 else mine
    if os.geteuid() == 0:
        os.chown(disk.place, 2003, 2003)
    else:
        asked = None
    (disk.place / "there").mkdir()
    disk.apply(
        SyncPlan(writes=(disk.write("new/x/a", b"1"), disk.write("there/x/b", b"1"))), FileRules(owner=asked)
    )
    owners = {
        path: (disk.place / path).stat() for path in ("new", "new/x", "new/x/a", "there/x", "there/x/b")
    }
    assert {(found.st_uid, found.st_gid) for found in owners.values()} == {wanted}


def test_one_file_that_fails_is_reported_others_go_on_and_nothing_is_deleted(disk: Disk) -> None:
    disk.apply(
        SyncPlan(
            writes=(disk.write("d/old", b"1"),), facts=LedgerFacts(commit="first", kept=frozenset({"d/k"}))
        )
    )
    (disk.place / "outside").mkdir()
    (disk.place / "d/link").symlink_to(disk.place / "outside")
    plan = SyncPlan(
        writes=(disk.write("d/a", b"2"), disk.write("d/link/x", b"2"), disk.write("d/z", b"2")),
        deletions=deletes("d/old"),
        facts=LedgerFacts(commit="second"),
    )
    applied = disk.apply(plan)
    assert set(applied.added) == {"d/a", "d/z"}
    assert applied.deleted == ()
    assert [note.path for note in applied.errors] == ["d/link/x"]
    assert "symlink" in applied.errors[0].why
    assert (disk.place / "d/old").exists()
    assert list((disk.place / "outside").iterdir()) == []
    assert disk.ours == {"d/a", "d/z", "d/old"}
    # The pass is to be made again: it counts neither as done nor as allowed to delete.
    assert (disk.ledger.complete, disk.ledger.commit) == (False, "first")
    assert disk.ledger.kept == {"d/k"}


def test_added_and_modified_files_are_distinguished_from_failed_ones(disk: Disk) -> None:
    disk.apply(SyncPlan(writes=(disk.write("d/a", b"1"), disk.write("d/b", b"1"))))
    (disk.place / "d/b").unlink()
    (disk.place / "d/b").symlink_to("a")
    writes = [disk.write(f"d/{name}", b"2", replaces=name != "c") for name in "abc"]
    applied = disk.apply(SyncPlan(writes=tuple(writes)))
    assert (applied.added, applied.modified) == (("d/c",), ("d/a",))
    assert [note.path for note in applied.errors] == ["d/b"]


def test_what_is_given_back_is_written_and_never_called_ours(disk: Disk) -> None:
    disk.apply(SyncPlan(writes=(disk.write("d/ours", b"1"), disk.write("d/theirs", b"1"))))
    (disk.place / "e").mkdir()
    writes = tuple(disk.write(path, b"2") for path in ("d/ours", "d/theirs", "e/theirs"))
    seen: list[Ledger] = []
    with meanwhile("rename.before", lambda: seen.append(disk.ledger)):
        disk.apply(SyncPlan(writes=writes, given_back=frozenset({"d/theirs", "e/theirs"})))
    assert {(disk.place / write.path).read_bytes() for write in writes} == {b"2"}
    assert disk.ours == set(seen[0].intended) == {"d/ours"}


def test_an_apply_that_is_not_ready_keeps_everything_as_it_is(disk: Disk) -> None:
    disk.apply(SyncPlan(writes=(disk.write("d/old", b"1"), disk.write("d/a", b"1"))))
    before = disk.ledger

    def refuse() -> None:
        assert (disk.place / ".sync-staging/0").read_bytes() == b"2"
        raise RuntimeError("no lock")

    plan = SyncPlan(writes=(disk.write("d/a", b"2", replaces=True),), deletions=deletes("d/old"))
    with pytest.raises(RuntimeError, match="no lock"):
        apply_plan(disk.folder, plan, LedgerStore.load(disk.folder), disk.read, ready=refuse)
    assert (disk.place / "d/a").read_bytes() == b"1"
    assert (disk.place / "d/old").exists()
    assert disk.ledger == before


def test_a_plan_that_leaves_something_out_is_done_but_not_complete(disk: Disk) -> None:
    disk.apply(SyncPlan(refused=(PathNote("s/x", "no"),), facts=LedgerFacts(commit="c")))
    assert (disk.ledger.complete, disk.ledger.commit) == (False, "c")


def test_a_resource_json_waits_for_its_data(disk: Disk) -> None:
    (disk.place / "d/v/view.json").mkdir(parents=True)
    (disk.place / "d/v/view.json/stranger").touch()
    applied = disk.apply(
        SyncPlan(
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


@pytest.mark.parametrize("there", [False, True], ids=["new folder", "folder that is there"])
def test_data_comes_before_its_resource_json_and_a_resource_goes_before_its_data(
    disk: Disk, there: bool
) -> None:
    if there:
        (disk.place / "d/v").mkdir(parents=True)
    names = ["a.bin", "resource.json", "z.bin"]
    seen: list[set[str]] = []

    def look(_: str) -> None:
        with suppress(FileNotFoundError):
            seen.append({path.name for path in (disk.place / "d/v").iterdir()})

    failpoints.listen(look)
    try:
        disk.apply(SyncPlan(writes=tuple(disk.write(f"d/v/{name}", b"1") for name in names)))
        gone = deletes("d/v/resource.json", "d/v/a.bin", "d/v/z.bin")
        disk.apply(SyncPlan(deletions=gone, prunable=frozenset({"d"})))
    finally:
        failpoints.listen(None)
    states = [set(state) for state, _ in itertools.groupby(seen)]
    grows = [set[str](), {"a.bin"}, {"a.bin", "z.bin"}] if there else []
    assert states == [*grows, set(names), {"a.bin", "z.bin"}, {"z.bin"}, set()]


@contextmanager
def full_disk(at_bytes: int) -> Iterator[None]:
    """No file may grow beyond that size: the kernel answers as it does when a file is too large."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (at_bytes, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)


def test_a_file_for_which_there_is_no_room_leaves_the_old_one_whole(disk: Disk) -> None:
    disk.apply(SyncPlan(writes=(disk.write("d/big", b"old"),)))
    big = disk.write("d/big", b"x" * 100_000, replaces=True)
    with full_disk(50_000):
        applied = disk.apply(SyncPlan(writes=(big, disk.write("d/small", b"1"))))
    assert [note.path for note in applied.errors] == ["d/big"]
    assert applied.added == ("d/small",)
    assert applied.bytes_written == 1
    assert (disk.place / "d/big").read_bytes() == b"old"
    assert not (disk.place / ".sync-staging").exists()


def test_a_new_folder_holds_nothing_half_done(disk: Disk) -> None:
    names = ("v/big", "v/resource.json", "v/small", "w/resource.json", "w/view.json", "alone/big")
    writes = tuple(
        disk.write(f"d/{name}", b"x" * 100_000 if name.endswith("big") else name.encode()) for name in names
    )
    with full_disk(50_000):
        applied = disk.apply(SyncPlan(writes=writes))
    assert {note.path for note in applied.errors} == {"d/v/big", "d/v/resource.json", "d/alone/big"}
    found = {str(path.relative_to(disk.place)) for path in (disk.place / "d").rglob("*") if path.is_file()}
    assert found == {"d/v/small", "d/w/resource.json", "d/w/view.json"} == disk.ours


def test_nothing_half_done_is_left_beside_what_is_whole(disk: Disk) -> None:
    writes = (disk.write("d/a", b"1"), disk.write("d/big", b"x" * 100_000), disk.write("d/c", b"1"))
    with full_disk(50_000):
        applied = disk.apply(SyncPlan(writes=writes))
    assert applied.added == ("d/a", "d/c")
    assert {path.name for path in (disk.place / "d").iterdir()} == {"a", "c"}


@pytest.mark.parametrize("fatal", [errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS])
def test_a_full_disk_stops_the_sync_before_the_first_change(disk: Disk, fatal: int) -> None:
    """The next file would fail as well, and half of a change is of no use."""
    disk.apply(SyncPlan(writes=(disk.write("d/a", b"1"),)))
    before = disk.ledger

    def fail() -> None:
        raise OSError(fatal, os.strerror(fatal))

    writes = (disk.write("d/a", b"2", replaces=True), disk.write("e/b", b"2"))
    with meanwhile("stage.write.after", fail), pytest.raises(Retry) as failed:
        disk.apply(SyncPlan(writes=writes))
    assert failed.value.reason is Reason.DATA_VOLUME_FAILED
    assert (disk.place / "d/a").read_bytes() == b"1"
    assert not (disk.place / "e").exists()
    assert disk.ledger == before


def test_a_folder_none_of_whose_files_could_be_staged_does_not_appear(disk: Disk) -> None:
    with full_disk(50_000):
        disk.apply(SyncPlan(writes=(disk.write("d/big", b"x" * 100_000), disk.write("e/small", b"1"))))
    assert not (disk.place / "d").exists()
    assert (disk.place / "e").exists()


def test_a_resource_json_waits_for_data_that_could_not_be_staged_into_a_folder_that_is_there(
    disk: Disk,
) -> None:
    (disk.place / "d").mkdir()
    with full_disk(50_000):
        applied = disk.apply(
            SyncPlan(writes=(disk.write("d/big", b"x" * 100_000), disk.write("d/resource.json", b"1")))
        )
    assert {note.path for note in applied.errors} == {"d/big", "d/resource.json"}
    assert list((disk.place / "d").iterdir()) == []


def test_the_pieces_of_a_file_that_failed_are_read_before_the_next(disk: Disk) -> None:
    """A source that streams can give the next content only after this one."""
    writes = [disk.write("d/a", b"x" * 100_000), disk.write("d/b", b"2")]
    left: list[int] = []

    def read(ids: Sequence[BlobId]) -> Iterator[Blob]:
        for blob in ids:
            assert not left
            content = disk.contents[blob]
            pieces = [content[at : at + 1000] for at in range(0, len(content), 1000)]
            left.extend(range(len(pieces)))

            def chunks(pieces: list[bytes] = pieces) -> Iterator[bytes]:
                for piece in pieces:
                    left.pop()
                    yield piece

            yield Blob(blob, len(content), chunks())

    with full_disk(50_000):
        applied = apply_plan(disk.folder, SyncPlan(writes=tuple(writes)), LedgerStore.load(disk.folder), read)
    assert applied.added == ("d/b",)


def test_a_file_does_not_make_room_for_one_that_could_not_be_staged(disk: Disk) -> None:
    disk.apply(SyncPlan(writes=(disk.write("d/a", b"old"),)))
    plan = SyncPlan(
        clearings=deletes("d/a"),
        writes=(disk.write("d/a/big", b"x" * 100_000),),
        prunable=frozenset({"d"}),
    )
    with full_disk(50_000):
        applied = disk.apply(plan)
    assert [note.path for note in applied.errors] == ["d/a/big"]
    assert (disk.place / "d/a").read_bytes() == b"old"
    assert disk.ours == {"d/a"}


def test_a_ledger_that_cannot_be_written_stops_the_sync_before_the_first_change(disk: Disk) -> None:
    plan = SyncPlan(writes=tuple(disk.write(f"d/{n}", b"1") for n in range(50)))
    with full_disk(500), pytest.raises(Retry) as failed:
        disk.apply(plan)
    assert failed.value.reason is Reason.DATA_VOLUME_FAILED
    assert not (disk.place / "d").exists()


def test_a_volume_that_cannot_be_staged_on_is_named(disk: Disk) -> None:
    (disk.place / ".sync-staging").write_text("in the way")
    with pytest.raises(Retry, match=rf"{disk.place} failed: '\.sync-staging' is not a folder") as failed:
        disk.apply(SyncPlan(writes=(disk.write("d/a", b"1"),)))
    assert failed.value.reason is Reason.DATA_VOLUME_FAILED
    assert not (disk.place / "d").exists()


def test_a_content_that_is_not_what_its_id_says_changes_nothing(disk: Disk) -> None:
    plan = SyncPlan(writes=(disk.write("d/a", b"1"), disk.write("d/b", b"2")))
    disk.contents[blob_of(b"2")] = b"3"
    with pytest.raises(Retry, match="another content") as failed:
        disk.apply(plan)
    assert failed.value.reason is Reason.GIT_FAILED
    assert not (disk.place / "d").exists()
    assert not (disk.place / ".sync-staging").exists()


def test_a_source_that_ends_too_early_changes_nothing(disk: Disk) -> None:
    plan = SyncPlan(writes=(disk.write("d/a", b"1"), disk.write("d/b", b"2")))
    with pytest.raises(Retry, match="fewer contents") as failed:
        apply_plan(disk.folder, plan, LedgerStore.load(disk.folder), lambda ids: disk.read(ids[:1]))
    assert failed.value.reason is Reason.GIT_FAILED
    assert not (disk.place / "d").exists()


def test_a_source_that_goes_on_too_long_changes_nothing(disk: Disk) -> None:
    plan = SyncPlan(writes=(disk.write("d/a", b"1"),))
    with pytest.raises(Retry, match="more contents") as failed:
        apply_plan(disk.folder, plan, LedgerStore.load(disk.folder), lambda ids: disk.read([*ids, *ids]))
    assert failed.value.reason is Reason.GIT_FAILED
    assert not (disk.place / "d").exists()


def test_before_the_first_change_the_ledger_says_what_is_intended(disk: Disk) -> None:
    (disk.place / "d").mkdir()
    plan = SyncPlan(writes=(disk.write("d/a", b"1"), disk.write("d/b", b"2")))
    seen: list[Ledger | None] = []

    def stopped() -> bool:
        seen.append(LedgerStore.load(disk.folder).ledger)
        return (disk.place / "d/a").exists()

    with pytest.raises(SyncStopped):
        disk.apply(plan, stopped=stopped)
    assert seen[0] is None  # while staging
    intended = seen[-1]
    assert intended is not None
    assert set(intended.intended) == {"d/a", "d/b"}
    assert disk.ours == {"d/a"}
    assert set(disk.ledger.intended) == {"d/b"}
    assert not disk.ledger.complete
    assert not (disk.place / "d/b").exists()
    assert not (disk.place / ".sync-staging").exists()


def test_a_stop_while_staging_leaves_no_trace(disk: Disk) -> None:
    with pytest.raises(SyncStopped):
        disk.apply(SyncPlan(writes=(disk.write("d/a", b"1"),)), stopped=lambda: True)
    assert list(disk.place.iterdir()) == []


def test_a_stop_between_deletions_leaves_no_empty_folder(disk: Disk) -> None:
    disk.apply(SyncPlan(writes=(disk.write("d/x/a", b"1"), disk.write("d/y/b", b"1"))))
    plan = SyncPlan(deletions=deletes("d/x/a", "d/y/b"), prunable=frozenset({"d"}))
    with pytest.raises(SyncStopped):
        disk.apply(plan, stopped=lambda: not (disk.place / "d/x/a").exists())
    assert [path.name for path in (disk.place / "d").iterdir()] == ["y"]
    assert disk.ours == {"d/y/b"}


def test_a_stop_takes_effect_between_new_folders_and_between_modes(disk: Disk) -> None:
    writes = tuple(disk.write(f"{name}/x", b"1") for name in ("d", "e"))
    with pytest.raises(SyncStopped):
        disk.apply(SyncPlan(writes=writes), stopped=(disk.place / "d/x").exists)
    assert not (disk.place / "e").exists()
    disk.apply(SyncPlan(writes=writes))
    version = FileVersion(blob_of(b"1"), executable=True)
    modes = tuple(SetFileMode(RelPath(f"{name}/x"), version) for name in ("d", "e"))
    with pytest.raises(SyncStopped):
        disk.apply(SyncPlan(modes=modes), stopped=lambda: os.access(disk.place / "d/x", os.X_OK))
    assert not os.access(disk.place / "e/x", os.X_OK)


def test_staged_files_of_a_killed_sync_go_also_when_nothing_is_to_be_written(disk: Disk) -> None:
    (disk.place / ".sync-staging/t0").mkdir(parents=True)
    disk.apply(SyncPlan())
    assert not (disk.place / ".sync-staging").exists()


def test_a_sync_leaves_no_descriptor_open(disk: Disk) -> None:
    (disk.place / "d").mkdir()
    before = open_below(disk.place)
    disk.apply(SyncPlan(writes=tuple(disk.write(path, b"1") for path in ("d/a", "d/b", "e/x/c"))))
    disk.apply(SyncPlan(deletions=deletes("d/a", "e/x/c"), prunable=frozenset({"d", "e"})))
    assert open_below(disk.place) <= before


def test_a_folder_that_cannot_be_made_in_staging_fails_its_files_alone(disk: Disk) -> None:
    def fail(name: str) -> None:
        if name == "stage.mkdir.before" and (disk.place / ".sync-staging/t0/a").exists():
            raise OSError(errno.EMLINK, "Too many links")

    writes = tuple(disk.write(f"d/{name}", b"1") for name in ("a/x", "b/resource.json", "b/y", "c"))
    failpoints.listen(fail)
    try:
        applied = disk.apply(SyncPlan(writes=writes))
    finally:
        failpoints.listen(None)
    assert applied.added == ("d/a/x", "d/c")
    assert {note.path: note.why for note in applied.errors} == dict.fromkeys(
        ("d/b/resource.json", "d/b/y"), "failed: Too many links"
    )
    assert not (disk.place / "d/b").exists()


def test_a_ledger_that_cannot_be_settled_is_not_hidden_and_nothing_is_lost(disk: Disk) -> None:
    plan = SyncPlan(writes=(disk.write("d/a", b"1"),))
    book = LedgerStore.load(disk.folder)

    def spoil() -> None:
        (disk.place / JOURNAL).mkdir()

    with meanwhile("folder.rename.after", spoil), pytest.raises(Retry) as failed:
        apply_plan(disk.folder, plan, book, disk.read)
    assert failed.value.reason is Reason.DATA_VOLUME_FAILED
    assert not book.unchanged_on_disk(disk.folder)
    (disk.place / JOURNAL).rmdir()
    assert set(disk.ledger.intended) == {"d/a"}


def test_the_bytes_of_a_large_file_are_never_all_in_memory(disk: Disk) -> None:
    piece, count = b"x" * (1 << 20), 50
    digest = BlobHash(len(piece) * count)
    for _ in range(count):
        digest.update(piece)
    write = WriteFile(RelPath("d/big"), FileVersion(digest.blob()), replaces=False)

    def read(ids: Sequence[BlobId]) -> Iterator[Blob]:
        return (Blob(one, len(piece) * count, (bytes(bytearray(piece)) for _ in range(count))) for one in ids)

    tracemalloc.start()
    try:
        applied = apply_plan(disk.folder, SyncPlan(writes=(write,)), LedgerStore.load(disk.folder), read)
        live = scan_folder(disk.folder, Ledger(), managed_folders=["d"], compared=["d/big"])
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert applied.bytes_written == len(piece) * count
    entry = live.found["d/big"]
    assert entry is not None
    assert entry.version == write.version
    assert peak < 6 * len(piece)


def written_bytes() -> int:
    counters = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return int(counters["wchar"])


def test_a_small_change_beside_a_large_ledger_writes_little_more_than_itself(disk: Disk) -> None:
    book = LedgerStore.load(disk.folder)
    kept = {
        f"d/folder{n % 100}/file{n}.json": encode_record(FileVersion(blob_of(b"%d" % n)))
        for n in range(10_000)
    }
    book.settle(disk.folder, kept, (), LedgerFacts(), complete=True)
    for turn in range(3):
        writes = tuple(
            disk.write(f"d/folder{n}/file{n}.json", os.urandom(7_000), replaces=True) for n in range(16)
        )
        before = written_bytes()
        applied = apply_plan(
            disk.folder, SyncPlan(writes=writes, facts=LedgerFacts(commit=f"c{turn}")), book, disk.read
        )
        spent = written_bytes() - before
        assert applied.bytes_written == 16 * 7_000
        assert applied.bytes_written < spent < 1.1 * applied.bytes_written
        before = written_bytes()
        apply_plan(disk.folder, SyncPlan(facts=LedgerFacts(commit=f"c{turn}")), book, disk.read)
        assert written_bytes() == before


def test_progress_is_reported(disk: Disk) -> None:
    lines: list[tuple[str, int, int]] = []
    (disk.place / "d").mkdir()
    plan = SyncPlan(writes=(disk.write("d/a", b"1"), disk.write("d/b", b"2")))
    apply_plan(
        disk.folder, plan, LedgerStore.load(disk.folder), disk.read, progress=lambda *step: lines.append(step)
    )
    assert lines == [("staging", 1, 2), ("staging", 2, 2), ("publishing", 1, 2), ("publishing", 2, 2)]


def test_folders_that_are_swapped_for_symlinks_all_the_time_let_nothing_out(
    disk: Disk, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "x").write_text("untouched")
    done = threading.Event()

    def flip() -> None:
        for number in itertools.takewhile(lambda _: not done.is_set(), itertools.count()):
            for name in ("P", "P/sub"):
                with suppress(OSError):
                    (disk.place / name).rename(disk.place / f"aside-{number}-{name.replace('/', '-')}")
                with suppress(OSError):
                    (disk.place / name).symlink_to(outside)
                done.wait(0.0002)
                with suppress(OSError):
                    (disk.place / name).unlink()

    flipping = threading.Thread(target=flip)
    flipping.start()
    written = refused = 0
    try:
        for turn in range(400):
            writes = (disk.write("P/x", b"%d" % turn), disk.write("P/sub/x", b"%d" % turn))
            applied = disk.apply(SyncPlan(writes=writes, deletions=deletes("P/x"), prunable=frozenset({"P"})))
            written += len(applied.added)
            refused += len(applied.errors)
    finally:
        done.set()
        flipping.join()
    assert written > 100
    assert refused > 10
    assert [(path.name, path.read_text()) for path in outside.iterdir()] == [("x", "untouched")]


def test_sizes_are_those_of_what_was_written(disk: Disk) -> None:
    applied = disk.apply(SyncPlan(writes=(disk.write("d/a", b"12345"),)))
    assert STAT.size == 33
    assert applied.bytes_written == 5
    assert (disk.place / MANIFEST).exists()
