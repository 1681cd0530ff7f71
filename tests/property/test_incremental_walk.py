"""A walk that remembers the last one sees what a walk that remembers nothing sees."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker.domain.git_objects import FileVersion, blob_of
from stoker.engine.plan.ledger import Ledger, encode_record
from stoker.engine.plan.live import LiveDifferences
from stoker.fs import stat_stamp
from stoker.fs.clean_folders import CleanFolderCache
from stoker.fs.data_folder import DataFolder
from stoker.fs.find_changes import scan_folder
from stoker.fs.stat_stamp import encode_stamp

FOLDERS = ("d", "d/a", "d/a/b", "d/c")
FILES = tuple(f"{folder}/{name}" for folder in FOLDERS for name in ("x", "resource.json"))
places = st.sampled_from((*FILES, *FOLDERS, "d/new", "d/a/new"))
deeds = st.tuples(st.sampled_from(["edit", "touch", "remove", "link", "folder", "replace", "mode"]), places)


def do(root: Path, deed: str, place: str) -> None:
    """What other processes may do to a data folder, as far as it can be done there."""
    path = root / place
    try:
        if deed == "edit":
            path.write_text("edited")
        elif deed == "touch":
            os.utime(path)
        elif deed == "remove":
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
        elif deed == "link":
            path.unlink()
            path.symlink_to(root / "outside")  # a later "edit" writes through it
        elif deed == "folder":
            path.mkdir()
        elif deed == "replace":
            (root / "aside").write_text("x" + place)
            (root / "aside").rename(path)
        else:
            path.chmod(0o755)
    except OSError:
        return


def wait_for_the_clock() -> None:
    """Until what is done now gets other times than what was done before."""
    begun = time.monotonic_ns()
    while time.monotonic_ns() - begun < 12_000_000:  # a coarse clock moves at least every 10 ms
        os.sched_yield()


@pytest.fixture(autouse=True, scope="module")
def folders_are_at_rest_at_once() -> Iterator[None]:
    """So that what was just made is remembered; the test waits for the clock by itself."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stat_stamp, "FINE_TIMESTAMP_NS", 0)
        yield


@settings(max_examples=60, deadline=None)
@given(rounds=st.lists(st.lists(deeds, max_size=3), min_size=1, max_size=4))
def test_what_is_remembered_hides_nothing(rounds: list[list[tuple[str, str]]]) -> None:
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        files = {}
        for place in FILES:
            (root / place).parent.mkdir(parents=True, exist_ok=True)
            (root / place).write_text(place)
            files[place] = encode_record(
                FileVersion(blob_of(place.encode())), encode_stamp((root / place).stat())
            )
        ledger, visits = Ledger(files, folders=frozenset({"d"})), CleanFolderCache()
        with DataFolder.opened(root) as folder:

            def walked(memory: CleanFolderCache | None) -> LiveDifferences:
                return scan_folder(folder, ledger, managed_folders=("d",), compared=("d/new",), visits=memory)

            for doings in rounds:
                walked(visits)
                wait_for_the_clock()
                for deed, place in doings:
                    do(root, deed, place)
                assert walked(visits) == walked(None)
