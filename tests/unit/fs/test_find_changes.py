"""Differences between the disk and the ledger, by content and without following symlinks."""

from __future__ import annotations

import ctypes
import os
import re
import time
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from stoker.domain.errors import Retry
from stoker.domain.git_objects import FileVersion, blob_of
from stoker.domain.paths import RelPath
from stoker.domain.reasons import Reason
from stoker.engine.layout.protected_paths import PROTECTED_PATHS
from stoker.engine.plan.ledger import UNSEEN_STAT, Ledger, encode_record
from stoker.engine.plan.live import LiveDifferences
from stoker.fs import find_changes
from stoker.fs.data_folder import DataFolder
from stoker.fs.find_changes import scan_folder
from stoker.fs.stat_stamp import COARSE_TIMESTAMP_NS, encode_stamp
from stoker.fs.stop_check import SyncStopped


def scanned(
    data: Path,
    *compared: str,
    ledger: Ledger | None = None,
    folders: tuple[str, ...] = ("d",),
    files: tuple[str, ...] = (),
    walk: bool = True,
    digits: int = 40,
) -> LiveDifferences:
    with DataFolder.opened(data) as folder:
        return scan_folder(
            folder,
            ledger or Ledger(),
            managed_folders=folders,
            managed_files=files,
            compared=compared,
            walk=walk,
            digits=digits,
        )


def put(path: Path, content: str = "", mode: int = 0o644) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    path.chmod(mode)


def remembered(data: Path, *paths: str) -> Ledger:
    """A ledger that has seen these files at rest."""
    files = {}
    for path in paths:
        found = (data / path).stat()
        version = FileVersion(blob_of((data / path).read_bytes()), bool(found.st_mode & 0o100))
        files[path] = encode_record(version, encode_stamp(found))
    return Ledger(files)


def kinds(live: LiveDifferences) -> dict[str, str | None]:
    return {path: entry.kind.name if entry is not None else None for path, entry in live.found.items()}


def test_files_that_matter_are_named_by_content_and_others_only_listed(tmp_path: Path) -> None:
    put(tmp_path / "d/a", "1", 0o755)
    put(tmp_path / "d/sub/theirs", "2")
    put(tmp_path / "elsewhere", "3")
    live = scanned(tmp_path, "d/a", "d/gone")
    assert kinds(live) == {"d/a": "FILE", "d/sub/theirs": "FILE"}
    assert live.walked
    assert {path: entry.version for path, entry in live.found.items() if entry} == {
        "d/a": FileVersion(blob_of(b"1"), True),
        "d/sub/theirs": None,
    }


def test_what_is_as_the_ledger_says_is_not_mentioned_and_not_read(tmp_path: Path) -> None:
    put(tmp_path / "d/a", "1")
    put(tmp_path / "d/sub/run", "2", 0o755)
    ledger = remembered(tmp_path, "d/a", "d/sub/run")
    os.utime(tmp_path / "d", ns=(1, 1))  # a folder's own date does not matter
    read = (tmp_path / "d/a").stat().st_atime_ns
    for walk in (True, False):
        assert scanned(tmp_path, "d/a", ledger=ledger, walk=walk).found == {}
    assert (tmp_path / "d/a").stat().st_atime_ns == read


def test_what_changed_is_read_what_is_gone_is_none(tmp_path: Path) -> None:
    for name in ("edited", "touched", "gone", "folder", "link", "mode"):
        put(tmp_path / "d" / name, "1")
    names = [f"d/{name}" for name in ("edited", "touched", "gone", "folder", "link", "mode")]
    ledger = remembered(tmp_path, *names)
    (tmp_path / "d/edited").write_text("2")
    os.utime(tmp_path / "d/touched")
    (tmp_path / "d/mode").chmod(0o755)
    for name in ("gone", "folder", "link"):
        (tmp_path / "d" / name).unlink()
    put(tmp_path / "d/folder/inside")
    (tmp_path / "d/link").symlink_to("/etc/passwd")
    for walk in (True, False):
        live = scanned(tmp_path, *names, ledger=ledger, walk=walk)
        versions = {path: entry.version for path, entry in live.found.items() if entry}
        assert versions == {
            "d/edited": FileVersion(blob_of(b"2")),
            "d/touched": FileVersion(blob_of(b"1")),
            "d/mode": FileVersion(blob_of(b"1"), True),
            "d/folder": None,
            "d/folder/inside": None,
            "d/link": None,
        }
        assert kinds(live)["d/gone"] is None
        assert (kinds(live)["d/folder"], kinds(live)["d/link"]) == ("FOLDER", "SYMLINK")


