"""A process that dies, or meets a broken disk, at every place at which it changes something.

Whatever is left: no torn file, no `resource.json` that is newer than its data, a
ledger that can be read, and a next pass that ends where it should.
"""

from __future__ import annotations

import itertools
import json
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from stoker.domain import failpoints
from stoker.engine.plan.ledger import Ledger
from stoker.fs.data_folder import DataFolder
from stoker.fs.find_changes import scan_folder
from stoker.fs.ledger_store import JOURNAL, LedgerStore

MEMORY = Path("/dev/shm")  # noqa: S108 - durability costs nothing there
PROCESS = Path(__file__).with_name("sync_process.py")
ONE = {
    "d/v/resource.json": b"one",
    "d/v/view.json": b"one" * 1000,
    "d/swap": b"one",
    "d/back/file": b"one",
    "d/run.sh": b"one",
    "d/old/deep/resource.json": b"one",
    "d/old/deep/code.py": b"one",
    "d/same": b"same",
}
TWO = {
    "d/v/resource.json": b"two",
    "d/v/view.json": b"two" * 1000,
    "d/swap/now/a/folder": b"two",
    "d/back": b"two",
    "d/run.sh": b"one",
    "d/new/x/resource.json": b"two",
    "d/new/x/view.json": b"two",
    "d/same": b"same",
}


class Processes:
    """Starts a process for each sync."""

    def __init__(self, parent: subprocess.Popen[str]) -> None:
        self._parent = parent

    def start(self, data: Path, *trees: str, failure: str = "") -> None:
        assert self._parent.stdin is not None
        asked = [str(data), str(data.parent / "errors"), trees, [failure] if failure else []]
        self._parent.stdin.write(json.dumps(asked) + "\n")
        self._parent.stdin.flush()

    def ended(self) -> int:
        assert self._parent.stdout is not None
        return int(self._parent.stdout.readline())

    def sync(self, data: Path, *trees: str, failure: str = "") -> int:
        self.start(data, *trees, failure=failure)
        return self.ended()


@pytest.fixture(scope="module")
def processes() -> Iterator[Processes]:
    command = [sys.executable, str(PROCESS)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as parent:
        yield Processes(parent)


def errors(data: Path) -> str:
    message = data.parent / "errors"
    return message.read_text(encoding="utf-8") if message.exists() else ""


def files(data: Path) -> dict[str, bytes]:
    found = {str(path.relative_to(data)): path for path in (data / "d").rglob("*")}
    return {name: path.read_bytes() for name, path in found.items() if path.is_file()}


@pytest.fixture
def data(tmp_path: Path) -> Iterator[Path]:
    """A kill loses nothing that was handed to the kernel, so the folder may be in memory."""
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else tmp_path) as place:
        data = Path(place) / "data"
        data.mkdir()
        (data / "theirs").write_bytes(b"untouched")
        yield data


def stamps(data: Path) -> dict[Path, tuple[int, int, int]]:
    found = {path: path.lstat() for path in data.rglob("*")}
    return {path: (it.st_ino, it.st_mtime_ns, it.st_ctime_ns) for path, it in found.items()}


def assert_consistent(data: Path) -> None:
    """What a reader may find at any time, and what the ledger may say."""
    there = files(data)
    for path, content in there.items():
        assert content in (ONE.get(path), TWO.get(path)), f"{path} is torn"
    for above in ("d/v", "d/new/x", "d/old/deep"):
        if there.get(f"{above}/resource.json") == b"two":
            assert there[f"{above}/view.json"].startswith(b"two")
    with DataFolder.opened(data) as folder:
        ledger = LedgerStore.load(folder).ledger or Ledger()
        live = scan_folder(folder, ledger, managed_folders=["d"])
    ours = ledger.files.keys() | ledger.intended.keys()
    assert ours <= ONE.keys() | TWO.keys()
    assert there.keys() <= ours
    assert not ledger.complete or there.keys() == {p for p in ledger.files if live.at(p, ledger)}


