"""Volumes that change during a sync, and torn state: an attacker on the volume gains nothing."""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from stoker.agent.sync.jobs import SyncOptions
from stoker.agent.sync.open_source import open_keeper
from stoker.domain.errors import StokerError
from stoker.domain.refs import CommitId
from stoker.fs.ledger_store import JOURNAL, MANIFEST
from stoker_testkit.repositories.malicious_repository import Attack, fingerprint

MEMORY = Path("/dev/shm")  # noqa: S108 - quick enough to lose a race often


@pytest.fixture
def attack(tmp_path: Path) -> Iterator[Attack]:
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else tmp_path) as place:
        yield Attack(Path(place))


class Flipper:
    """Swaps a folder for a symlink to a place outside and back, as fast as it can."""

    def __init__(self, folder: Path, target: Path) -> None:
        self.flips = 0
        self._folder = folder
        self._aside = folder.with_name("aside")
        self._target = target
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._flip)

    def __enter__(self) -> Flipper:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _flip(self) -> None:
        while not self._stop.is_set():
            try:
                self._folder.rename(self._aside)
                self._folder.symlink_to(self._target)
                self._folder.unlink()
                self._aside.rename(self._folder)
            except OSError:  # a pass was quicker, and has made or removed something
                self._undo()
            self.flips += 1

    def _undo(self) -> None:
        if self._folder.is_symlink():
            self._folder.unlink()
        shutil.rmtree(self._aside, ignore_errors=True)
        self._folder.mkdir(exist_ok=True)


@pytest.mark.parametrize("passes", [60, pytest.param(1000, marks=[pytest.mark.long])])
@pytest.mark.parametrize("deep", ["sub", "sub/deeper"])
async def test_a_folder_that_flips_to_a_symlink_and_back_is_never_written_through(
    attack: Attack, passes: int, deep: str
) -> None:
    target = attack.outside / "target"
    (target / "deeper").mkdir(parents=True)
    for name in ("f0", "deeper/f0", "deeper/theirs"):
        (target / name).write_text("theirs")
    before = fingerprint(target)
    commits = [
        attack.repository.commit({f"s/{deep}/f{n}": f"{turn}{n}" for n in range(8)} | {"s/good": str(turn)})
        for turn in range(2)
    ]
    commits.append(attack.repository.commit({f"s/{deep}/f{n}": None for n in range(8)}))
    folder_sync = open_keeper(attack.job())
    await folder_sync.sync(SyncOptions(commit=commits[0]))
    with Flipper(attack.data / "projects/P/sub", target) as flipper:
        for turn in range(passes):
            try:
                await folder_sync.sync(SyncOptions(commit=CommitId(commits[turn % 3])))
            except StokerError as error:
                assert error.message.isprintable()  # noqa: PT017 - whichever it is, it has words
    assert flipper.flips > passes
    assert fingerprint(target) == before
    assert (attack.outside / "sentinel").read_text() == "untouched"
    shutil.rmtree(attack.data / "projects/P")
    await open_keeper(attack.job()).sync(SyncOptions(commit=commits[1]))
    assert len(attack.delivered()) == 9


def shorten(attack: Attack, pattern: str, size: int) -> None:
    found = list(attack.cache.rglob(pattern))
    assert found, pattern
    for path in found:
        path.chmod(0o600)
        os.truncate(path, size)


def mirror(attack: Attack) -> Path:
    (found,) = (path for path in (attack.cache / "mirrors").iterdir() if path.is_dir())
    return found


DAMAGES: dict[str, Callable[[Attack], object]] = {
    "index.lock": lambda attack: (mirror(attack) / "index.lock").touch(),
    "shallow.lock": lambda attack: (mirror(attack) / "shallow.lock").touch(),
    "packed-refs.lock": lambda attack: (mirror(attack) / "packed-refs.lock").touch(),
    "config.lock": lambda attack: (mirror(attack) / "config.lock").touch(),
    "truncated pack": lambda attack: shorten(attack, "*.pack", 40),
    "empty pack": lambda attack: shorten(attack, "*.pack", 0),
    "truncated index": lambda attack: shorten(attack, "*.idx", 100),
    "emptied cache": lambda attack: shutil.rmtree(attack.cache),
    "no home": lambda attack: shutil.rmtree(attack.cache / "home"),
    "torn key": lambda attack: os.truncate(attack.cache / "key", 3),
    "empty journal": lambda attack: os.truncate(attack.data / JOURNAL, 0),
    "torn journal": lambda attack: os.truncate(attack.data / JOURNAL, 30),
    "nonsense in the journal": lambda attack: (attack.data / JOURNAL).write_bytes(b"\xff" * 5000),
    "no journal": lambda attack: (attack.data / JOURNAL).unlink(),
    "empty manifest": lambda attack: os.truncate(attack.data / MANIFEST, 0),
    "torn manifest": lambda attack: os.truncate(attack.data / MANIFEST, 50),
    "nonsense in the manifest": lambda attack: (attack.data / MANIFEST).write_bytes(b"\xff" * 5000),
    "no manifest": lambda attack: (attack.data / MANIFEST).unlink(),
    "no state": lambda attack: shutil.rmtree(attack.data / ".sync-state"),
    "left staging": lambda attack: (attack.data / ".sync-staging/t0/deep").mkdir(parents=True),
    "unreadable staging": lambda attack: (attack.data / ".sync-staging/t0").mkdir(0o000, parents=True),
    "half a manifest": lambda attack: (attack.data / ".sync-state/manifest.new").write_bytes(b"half"),
    "a lock without a holder": lambda attack: (attack.data / ".sync-state/lock").write_bytes(b"1"),
    "state open to others": lambda attack: (attack.data / ".sync-state").chmod(0o777),
}
# Without a ledger that can be read it is first contact again, on which nothing is deleted.
FORGETFUL = ("empty manifest", "torn manifest", "nonsense in the manifest", "no manifest", "no state")


@pytest.mark.parametrize("what", DAMAGES)
async def test_torn_or_stale_state_is_overcome_in_one_sync(attack: Attack, what: str) -> None:
    attack.repository.commit({"s/a": "1", "s/b": "1", "s/d/e": "1"})
    await attack.sync()
    DAMAGES[what](attack)
    attack.repository.commit({"s/a": "2", "s/b": None, "s/c": "2"})
    await attack.sync()
    wanted = {"a": b"2", "c": b"2", "d/e": b"1"}
    if what in FORGETFUL:
        wanted["b"] = b"1"
    assert attack.delivered() == wanted
    assert {path.name for path in attack.data.iterdir()} == {".sync-state", ".uuid", "projects"}
    assert (attack.data / ".sync-state").stat().st_mode & 0o777 == 0o700
    report = await attack.sync()
    assert not report.plan.actions
    assert not report.errors
