"""Nothing outside the data folder can be reached, whatever is in it."""

from __future__ import annotations

import errno
import itertools
import os
import resource
import signal
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from stoker.domain.errors import Misconfigured
from stoker.fs.data_folder import (
    CREATE,
    DataFolder,
    open_regular,
    os_error_reason,
    publish_file,
    remove_empty_folder,
    remove_file,
    set_mode,
    sync_volume,
    write_all,
)
from stoker.fs.file_rules import FileRules
from stoker.fs.folder_cursor import DirWalk
from stoker.fs.staging import staging
from stoker_testkit.open_files import open_below


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


def make(above: int, name: str, _: str) -> int:
    return FileRules().make_folder(above, name)


def write(folder: DataFolder, path: str, content: bytes) -> None:
    """Stage and publish one file."""
    above, _, name = path.rpartition("/")
    with staging(folder) as staged, DirWalk(folder.fd, make) as live:
        fd = os.open("0", CREATE, 0o644, dir_fd=staged)
        try:
            write_all(fd, content)
        finally:
            os.close(fd)
        publish_file(staged, "0", live.enter(above), name)


def test_a_folder_that_is_missing_is_a_wrong_setting(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match="No such file"), DataFolder.opened(tmp_path / "nowhere"):
        pass


def test_files_appear_whole_and_staging_goes(folder: DataFolder, data: Path) -> None:
    write(folder, "a/b/c", b"1")
    write(folder, "a/b/c", b"2")
    assert (data / "a/b/c").read_bytes() == b"2"
    assert not (data / ".sync-staging").exists()
    assert stat.S_IMODE((data / "a/b").stat().st_mode) == 0o755


def test_what_a_killed_sync_left_in_staging_is_removed(folder: DataFolder, data: Path) -> None:
    (data / ".sync-staging/deep").mkdir(parents=True)
    (data / ".sync-staging/0").write_text("half")
    with staging(folder) as staged:
        with os.scandir(staged) as entries:
            assert list(entries) == []
        assert stat.S_IMODE((data / ".sync-staging").stat().st_mode) == 0o700


@pytest.mark.parametrize("target", ["{}/outside", "../outside", "loop"])
def test_no_path_leads_through_a_symlink(folder: DataFolder, data: Path, target: str) -> None:
    (data / "loop").symlink_to(target.format(data.parent))
    (data / "real").mkdir()
    (data / "real/inner").symlink_to(data.parent / "outside")
    for path in ("loop/x", "loop/sentinel", "real/inner/x", "real/inner/sentinel"):
        with pytest.raises(OSError, match="a symlink, which is never followed"):
            write(folder, path, b"evil")
        with pytest.raises(OSError, match="symlink"), folder.reading(path):
            pass
        with pytest.raises(OSError, match="symlink"), DirWalk(folder.fd) as descent:
            descent.enter(path.rpartition("/")[0])
    assert not remove_empty_folder(folder.fd, "loop")
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
        remove_file(folder.fd, "link")
    for refused in (
        lambda: set_mode(folder.fd, "link", 0o755),
        lambda: folder.reading("link").__enter__(),
    ):
        with pytest.raises(OSError, match="symbolic links") as error:
            refused()
        assert error.value.errno == errno.ELOOP
        assert "never followed" in os_error_reason(error.value)
    assert (data / "link").is_symlink()
    assert sentinel.read_text() == "untouched"


def test_a_symlink_in_the_place_of_staging_stops_everything(folder: DataFolder, data: Path) -> None:
    (data / ".sync-staging").symlink_to(data.parent / "outside")
    with pytest.raises(OSError, match=r"'\.sync-staging' is a symlink"), staging(folder):
        pass
    assert (data.parent / "outside/sentinel").read_text() == "untouched"


def test_a_pipe_does_not_make_a_reader_wait(folder: DataFolder, data: Path) -> None:
    os.mkfifo(data / "pipe")
    with pytest.raises(OSError, match="not a regular file"), folder.reading("pipe"):
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
    assert remove_empty_folder(folder.fd, "empty")
    assert not remove_empty_folder(folder.fd, "full")
    assert remove_empty_folder(folder.fd, "nowhere")
    assert not (data / "empty").exists()


def test_a_file_that_is_gone_already_counts_as_removed(folder: DataFolder, data: Path) -> None:
    remove_file(folder.fd, "nowhere")
    (data / "a").mkdir()
    with pytest.raises(OSError, match="not a regular file"):
        remove_file(folder.fd, "a")


def test_a_volume_that_cannot_be_flushed_is_an_error() -> None:
    with pytest.raises(OSError, match="Bad file descriptor"):
        sync_volume(-1)


def test_another_volume_below_the_data_folder_is_reported() -> None:
    assert (
        os_error_reason(OSError(errno.EXDEV, os.strerror(errno.EXDEV)))
        == "is on another volume than the data folder"
    )


@contextmanager
def interrupted(handler: Callable[[], None]) -> Iterator[None]:
    """Signals arrive all the time, so a call that waits comes back with what it has done so far."""
    done = threading.Event()
    main = threading.get_ident()
    before = signal.signal(signal.SIGUSR1, lambda *_: handler())

    def send() -> None:
        while not done.wait(0.001):
            signal.pthread_kill(main, signal.SIGUSR1)

    sending = threading.Thread(target=send)
    sending.start()
    try:
        yield
    finally:
        done.set()
        sending.join()
        signal.signal(signal.SIGUSR1, before)


def test_a_write_that_was_cut_short_goes_on_where_it_ended() -> None:
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    content = os.urandom(300_000)  # more than a pipe holds: without the handler nothing would move on
    got: list[bytes] = []

    def drain() -> None:
        try:
            while chunk := os.read(reading, 1 << 20):
                got.append(chunk)
        except BlockingIOError:
            pass

    try:
        with interrupted(drain):
            write_all(writing, content)
        drain()
    finally:
        os.close(writing)
        os.close(reading)
    assert b"".join(got) == content


def test_a_file_of_which_only_a_part_has_room_is_an_error(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    fd = os.open(tmp_path / "large", os.O_WRONLY | os.O_CREAT)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
    try:
        with pytest.raises(OSError, match="File too large"):
            write_all(fd, bytes(150_000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        os.close(fd)
    assert (tmp_path / "large").stat().st_size == 100_000


def test_making_room_for_a_file_takes_nothing_away_behind_a_symlink(tmp_path: Path) -> None:
    (tmp_path / "outside/empty").mkdir(parents=True)
    (tmp_path / "d/place").mkdir(parents=True)
    (tmp_path / "d/place/link").symlink_to(tmp_path / "outside")
    (tmp_path / "staged").write_text("1")
    with (
        DataFolder.opened(tmp_path) as folder,
        folder.entered("d") as target,
        pytest.raises(NotADirectoryError),
    ):
        publish_file(folder.fd, "staged", target, "place")
    assert (tmp_path / "outside/empty").is_dir()
    assert (tmp_path / "d/place/link").is_symlink()


def test_what_is_refused_leaves_no_descriptor_open(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "a/b").mkdir(parents=True)
    with DataFolder.opened(tmp_path) as folder:
        before = open_below(tmp_path)
        with pytest.raises(OSError, match="not a regular file"):
            open_regular(folder.fd, "pipe")
        with folder.entered("a/b"):
            pass
        with pytest.raises(FileNotFoundError), folder.reading("a/b/c"):
            pass
        assert open_below(tmp_path) == before


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
