"""Modes and owners are ours to give, never the repository's."""

from __future__ import annotations

import ctypes
import os
import stat
from pathlib import Path

import pytest

from stoker.domain.errors import Misconfigured
from stoker.fs.file_rules import FileRules


def test_a_folder_has_its_mode_whatever_the_umask_of_the_process(tmp_path: Path) -> None:
    above = os.open(tmp_path, os.O_RDONLY)
    before = os.umask(0o077)
    try:
        for name, umask in (("open", 0), ("group", 0o027), ("closed", 0o777)):
            os.close(FileRules(umask=umask).make_folder(above, name))
    finally:
        os.umask(before)
        os.close(above)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    assert modes == {"open": 0o755, "group": 0o750, "closed": 0o700}


def test_a_folder_that_is_there_stays_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "theirs").mkdir(mode=0o711)
    above = os.open(tmp_path, os.O_RDONLY)
    os.close(FileRules().make_folder(above, "theirs"))
    os.close(above)
    assert stat.S_IMODE((tmp_path / "theirs").stat().st_mode) == 0o711


def test_the_umask_takes_from_files_what_it_says() -> None:
    assert [FileRules(umask=0o027).mode(mode) for mode in (0o644, 0o755)] == [0o640, 0o750]


def test_the_default_owner_is_the_data_folders_if_we_may_give_files_away(tmp_path: Path) -> None:
    fd = os.open(tmp_path, os.O_RDONLY)
    found = os.fstat(fd)
    mine = (found.st_uid, found.st_gid) if os.geteuid() == 0 else None
    assert FileRules().within(fd).owner == mine
    assert FileRules((1, 2)).within(fd).owner == (1, 2)
    os.close(fd)


def test_an_owner_that_cannot_be_set_is_a_wrong_setting(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.touch()
    fd = os.open(path, os.O_RDWR)
    libc = ctypes.CDLL(None)
    libc.setfsuid(65534)  # root may give files away; in this thread it may not any more
    try:
        with pytest.raises(Misconfigured, match="cannot be given to 7:8"):
            FileRules((7, 8)).enforce(fd, 0o644)
    finally:
        libc.setfsuid(os.geteuid())
        os.close(fd)
