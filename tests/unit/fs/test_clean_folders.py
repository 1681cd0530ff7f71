"""A walk that remembers the one before it sees all that a fresh one would."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from stoker.domain.git_objects import FileVersion, blob_of
from stoker.engine.plan.ledger import Ledger, encode_record
from stoker.engine.plan.live import LiveDifferences
from stoker.fs import clean_folders, stat_stamp
from stoker.fs.clean_folders import CleanFolderCache
from stoker.fs.data_folder import DataFolder
from stoker.fs.find_changes import scan_folder
from stoker.fs.stat_stamp import FINE_TIMESTAMP_NS, encode_stamp
from stoker.fs.stop_check import StopCheck, SyncStopped, never_stop

SECOND = 1_000_000_000
LONG_AGO = 1_600_000_000_123_456_789


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[DataFolder]:
    with DataFolder.opened(tmp_path) as opened:
        yield opened


def put(path: Path, content: str = "1") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)


def remembered(data: Path, *paths: str) -> Ledger:
    """A ledger that has seen these files at rest."""
    version = {path: FileVersion(blob_of((data / path).read_bytes())) for path in paths}
    return Ledger({path: encode_record(version[path], encode_stamp((data / path).stat())) for path in paths})


def wait_for_the_clock() -> None:
    """Until what is done now gets other times than what was done before, and that is at rest."""
    begun = time.time_ns()
    while time.time_ns() - begun <= FINE_TIMESTAMP_NS:
        os.sched_yield()


class Walks:
    """Walks over one managed folder, each remembering those before it."""

    def __init__(self, folder: DataFolder) -> None:
        self._folder = folder
        self.visits = CleanFolderCache()

    def walk(self, ledger: Ledger, *compared: str, stopped: StopCheck = never_stop) -> LiveDifferences:
        return scan_folder(
            self._folder,
            ledger,
            managed_folders=["d"],
            compared=compared,
            visits=self.visits,
            stopped=stopped,
        )

    def fresh(self, ledger: Ledger, *compared: str) -> LiveDifferences:
        """What a walk without a memory sees."""
        return scan_folder(self._folder, ledger, managed_folders=["d"], compared=compared)


@pytest.fixture
def walks(folder: DataFolder) -> Walks:
    return Walks(folder)


def test_a_walk_that_remembers_does_not_enter_the_gateways_own_folders_either(
    tmp_path: Path, walks: Walks
) -> None:
    put(tmp_path / "d/p/ours")
    put(tmp_path / "d/p/.resources/theirs")
    ledger = remembered(tmp_path, "d/p/ours")
    wait_for_the_clock()
    for _ in range(3):
        live = walks.walk(ledger)
        assert live.found == {}
        assert live.opaque == {"d/p/.resources"}


def test_a_walk_that_remembers_names_a_file_that_the_ledger_forgot(tmp_path: Path, walks: Walks) -> None:
    put(tmp_path / "d/p/ours")
    put(tmp_path / "d/p/dropped")
    ledger = remembered(tmp_path, "d/p/ours", "d/p/dropped")
    wait_for_the_clock()
    assert walks.walk(ledger).found == {}
    assert "d/p" in walks.visits
    assert walks.walk(remembered(tmp_path, "d/p/ours")).found.keys() == {"d/p/dropped"}


def test_a_walk_that_remembers_sees_a_folder_where_a_file_shall_be(tmp_path: Path, walks: Walks) -> None:
    put(tmp_path / "d/p/sub/ours")
    ledger = remembered(tmp_path, "d/p/sub/ours")
    wait_for_the_clock()
    assert walks.walk(ledger).found == {}
    assert "d/p" in walks.visits
    live = walks.walk(ledger, "d/p/sub")
    assert live.found.keys() == {"d/p/sub"}
    assert live == walks.fresh(ledger, "d/p/sub")


def test_a_walk_that_remembers_finds_an_edit_that_keeps_size_and_date(tmp_path: Path, walks: Walks) -> None:
    put(tmp_path / "d/p/ours", "1")
    ledger = remembered(tmp_path, "d/p/ours")
    before = (tmp_path / "d/p/ours").stat()
    wait_for_the_clock()
    assert walks.walk(ledger).found == {}
    assert "d/p" in walks.visits
    (tmp_path / "d/p/ours").write_text("2")
    os.utime(tmp_path / "d/p/ours", ns=(before.st_atime_ns, before.st_mtime_ns))
    entry = walks.walk(ledger).found["d/p/ours"]
    assert entry is not None
    assert entry.version == FileVersion(blob_of(b"2"))


def test_a_walk_that_remembers_finds_what_came_into_a_folder_whose_date_was_set_back(
    tmp_path: Path, walks: Walks
) -> None:
    put(tmp_path / "d/p/ours")
    ledger = remembered(tmp_path, "d/p/ours")
    before = (tmp_path / "d/p").stat()
    wait_for_the_clock()
    assert walks.walk(ledger).found == {}
    put(tmp_path / "d/p/theirs")
    os.utime(tmp_path / "d/p", ns=(before.st_atime_ns, before.st_mtime_ns))
    assert walks.walk(ledger).found.keys() == {"d/p/theirs"}


def test_what_comes_while_a_folder_is_walked_is_found_by_the_next_walk(
    tmp_path: Path, walks: Walks, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its times are those from before it was listed, so that nothing slips in between."""
    monkeypatch.setattr(
        stat_stamp, "FINE_TIMESTAMP_NS", 0
    )  # otherwise the new times alone were reason enough
    put(tmp_path / "d/p/sub/ours")
    ledger = remembered(tmp_path, "d/p/sub/ours")
    wait_for_the_clock()
    looks = iter(["d", "d/p", "d/p/sub"])

    def meanwhile() -> bool:
        if next(looks, None) == "d/p/sub":  # by now all of `p` was listed
            put(tmp_path / "d/p/theirs")
        return False

    assert walks.walk(ledger, stopped=meanwhile).found == {}
    wait_for_the_clock()
    assert walks.walk(ledger).found.keys() == {"d/p/theirs"}