def test_an_edit_that_keeps_size_and_date_is_found(tmp_path: Path) -> None:
    put(tmp_path / "d/a", "1")
    before = (tmp_path / "d/a").stat()
    ledger = remembered(tmp_path, "d/a")
    time.sleep(0.02)  # the clock of the filesystem has to move, which is what the ledger waits for too
    (tmp_path / "d/a").write_text("2")
    os.utime(tmp_path / "d/a", ns=(before.st_atime_ns, before.st_mtime_ns))
    entry = scanned(tmp_path, ledger=ledger).found["d/a"]
    assert entry is not None
    assert entry.version == FileVersion(blob_of(b"2"))


def test_a_file_that_was_never_seen_at_rest_is_read_and_then_stamped(tmp_path: Path) -> None:
    put(tmp_path / "d/a", "1")
    fresh = Ledger({"d/a": encode_record(FileVersion(blob_of(b"1")))})
    entry = scanned(tmp_path, ledger=fresh).found["d/a"]
    assert entry is not None
    assert (entry.version, entry.stat) == (FileVersion(blob_of(b"1")), UNSEEN_STAT)  # it was written just now
    deadline = time.time_ns() + 2 * COARSE_TIMESTAMP_NS
    while entry.stat == UNSEEN_STAT:
        assert time.time_ns() < deadline
        entry = scanned(tmp_path, ledger=fresh).found["d/a"]
        assert entry is not None
    assert entry.stat == encode_stamp((tmp_path / "d/a").stat())
    assert (
        scanned(tmp_path, ledger=Ledger({"d/a": encode_record(FileVersion(blob_of(b"1")), entry.stat)})).found
        == {}
    )


@pytest.mark.parametrize("digits", [40, 64])
def test_ids_are_those_of_the_repository(tmp_path: Path, digits: int) -> None:
    put(tmp_path / "d/a", "x" * 3_000_000)
    entry = scanned(tmp_path, "d/a", digits=digits).found["d/a"]
    assert entry is not None
    assert entry.version == FileVersion(blob_of(b"x" * 3_000_000, digits=digits))


def test_a_path_outside_the_managed_folders_is_looked_up_alone(tmp_path: Path) -> None:
    put(tmp_path / "e/f/ours", "1")
    put(tmp_path / "e/f/theirs", "1")
    put(tmp_path / "old/mapping", "1")
    ledger = remembered(tmp_path, "old/mapping")
    assert kinds(scanned(tmp_path, "e/f/ours", "x/y/z", ledger=ledger)) == {"e/f/ours": "FILE"}
    (tmp_path / "old/mapping").unlink()
    assert kinds(scanned(tmp_path, ledger=ledger)) == {"old/mapping": None}
    (tmp_path / "old").rmdir()
    (tmp_path / "old").symlink_to("e")
    assert kinds(scanned(tmp_path, ledger=ledger)) == {"old": "SYMLINK", "old/mapping": None}


def test_without_a_walk_only_what_was_asked_for_is_looked_at(tmp_path: Path) -> None:
    put(tmp_path / "d/a", "1")
    put(tmp_path / "d/b", "1")
    put(tmp_path / "d/stranger", "1")
    ledger = remembered(tmp_path, "d/a", "d/b")
    (tmp_path / "d/a").unlink()
    (tmp_path / "d/b").unlink()
    live = scanned(tmp_path, "d/a", "d/new/x", ledger=ledger, walk=False)
    assert kinds(live) == {"d/a": None}
    assert not live.walked


def test_symlinks_and_special_files_are_seen_and_not_followed(tmp_path: Path) -> None:
    put(tmp_path / "outside/secret", "1")
    (tmp_path / "d").mkdir()
    (tmp_path / "d/link").symlink_to(tmp_path / "outside")
    (tmp_path / "d/file").symlink_to(tmp_path / "outside/secret")
    os.mkfifo(tmp_path / "d/pipe")
    asked = ("d/link/secret", "d/file", "d/pipe")
    for walk in (True, False):
        live = scanned(tmp_path, *asked, walk=walk)
        assert kinds(live) == {"d/link": "SYMLINK", "d/file": "SYMLINK", "d/pipe": "SPECIAL"}