def assert_arrived(data: Path, wanted: dict[str, bytes]) -> None:
    assert files(data) == wanted
    assert (data / "theirs").read_bytes() == b"untouched"
    assert not (data / ".sync-staging").exists()
    folders = {str(path.relative_to(data)) for path in (data / "d").rglob("*") if path.is_dir()}
    assert folders == {
        "/".join(parts[:n]) for parts in (p.split("/") for p in wanted) for n in range(2, len(parts))
    }
    with DataFolder.opened(data) as folder:
        ledger = LedgerStore.load(folder).ledger
        assert ledger is not None
        assert ledger.complete
        assert ledger.files.keys() == wanted.keys()
        assert not ledger.intended
        assert all(
            entry is not None and entry.version == ledger.version(path)
            for path, entry in scan_folder(folder, ledger, managed_folders=["d"]).found.items()
        )


@pytest.mark.parametrize("name", failpoints.DATA_FAILPOINTS)
def test_a_kill_leaves_whole_files_and_the_next_sync_arrives(
    data: Path, processes: Processes, name: str
) -> None:
    if not name.startswith("state."):  # the journal of a ledger that is gone
        (data / JOURNAL).parent.mkdir()
        (data / JOURNAL).write_bytes(b"of another life")
    status = processes.sync(data, "one", "two", failure=name)
    assert status == -signal.SIGKILL, f"{name} is never reached: {errors(data)}"
    assert_consistent(data)
    assert processes.sync(data, "two") == 0, errors(data)
    assert_arrived(data, TWO)


TURNS = [f"{name}:{turn}" for name in failpoints.DATA_FAILPOINTS for turn in (2, 3, 5, 8)]


@pytest.mark.long
@pytest.mark.parametrize("failure", TURNS)
def test_a_kill_at_a_later_turn_does_so_too(data: Path, processes: Processes, failure: str) -> None:
    assert processes.sync(data, "one", "two", failure=failure) in (0, -signal.SIGKILL)
    assert_consistent(data)
    # Whatever the next commit is: back to the first one converges just as well.
    assert processes.sync(data, "one") == 0, errors(data)
    assert_arrived(data, ONE)


# A folder that was emptied and cannot be removed stays, and nobody is told: there is nothing in it.
DISKS = list(
    zip(
        [name for name in failpoints.DATA_FAILPOINTS if not name.startswith("rmdir.")],
        itertools.cycle(["enospc", "eio", "erofs"]),
        strict=False,
    )
)


@pytest.mark.parametrize(("name", "action"), DISKS)
def test_a_disk_that_fails_leaves_whole_files_and_the_next_sync_arrives(
    data: Path, processes: Processes, name: str, action: str
) -> None:
    assert processes.sync(data, "one") == 0, errors(data)
    processes.sync(data, "two", failure=f"{name}={action}")
    assert_consistent(data)
    assert processes.sync(data, "two") == 0, errors(data)
    assert_arrived(data, TWO)


@pytest.mark.parametrize(
    "failure",
    ["stage.write.before:2=enospc", "stage.write.after:4=eio", "stage.sync.before:3=enospc"],
)
def test_a_full_disk_while_staging_touches_nothing_live(
    data: Path, processes: Processes, failure: str
) -> None:
    assert processes.sync(data, "one") == 0, errors(data)
    before = stamps(data)
    assert processes.sync(data, "two", failure=failure) == 1
    assert "Retry: data folder" in errors(data)
    assert stamps(data) == before
    assert_arrived(data, ONE)


def test_a_reader_never_sees_a_torn_file_nor_a_manifest_that_is_newer_than_its_data(
    data: Path, processes: Processes
) -> None:
    processes.start(data, *map(str, range(1, 60)))
    newest = 0
    seen: set[int] = set()
    while newest < 59:
        for above in ("d/v", f"d/turn{newest + 1}"):
            try:
                manifest = int((data / above / "resource.json").read_bytes())
                content = (data / above / "view.json").read_bytes()
            except FileNotFoundError:
                continue
            assert content == content[:8] * 4096
            assert int(content[:8]) >= manifest
            newest = max(newest, manifest)
            seen.add(manifest)
    assert processes.ended() == 0, errors(data)
    assert len(seen) > 5
