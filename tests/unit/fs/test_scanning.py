"""The live state, by content, without following anything."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from stoker.domain.errors import Retry
from stoker.domain.paths import RelPath
from stoker.domain.reasons import Reason
from stoker.engine.ledger import Live, LiveKind
from stoker.engine.mapping import Managed
from stoker.engine.objects import blob_of
from stoker.fs.confined import DataFolder
from stoker.fs.scanning import scan


def scanned(data: Path, *compared: str, folders: tuple[str, ...] = ("d",), digits: int = 40) -> Live:
    managed = Managed(folders=frozenset(map(RelPath, folders)))
    with DataFolder.opened(data) as folder:
        return scan(folder, managed, frozenset(map(RelPath, compared)), digits=digits)


def put(path: Path, content: str = "", mode: int = 0o644) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    path.chmod(mode)


def kinds(live: Live) -> dict[str, str]:
    return {str(path): entry.kind.name for path, entry in live.entries.items()}


def test_files_that_matter_are_named_by_content_and_others_only_listed(tmp_path: Path) -> None:
    put(tmp_path / "d/a", "1")
    put(tmp_path / "d/sub/run", "2", 0o755)
    put(tmp_path / "elsewhere", "3")
    live = scanned(tmp_path, "d/a", "d/gone")
    assert kinds(live) == {"d": "FOLDER", "d/a": "FILE", "d/sub": "FOLDER", "d/sub/run": "FILE"}
    assert live.blob(RelPath("d/a")) == blob_of(b"1")
    assert live.blob(RelPath("d/sub/run")) is None
    assert live.entries[RelPath("d/sub/run")].executable


@pytest.mark.parametrize("digits", [40, 64])
def test_ids_are_those_of_the_repository(tmp_path: Path, digits: int) -> None:
    put(tmp_path / "d/a", "x" * 3_000_000)
    assert scanned(tmp_path, "d/a", digits=digits).blob(RelPath("d/a")) == blob_of(
        b"x" * 3_000_000, digits=digits
    )


def test_a_path_outside_the_managed_folders_is_looked_up_alone(tmp_path: Path) -> None:
    put(tmp_path / "e/f/ours", "1")
    put(tmp_path / "e/f/theirs", "1")
    live = scanned(tmp_path, "e/f/ours", "x/y/z")
    assert kinds(live) == {"e": "FOLDER", "e/f": "FOLDER", "e/f/ours": "FILE"}
    assert live.blob(RelPath("e/f/ours")) == blob_of(b"1")


def test_symlinks_and_special_files_are_seen_and_not_followed(tmp_path: Path) -> None:
    put(tmp_path / "outside/secret", "1")
    (tmp_path / "d").mkdir()
    (tmp_path / "d/link").symlink_to(tmp_path / "outside")
    (tmp_path / "d/file").symlink_to(tmp_path / "outside/secret")
    os.mkfifo(tmp_path / "d/pipe")
    live = scanned(tmp_path, "d/link/secret", "d/file", "d/pipe")
    assert kinds(live) == {"d": "FOLDER", "d/link": "SYMLINK", "d/file": "SYMLINK", "d/pipe": "SPECIAL"}


def test_a_symlink_above_a_managed_folder_is_what_stands_in_the_way(tmp_path: Path) -> None:
    put(tmp_path / "outside/P/x", "1")
    (tmp_path / "projects").symlink_to(tmp_path / "outside")
    live = scanned(tmp_path, "projects/P/x", folders=("projects/P",))
    assert kinds(live) == {"projects": "SYMLINK"}


def test_a_file_above_a_managed_folder_is_what_stands_in_the_way(tmp_path: Path) -> None:
    put(tmp_path / "projects")
    assert kinds(scanned(tmp_path, "projects/P/x", folders=("projects/P",))) == {"projects": "FILE"}


def test_the_gateways_own_folders_are_not_listed(tmp_path: Path) -> None:
    put(tmp_path / "d/.resources/x", "1")
    live = scanned(tmp_path, "d/.resources/y")
    assert kinds(live) == {"d": "FOLDER", "d/.resources": "FOLDER"}
    assert live.opaque == {"d/.resources"}


def test_a_folder_with_names_that_are_no_paths_holds_more_than_is_listed(tmp_path: Path) -> None:
    put(tmp_path / "d/a\\b")
    put(tmp_path / "d/ends with space ")
    (tmp_path / os.fsdecode(b"d/\xff")).touch()
    live = scanned(tmp_path)
    assert kinds(live) == {"d": "FOLDER"}
    assert live.opaque == {"d"}


def test_a_folder_in_the_place_of_a_managed_file_is_listed(tmp_path: Path) -> None:
    put(tmp_path / "f/theirs")
    with DataFolder.opened(tmp_path) as folder:
        live = scan(folder, Managed(files=frozenset({RelPath("f")})), {RelPath("f")}, digits=40)
    assert kinds(live) == {"f": "FOLDER", "f/theirs": "FILE"}


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
def test_a_folder_that_cannot_be_entered_stops_the_pass_where_it_matters(tmp_path: Path, mode: int) -> None:
    put(tmp_path / "d/sub/ours", "1")
    put(tmp_path / "d/theirs/x", "1")
    for name in ("d/sub", "d/theirs"):
        (tmp_path / name).chmod(mode)
    managed = Managed(folders=frozenset({RelPath("d")}))
    with without_privileges(tmp_path) as folder:
        live = scan(folder, managed, frozenset(), digits=40)
        with pytest.raises(Retry, match="d/sub/ours failed: Permission denied") as failed:
            scan(folder, managed, {RelPath("d/sub/ours")}, digits=40)
    for name in ("d/sub", "d/theirs"):
        (tmp_path / name).chmod(0o755)
    assert live.opaque == {"d/sub", "d/theirs"}
    assert failed.value.reason is Reason.DATA_VOLUME_FAILED


def test_a_managed_folder_that_cannot_be_listed_is_named(tmp_path: Path) -> None:
    put(tmp_path / "d/a")
    (tmp_path / "d").chmod(0o000)
    managed = Managed(folders=frozenset({RelPath("d")}))
    with without_privileges(tmp_path) as folder, pytest.raises(Retry, match="/d failed"):
        scan(folder, managed, frozenset(), digits=40)
    (tmp_path / "d").chmod(0o755)


def test_managed_folders_within_each_other_are_listed_once(tmp_path: Path) -> None:
    put(tmp_path / "d/e/f", "1")
    live = scanned(tmp_path, "d/e/f", folders=("d", "d/e"))
    assert kinds(live) == {"d": "FOLDER", "d/e": "FOLDER", "d/e/f": "FILE"}
    assert live.entries[RelPath("d/e/f")].kind is LiveKind.FILE


def test_an_empty_volume_has_nothing(tmp_path: Path) -> None:
    assert scanned(tmp_path, "d/a").entries == {}