@pytest.mark.parametrize("walk", [True, False])
def test_a_file_above_a_managed_folder_is_in_the_way(tmp_path: Path, walk: bool) -> None:
    put(tmp_path / "outside/P/x", "1")
    (tmp_path / "projects").symlink_to(tmp_path / "outside")
    put(tmp_path / "file", "1")
    ledger = Ledger({"projects/P/x": encode_record(FileVersion(blob_of(b"1")))})
    live = scanned(
        tmp_path, "projects/P/x", "file/a/b", ledger=ledger, folders=("projects/P", "file/a"), walk=walk
    )
    assert kinds(live) == {"projects": "SYMLINK", "projects/P/x": None, "file": "FILE"}


def test_a_file_of_ours_that_is_in_the_way_is_no_difference(tmp_path: Path) -> None:
    put(tmp_path / "projects", "1")
    ledger = remembered(tmp_path, "projects")
    for walk in (True, False):
        compared = ("projects", "projects/P/x")
        assert scanned(tmp_path, *compared, ledger=ledger, folders=("projects/P",), walk=walk).found == {}


def test_nothing_hides_behind_a_file_that_is_counted_twice(tmp_path: Path) -> None:
    put(tmp_path / "projects", "1")
    put(tmp_path / "d/gone", "1")
    ledger = remembered(tmp_path, "projects", "d/gone")
    (tmp_path / "d/gone").unlink()
    live = scanned(
        tmp_path, "projects", "projects/P/x", "projects/Q", ledger=ledger, folders=("d", "projects/P")
    )
    assert kinds(live) == {"d/gone": None}


def test_the_gateways_own_folders_are_not_listed(tmp_path: Path) -> None:
    for name in ("d/.resources", "d/x/y/z/.Resources", "d/x/.sync-state"):
        put(tmp_path / name / "x", "1")
    live = scanned(tmp_path, "d/.resources/y")
    assert kinds(live) == {}
    assert live.opaque == {"d/.resources", "d/x/y/z/.Resources", "d/x/.sync-state"}
    put(tmp_path / "config/resources/local/x", "1")
    put(tmp_path / "config/resources/core/x", "1")
    live = scanned(tmp_path, folders=("config",))
    assert kinds(live) == {"config/resources/core/x": "FILE"}
    assert live.opaque == {"config/resources/local"}


def test_the_shortcut_of_the_exclude_check_protects_as_much() -> None:
    """A folder with a plain name, deep enough, is entered without asking: the shield must hold no such."""
    for pattern in PROTECTED_PATHS.patterns:
        if pattern.startswith("**/"):
            assert not find_changes._PLAIN(pattern[3:].rstrip("/"))
        else:
            assert not re.search(r"\*\*", pattern)
            assert pattern.count("/") <= find_changes._TOP


def test_a_folder_with_names_that_are_no_paths_holds_more_than_is_listed(tmp_path: Path) -> None:
    put(tmp_path / "d/a\\b")
    put(tmp_path / "d/ends with space ")
    put(tmp_path / "d/x/.git/config")
    put(tmp_path / "d/y/C:/z")
    (tmp_path / os.fsdecode(b"d/z")).mkdir()
    (tmp_path / os.fsdecode(b"d/z/\xff")).touch()
    live = scanned(tmp_path)
    assert kinds(live) == {}
    assert live.opaque == {"d", "d/x", "d/y", "d/z"}


