"""One folder after another, each entered once."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from stoker.fs.data_folder import DataFolder
from stoker.fs.file_rules import FileRules
from stoker.fs.folder_cursor import DirWalk
from stoker_testkit.open_files import open_below


def test_open_folders_are_kept_and_closed_in_the_end(tmp_path: Path) -> None:
    (tmp_path / "a/b/c").mkdir(parents=True)
    (tmp_path / "a/d").mkdir()
    with DataFolder.opened(tmp_path) as folder:
        before = open_below(tmp_path)
        with DirWalk(folder.fd) as descent:
            assert descent.enter("") == folder.fd
            deep = descent.enter("a/b/c")
            assert descent.enter("a/b/c") == deep
            assert os.fstat(deep).st_ino == (tmp_path / "a/b/c").stat().st_ino
            assert os.fstat(descent.enter("a/d")).st_ino == (tmp_path / "a/d").stat().st_ino
            assert os.fstat(descent.enter("a")).st_ino == (tmp_path / "a").stat().st_ino
            assert open_below(tmp_path) == before + 1
            assert descent.enter("") == folder.fd
        assert open_below(tmp_path) == before


def test_the_blocking_path_is_reported_and_the_walk_goes_on_from_there(tmp_path: Path) -> None:
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / "a/file").touch()
    with DataFolder.opened(tmp_path) as folder, DirWalk(folder.fd) as descent:
        for path, held, blocked in (
            ("x/y", "", "x"),
            ("x", "", "x"),
            ("a/b/x/y/z", "a/b", "a/b/x"),
            ("a/file/x", "a", "a/file"),
        ):
            with pytest.raises(OSError, match=r"No such|not a folder"):
                descent.enter(path)
            assert descent.at == held
            assert descent.next_of(path) == blocked
        assert os.fstat(descent.enter("a/b")).st_ino == (tmp_path / "a/b").stat().st_ino


@pytest.mark.parametrize("new", [False, True])
def test_missing_folders_are_made_on_the_way(tmp_path: Path, new: bool) -> None:
    (tmp_path / "a").mkdir(mode=0o700)
    made: list[str] = []

    def make(above: int, name: str, path: str) -> int:
        made.append(path)
        return FileRules().make_folder(above, name)

    with DataFolder.opened(tmp_path) as folder, DirWalk(folder.fd, make, new=new) as descent:
        descent.enter("a/b/c")
        descent.enter("a/b/d")
    assert [path for path in made if path != "a"] == ["a/b", "a/b/c", "a/b/d"]
    assert (tmp_path / "a/b/d").is_dir()
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o700  # it was there before