def test_a_walk_with_clean_folders_stops_when_cancelled(tmp_path: Path, walks: Walks) -> None:
    put(tmp_path / "d/p/ours")
    ledger = remembered(tmp_path, "d/p/ours")
    wait_for_the_clock()
    walks.walk(ledger)
    assert "d/p" in walks.visits
    looks = iter([False, True])
    with pytest.raises(SyncStopped):
        walks.walk(ledger, stopped=lambda: next(looks))


def times(*, mtime: int = LONG_AGO, ctime: int = LONG_AGO, ino: int = 7, dev: int = 8) -> os.stat_result:
    seconds = {"st_mtime_ns": mtime, "st_ctime_ns": ctime, "st_atime_ns": LONG_AGO}
    return os.stat_result((0o40755, ino, dev, 2, 0, 0, 4096, 0, 0, 0), seconds)


@pytest.mark.parametrize(
    "other",
    [times(mtime=LONG_AGO + 1), times(ctime=LONG_AGO + 1), times(ino=9), times(dev=9)],
    ids=["written", "changed", "another folder", "another volume"],
)
def test_a_folder_of_which_anything_is_other_than_before_is_listed_again(other: os.stat_result) -> None:
    visits = CleanFolderCache()
    assert visits.keep("d", times(), ["a"], ["b"])
    assert visits.unchanged("d", times()) is not None
    assert visits.unchanged("d", other) is None


@pytest.mark.parametrize("what", ["mtime", "ctime"])
def test_a_folder_that_changed_just_now_is_not_remembered(what: str) -> None:
    visits = CleanFolderCache()
    assert visits.keep("d", times(), [], [])
    soon = (time.time_ns() // SECOND + 1) * SECOND  # a whole second, which counts for more than two
    assert not visits.keep("d", times(**{what: soon}), [], [])
    assert "d" not in visits


def test_only_so_many_folders_are_remembered_and_those_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clean_folders, "MAX_FOLDERS", 2)
    visits = CleanFolderCache()
    assert [visits.keep(name, times(), [], []) for name in ("a", "b", "c")] == [True, True, False]
    assert "c" not in visits
    assert visits.keep("a", times(mtime=LONG_AGO + 1), ["new"], [])
    assert visits.unchanged("a", times(mtime=LONG_AGO + 1)) is not None