def test_folders_deeper_than_any_path_are_not_entered(tmp_path: Path) -> None:
    fd = os.open(tmp_path, os.O_RDONLY)
    for _ in range(300):
        os.mkdir("d", dir_fd=fd)
        below = os.open("d", os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = below
    os.close(fd)
    live = scanned(tmp_path)
    assert kinds(live) == {}
    assert live.opaque == {"/".join("d" * 128)}


def test_a_folder_in_the_place_of_a_file_is_listed(tmp_path: Path) -> None:
    put(tmp_path / "f/theirs")
    for walk in (True, False):
        live = scanned(tmp_path, "f", folders=(), files=("f",), walk=walk)
        assert kinds(live) == {"f": "FOLDER", "f/theirs": "FILE"}


def test_managed_files_are_looked_at_one_by_one(tmp_path: Path) -> None:
    put(tmp_path / "config/a.json", "1")
    put(tmp_path / "config/b.json", "1")
    put(tmp_path / "config/theirs.json", "1")
    ledger = remembered(tmp_path, "config/a.json", "config/b.json")
    (tmp_path / "config/b.json").write_text("2!")
    live = scanned(tmp_path, ledger=ledger, folders=(), files=("config/a.json", "config/b.json"))
    assert kinds(live) == {"config/b.json": "FILE"}


@contextmanager
def without_privileges(data: Path) -> Iterator[DataFolder]:
    """Root may enter every folder; in this thread it may not any more."""
    data.chmod(0o755)
    libc = ctypes.CDLL(None)
    with DataFolder.opened(data) as folder:
        if os.geteuid() == 0:
            libc.setfsuid(65534)
        try:
            yield folder
        finally:
            libc.setfsuid(os.geteuid())


@pytest.mark.parametrize("mode", [0o000, 0o444], ids=oct)
def test_a_folder_that_cannot_be_entered_stops_the_sync_where_it_matters(tmp_path: Path, mode: int) -> None:
    put(tmp_path / "d/sub/ours", "1")
    put(tmp_path / "d/theirs/x", "1")
    ledger = remembered(tmp_path, "d/sub/ours")
    for name in ("d/sub", "d/theirs"):
        (tmp_path / name).chmod(mode)
    result = "d/sub/ours failed: Permission denied" if mode else "d/sub failed: Permission denied"
    try:
        with without_privileges(tmp_path) as folder:
            live = scan_folder(folder, Ledger(), managed_folders=["d"])
            with pytest.raises(Retry, match=result) as failed:
                scan_folder(folder, Ledger(), managed_folders=["d"], compared=["d/sub/ours"])
            with pytest.raises(Retry, match=result):
                scan_folder(folder, ledger, managed_folders=["d"])
            with pytest.raises(Retry, match=result):
                scan_folder(folder, ledger, compared=["d/sub/ours"], walk=False)
    finally:
        for name in ("d/sub", "d/theirs"):
            (tmp_path / name).chmod(0o755)
    assert live.opaque == {"d/sub", "d/theirs"}
    assert failed.value.reason is Reason.DATA_VOLUME_FAILED


def test_a_managed_folder_that_cannot_be_listed_is_named(tmp_path: Path) -> None:
    put(tmp_path / "d/a")
    (tmp_path / "d").chmod(0o000)
    with without_privileges(tmp_path) as folder, pytest.raises(Retry, match="/d failed"):
        scan_folder(folder, Ledger(), managed_folders=["d"])
    (tmp_path / "d").chmod(0o755)


def test_a_file_that_cannot_be_read_differs_from_any_other(tmp_path: Path) -> None:
    put(tmp_path / "d/a", "1")
    ledger = Ledger({"d/a": encode_record(FileVersion(blob_of(b"1")))})
    (tmp_path / "d/a").chmod(0o000)
    with without_privileges(tmp_path) as folder:
        entry = scan_folder(folder, ledger, managed_folders=["d"]).found["d/a"]
    assert entry is not None
    assert entry.version is None


def test_managed_folders_within_each_other_are_listed_once(tmp_path: Path) -> None:
    put(tmp_path / "d/e/f", "1")
    put(tmp_path / "d-e/f", "1")
    put(tmp_path / "d/gone", "1")
    ledger = remembered(tmp_path, "d/e/f", "d/gone")
    (tmp_path / "d/gone").unlink()
    live = scanned(tmp_path, ledger=ledger, folders=("d/e", "d", "d-e"))
    assert kinds(live) == {"d/gone": None, "d-e/f": "FILE"}


def test_an_empty_volume_has_nothing(tmp_path: Path) -> None:
    assert scanned(tmp_path, "d/a").found == {}
    assert scanned(tmp_path, "d/a", walk=False).found == {}


def test_it_stops_when_cancelled(tmp_path: Path) -> None:
    put(tmp_path / "d/e/f", "1")
    with DataFolder.opened(tmp_path) as folder, pytest.raises(SyncStopped):
        scan_folder(folder, Ledger(), managed_folders=["d"], stopped=lambda: True)


def test_untouched_files_are_not_remembered(tmp_path: Path) -> None:
    names = [f"d/folder{n % 40}/file{n}" for n in range(2000)]
    for name in names:
        put(tmp_path / name)
    ledger = remembered(tmp_path, *names)
    with DataFolder.opened(tmp_path) as folder:
        scan_folder(folder, ledger, managed_folders=["d"])
        tracemalloc.start()
        try:
            assert scan_folder(folder, ledger, managed_folders=["d"]).found == {}
            assert tracemalloc.get_traced_memory()[1] < 100_000
        finally:
            tracemalloc.stop()


def test_paths_may_come_as_values_of_their_own(tmp_path: Path) -> None:
    put(tmp_path / "d/a", "1")
    with DataFolder.opened(tmp_path) as folder:
        live = scan_folder(folder, Ledger(), managed_folders={RelPath("d")}, compared={RelPath("d/a")})
    assert live.at("d/a", Ledger()) is not None
