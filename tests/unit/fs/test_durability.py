"""A power failure loses nothing that was reported as written.

A disk may keep what was not synced, so no crash of a process shows that a
call for durability is missing. Here every call is seen on its way to the kernel, and
with it which files and folders hold something that no call has made durable yet.
"""

from __future__ import annotations

import ctypes
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from stoker.domain import failpoints
from stoker.domain.git_objects import Blob, BlobId, FileVersion, blob_of
from stoker.domain.paths import RelPath
from stoker.engine.plan.plan import DeleteFile, SyncPlan, WriteFile
from stoker.fs.apply_plan import SYNC_EACH, apply_plan
from stoker.fs.data_folder import DataFolder
from stoker.fs.ledger_store import LedgerStore

MANY = SYNC_EACH + 1
STAGING, STATE = ".sync-staging", ".sync-state"


class Volume:
    """A data folder whose power may go at any time; `lost` says what would have been missed, and when."""

    def __init__(self, folder: DataFolder, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.lost: list[str] = []
        self.steps: list[str] = []
        self._contents: dict[BlobId, bytes] = {}
        self._volatile: set[int] = set()
        for name in ("open", "write", "rename", "unlink", "mkdir", "rmdir", "fsync", "fdatasync", "sync"):
            monkeypatch.setattr(os, name, self._seen(name, getattr(os, name)))
        monkeypatch.setattr(
            ctypes, "CDLL", lambda *_, **__: object()
        )  # without syncfs, sync is what there is

    def write(self, path: str, content: bytes = b"1", *, replaces: bool = False) -> WriteFile:
        self._contents[blob_of(content)] = content
        return WriteFile(RelPath(path), FileVersion(blob_of(content)), replaces)

    def apply(self, plan: SyncPlan, ready: Callable[[], None] | None = None) -> None:
        failpoints.listen(self._reached)
        try:
            done = apply_plan(self.folder, plan, LedgerStore.load(self.folder), self._read, ready=ready)
        finally:
            failpoints.listen(None)
        assert not done.errors
        self._miss("the end", self._below(self.folder.place))

    def _read(self, ids: Sequence[BlobId]) -> Iterator[Blob]:
        return (Blob(blob, len(self._contents[blob]), iter([self._contents[blob]])) for blob in ids)

    def _reached(self, name: str) -> None:
        """Before the ledger says what will be or is there, and before anything goes: all of it is."""
        self.steps.append(name)
        after_a_write = name == "unlink.before" and self.steps[-2] in ("rename.after", "folder.rename.after")
        if after_a_write or name in ("journal.append.before", "base.write.before"):
            inside = self._below(self.folder.place)
            self._miss(name, [path for path in inside if STATE not in path.parts and path.name != STAGING])

    def _miss(self, when: str, paths: Sequence[Path]) -> None:
        self.lost += [f"{when}: {path}" for path in paths if path.lstat().st_ino in self._volatile]

    def _below(self, place: Path) -> list[Path]:
        return [place, *sorted(place.rglob("*"))]

    def _seen(self, name: str, real: Any) -> Any:
        def call(*args: Any, **more: Any) -> Any:
            before = getattr(self, f"_before_{name}", None)
            if before is not None:
                before(*args, **more)
            done = real(*args, **more)
            getattr(self, f"_after_{name}", lambda *_, **__: None)(*args, **more)
            return done

        return call

    def _holds_news(self, folder: int | None, name: object) -> None:
        if folder is not None and name != STAGING:
            self._volatile.add(os.fstat(folder).st_ino)

    def _after_open(self, name: object, flags: int, *_: Any, dir_fd: int | None = None) -> None:
        if flags & os.O_CREAT and name != "lock":
            self._holds_news(dir_fd, name)

    def _after_write(self, fd: int, *_: Any) -> None:
        if stat.S_ISREG(os.fstat(fd).st_mode):
            self._volatile.add(os.fstat(fd).st_ino)

    def _before_rename(self, source: str, target: str, *, src_dir_fd: int, dst_dir_fd: int) -> None:
        """What gets its name in one step has to be whole by then; a resource is complete by its last name."""
        self._miss(f"renaming to {target}", self._below(Path(f"/proc/self/fd/{src_dir_fd}") / source))
        if target == "resource.json":
            self._miss("declaring a resource complete", [Path(f"/proc/self/fd/{dst_dir_fd}").resolve()])

    def _after_rename(self, _: str, target: str, *, src_dir_fd: int, dst_dir_fd: int) -> None:
        self._holds_news(dst_dir_fd, target)

    def _after_unlink(self, name: str, *, dir_fd: int | None = None) -> None:
        self._holds_news(dir_fd, name)

    def _after_mkdir(self, name: str, *_: Any, dir_fd: int | None = None) -> None:
        self._holds_news(dir_fd, name)

    def _after_rmdir(self, name: str, *, dir_fd: int | None = None) -> None:
        self._holds_news(dir_fd, name)

    def _after_fsync(self, fd: int) -> None:
        self._volatile.discard(os.fstat(fd).st_ino)

    _after_fdatasync = _after_fsync

    def _after_sync(self) -> None:
        self._volatile.clear()


@pytest.fixture
def volume(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Volume]:
    with DataFolder.opened(tmp_path) as folder:
        yield Volume(folder, monkeypatch)


def deletes(*paths: str) -> tuple[DeleteFile, ...]:
    return tuple(DeleteFile(RelPath(path)) for path in paths)


@pytest.mark.parametrize("there", [False, True], ids=["new folder", "folder that is there"])
@pytest.mark.parametrize("count", [1, SYNC_EACH - 1, SYNC_EACH, MANY])
def test_files_are_durable_before_they_are_seen_and_before_their_resource_is(
    volume: Volume, count: int, there: bool
) -> None:
    if there:
        (volume.folder.place / "d").mkdir()
    names = [*(f"{number}.py" for number in range(count)), "resource.json"]
    volume.apply(SyncPlan(writes=tuple(volume.write(f"d/{name}", name.encode()) for name in names)))
    assert not volume.lost
    assert volume.steps.count("rename.before") == (len(names) if there else 0)


@pytest.mark.parametrize("folders", [1, SYNC_EACH, MANY])
def test_new_folders_are_durable_with_the_names_in_them(volume: Volume, folders: int) -> None:
    """Also with few files in many folders, and with one new folder in another."""
    (volume.folder.place / "p").mkdir()
    below = "/".join(f"{number}" for number in range(60))
    paths = [f"p/{number}/x/view.json" for number in range(folders)]
    volume.apply(SyncPlan(writes=tuple(volume.write(path) for path in (*paths, f"q/{below}/view.json"))))
    assert not volume.lost
    deep = tuple(volume.write(f"q{'/y' * depth}/deep.json") for depth in (50, 51))
    volume.apply(SyncPlan(writes=deep))
    assert not volume.lost


@pytest.mark.parametrize("folders", [2, SYNC_EACH, MANY])
def test_files_in_many_folders_that_are_there_are_durable(volume: Volume, folders: int) -> None:
    for number in range(folders):
        (volume.folder.place / f"d/{number}").mkdir(parents=True)
    writes = [volume.write(f"d/{n}/{name}") for n in range(folders) for name in ("a", "resource.json")]
    volume.apply(SyncPlan(writes=tuple(writes)))
    assert not volume.lost


@pytest.mark.parametrize("count", [1, SYNC_EACH, MANY])
def test_deletions_are_durable_before_the_ledger_forgets_them(volume: Volume, count: int) -> None:
    paths = [f"d/{number}/x" for number in range(count)]
    volume.apply(SyncPlan(writes=tuple(volume.write(path) for path in (*paths, "d/stays", "d/0/stays"))))
    volume.apply(SyncPlan(deletions=deletes(*paths), prunable=frozenset({"d"})))
    assert not volume.lost
    assert sorted(path.name for path in (volume.folder.place / "d").iterdir()) == ["0", "stays"]


@pytest.mark.parametrize("there", [False, True], ids=["new folder", "folder that is there"])
def test_what_comes_is_durable_before_anything_goes(volume: Volume, there: bool) -> None:
    volume.apply(SyncPlan(writes=(volume.write("d/old"),)))
    added = volume.write("d/new" if there else "e/new")
    volume.apply(SyncPlan(writes=(added,), deletions=deletes("d/old"), prunable=frozenset({"d"})))
    assert not volume.lost
    assert "unlink.after" in volume.steps


def test_what_made_room_and_what_came_in_its_place_are_durable(volume: Volume) -> None:
    volume.apply(SyncPlan(writes=(volume.write("d/swap"), volume.write("d/back/file"))))
    plan = SyncPlan(
        clearings=deletes("d/back/file", "d/swap"),
        writes=(volume.write("d/back", b"2"), volume.write("d/swap/now/a/folder", b"2")),
        prunable=frozenset({"d"}),
    )
    volume.apply(plan)
    assert not volume.lost


def test_a_folder_that_another_process_removes_meanwhile_is_made_again_durably(volume: Volume) -> None:
    place = volume.folder.place / "d/x"
    place.mkdir(parents=True)
    volume.apply(SyncPlan(writes=(volume.write("d/x/a"),)), ready=place.rmdir)
    assert not volume.lost
    assert "mkdir.after" in volume.steps


def test_every_step_of_the_ledger_is_durable_as_a_journal_and_as_a_whole(volume: Volume) -> None:
    volume.apply(SyncPlan(writes=(volume.write("d/a"),)))
    assert {"base.flush.after", "journal.sync.after"} <= set(volume.steps)
    volume.steps.clear()
    volume.apply(SyncPlan(writes=(volume.write("d/a", b"2", replaces=True),)))
    assert "base.write.before" not in volume.steps
    assert not volume.lost
