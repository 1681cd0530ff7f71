"""Nothing outside the data folder can be reached, whatever lies in it."""

from __future__ import annotations

import errno
import itertools
import os
import stat
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from stoker.domain.errors import Misconfigured
from stoker.domain.paths import RelPath
from stoker.fs.confined import DataFolder, create, sync_volume, why


@pytest.fixture
def data(tmp_path: Path) -> Path:
    (tmp_path / "data").mkdir()
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/sentinel").write_text("untouched")
    return tmp_path / "data"


@pytest.fixture
def folder(data: Path) -> Iterator[DataFolder]:
    with DataFolder.opened(data) as opened:
        yield opened


def write(folder: DataFolder, path: str, content: bytes) -> None:
    """Stage and publish one file."""
    target = RelPath(path)
    with folder.staging() as staging:
        with os.fdopen(create(staging, "0"), "wb") as file:
            file.write(content)
        with folder.entered(target.parent, make=0o755) as fd:
            folder.publish(staging, "0", fd, target.name)


def test_a_folder_that_is_missing_is_a_wrong_setting(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match="No such file"), DataFolder.opened(tmp_path / "nowhere"):
        pass


def test_files_appear_whole_and_staging_goes(folder: DataFolder, data: Path) -> None:
    write(folder, "a/b/c", b"1")
    write(folder, "a/b/c", b"2")
    assert (data / "a/b/c").read_bytes() == b"2"
    assert not (data / ".sync-staging").exists()
    assert stat.S_IMODE((data / "a/b").stat().st_mode) == 0o755


def test_folders_have_their_mode_whatever_the_umask(folder: DataFolder, data: Path) -> None:
    before = os.umask(0o077)
    try:
        write(folder, "a/b", b"1")
    finally:
        os.umask(before)
    assert stat.S_IMODE((data / "a").stat().st_mode) == 0o755


def test_what_a_killed_pass_left_in_staging_is_thrown_away(folder: DataFolder, data: Path) -> None:
    (data / ".sync-staging/deep").mkdir(parents=True)
    (data / ".sync-staging/0").write_text("half")
    with folder.staging() as staging:
        with os.scandir(staging) as entries:
            assert list(entries) == []
        assert stat.S_IMODE((data / ".sync-staging").stat().st_mode) == 0o700


@pytest.mark.parametrize("target", ["{}/outside", "../outside", "loop"])
def test_no_path_passes_through_a_symlink(folder: DataFolder, data: Path, target: str) -> None:
    (data / "loop").symlink_to(target.format(data.parent))
    (data / "real").mkdir()
    (data / "real/inner").symlink_to(data.parent / "outside")
    for path in ("loop/x", "loop/sentinel", "real/inner/x", "real/inner/sentinel"):
        with pytest.raises(OSError, match="a symlink, which is never followed"):
            write(folder, path, b"evil")
        with pytest.raises(OSError, match="symlink"), folder.reading(RelPath(path)):
            pass
        with pytest.raises(OSError, match="symlink"):
            folder.remove(RelPath(path))
        with pytest.raises(OSError, match="symlink"):
            folder.set_mode(RelPath(path), 0o755)
    assert not folder.prune(RelPath("loop"))
    assert [path.name for path in (data.parent / "outside").iterdir()] == ["sentinel"]
    assert (data.parent / "outside/sentinel").read_text() == "untouched"


def test_a_symlink_in_the_place_of_a_file_is_neither_read_written_nor_removed(
    folder: DataFolder, data: Path
) -> None:
    sentinel = data.parent / "outside/sentinel"
    (data / "link").symlink_to(sentinel)
    with pytest.raises(OSError, match="is a symlink"):
        write(folder, "link", b"evil")
    with pytest.raises(OSError, match="is a symlink"):
        folder.remove(RelPath("link"))
    with pytest.raises(OSError, match="symbolic links") as refused, folder.reading(RelPath("link")):
        pass
    assert refused.value.errno == errno.ELOOP
    assert "never followed" in why(refused.value)
    assert (data / "link").is_symlink()
    assert sentinel.read_text() == "untouched"


@pytest.mark.parametrize("name", [".sync-staging", ".sync-staging/"])
def test_a_symlink_in_the_place_of_staging_stops_everything(
    folder: DataFolder, data: Path, name: str
) -> None:
    (data / name.rstrip("/")).symlink_to(data.parent / "outside")
    with pytest.raises(OSError, match=r"'\.sync-staging' is a symlink"), folder.staging():
        pass
    assert (data.parent / "outside/sentinel").read_text() == "untouched"


def test_a_pipe_does_not_make_a_reader_wait(folder: DataFolder, data: Path) -> None:
    os.mkfifo(data / "pipe")
    with pytest.raises(OSError, match="not a regular file"), folder.reading(RelPath("pipe")):
        pass


def test_a_folder_of_empty_folders_makes_room_for_a_file(folder: DataFolder, data: Path) -> None:
    (data / "a/b/c").mkdir(parents=True)
    (data / "a/d").mkdir()
    write(folder, "a", b"1")
    assert (data / "a").read_bytes() == b"1"


def test_a_folder_with_a_file_in_it_does_not(folder: DataFolder, data: Path) -> None:
    (data / "a/b").mkdir(parents=True)
    (data / "a/b/c").touch()
    with pytest.raises(NotADirectoryError):
        write(folder, "a", b"1")
    assert (data / "a/b/c").exists()


def test_only_empty_folders_are_pruned(folder: DataFolder, data: Path) -> None:
    (data / "empty").mkdir()
    (data / "full").mkdir()
    (data / "full/x").touch()
    assert folder.prune(RelPath("empty"))
    assert not folder.prune(RelPath("full"))
    assert not folder.prune(RelPath("nowhere"))


def test_flushing_reaches_few_folders_and_many(folder: DataFolder, data: Path) -> None:
    (data / "a").mkdir()
    folder.flush({RelPath("a"), RelPath("gone"), RelPath("")})
    folder.flush({RelPath("a")}, at_most=0)
    with pytest.raises(OSError, match="Bad file descriptor"):
        sync_volume(-1)


def test_a_folder_that_is_swapped_for_a_symlink_all_the_time_lets_nothing_out(
    folder: DataFolder, data: Path
) -> None:
    outside = data.parent / "outside"
    done = threading.Event()

    def flip() -> None:
        for number in itertools.takewhile(lambda _: not done.is_set(), itertools.count()):
            with suppress(OSError):
                (data / "P").rename(data / f"aside-{number}")
            with suppress(OSError):
                (data / "P").symlink_to(outside)
            with suppress(OSError):
                (data / "P").unlink()

    flipping = threading.Thread(target=flip)
    flipping.start()
    written = refused = 0
    try:
        while written < 300 or refused < 100:
            try:
                write(folder, f"P/{written}", b"x")
                written += 1
            except OSError:
                refused += 1
    finally:
        done.set()
        flipping.join()
    assert [path.name for path in outside.iterdir()] == ["sentinel"]
