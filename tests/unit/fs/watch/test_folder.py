"""A folder that changes is noticed, by the kernel or by looking, and bursts become one notice."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest

from stoker.fs.watch.folder import FolderWatch


@pytest.mark.parametrize("inotify", [True, False])
@pytest.mark.parametrize(
    "change",
    ["write", "create", "delete", "rename", "nested", "mode"],
)
async def test_every_kind_of_change_is_noticed(tmp_path: Path, inotify: bool, change: str) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a/f").write_text("1")
    notices = FolderWatch(tmp_path, inotify=inotify)
    assert notices.polls is not inotify
    waiting = asyncio.ensure_future(notices.changed())
    await asyncio.sleep(0)
    match change:
        case "write":
            (tmp_path / "a/f").write_text("22")
        case "create":
            (tmp_path / "a/g").touch()
        case "delete":
            (tmp_path / "a/f").unlink()
        case "rename":
            (tmp_path / "a/f").rename(tmp_path / "b")
        case "nested":
            (tmp_path / "x/y/z").mkdir(parents=True)
        case _:
            (tmp_path / "a/f").chmod(0o755)
    await asyncio.wait_for(waiting, 5)
    notices.close()


@pytest.mark.parametrize("inotify", [True, False])
async def test_a_folder_that_is_new_is_watched_too(tmp_path: Path, inotify: bool) -> None:
    notices = FolderWatch(tmp_path, inotify=inotify)
    (tmp_path / "new/deep").mkdir(parents=True)
    await asyncio.wait_for(notices.changed(), 5)
    (tmp_path / "new/deep/f").write_text("1")
    await asyncio.wait_for(notices.changed(), 5)
    notices.close()


@pytest.mark.parametrize("inotify", [True, False])
async def test_what_git_does_is_not_noticed(tmp_path: Path, inotify: bool) -> None:
    (tmp_path / ".git/objects").mkdir(parents=True)
    notices = FolderWatch(tmp_path, inotify=inotify)
    (tmp_path / ".git/index").write_text("x")
    (tmp_path / ".git/objects/aa").mkdir()
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(notices.changed(), 0.8)
    notices.close()


async def test_a_burst_is_one_notice(tmp_path: Path) -> None:
    notices = FolderWatch(tmp_path)
    for number in range(200):
        (tmp_path / str(number)).write_text("x")
    await asyncio.wait_for(notices.changed(), 5)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(notices.changed(), 0.3)
    notices.close()


async def test_a_folder_that_never_rests_is_reported_all_the_same(tmp_path: Path) -> None:
    notices = FolderWatch(tmp_path)
    stop = asyncio.Event()

    async def scribble() -> None:
        while not stop.is_set():
            (tmp_path / "f").write_text("x")
            await asyncio.sleep(0.01)

    scribbling = asyncio.ensure_future(scribble())
    await asyncio.wait_for(notices.changed(), 5)
    stop.set()
    await scribbling
    notices.close()


@pytest.mark.parametrize("inotify", [True, False])
@pytest.mark.parametrize("above", ["root", "above"])
@pytest.mark.parametrize("way", ["deleted", "moved"])
async def test_a_folder_that_went_and_came_back_is_watched_again(
    tmp_path: Path, inotify: bool, above: str, way: str
) -> None:
    root = tmp_path / "services/gateway"
    going = root if above == "root" else root.parent
    root.mkdir(parents=True)
    (root / "f").write_text("1")
    notices = FolderWatch(root, inotify=inotify)
    if way == "moved":
        going.rename(tmp_path / "elsewhere")
    else:
        shutil.rmtree(going)
    await asyncio.wait_for(notices.changed(), 5)
    root.mkdir(parents=True)
    (root / "f").write_text("1")
    await asyncio.wait_for(notices.changed(), 5)
    (root / "f").write_text("22")
    await asyncio.wait_for(notices.changed(), 5)
    assert notices.polls is not inotify
    notices.close()


async def test_a_folder_that_is_replaced_at_once_is_watched_again(tmp_path: Path) -> None:
    root = tmp_path / "gateway"
    root.mkdir()
    notices = FolderWatch(root)
    root.rmdir()
    root.mkdir()  # many filesystems give it the number of the old one
    await asyncio.wait_for(notices.changed(), 5)
    (root / "f").write_text("1")
    await asyncio.wait_for(notices.changed(), 5)
    notices.close()


async def test_a_link_to_a_folder_rests_and_what_is_saved_in_it_is_noticed(tmp_path: Path) -> None:
    target, root = tmp_path / "target", tmp_path / "gateway"
    (target / "deep").mkdir(parents=True)
    root.symlink_to(target)
    notices = FolderWatch(root)
    assert notices.polls
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(notices.changed(), 0.8)
    for name in ("f", "deep/f"):
        (target / name).write_text("1")
        await asyncio.wait_for(notices.changed(), 5)
    notices.close()


async def test_a_folder_that_becomes_a_link_rests_too(tmp_path: Path) -> None:
    root = tmp_path / "gateway"
    root.mkdir()
    notices = FolderWatch(root)
    root.rename(tmp_path / "target")
    root.symlink_to(tmp_path / "target")
    for _ in range(2):  # it went away, and from now on it is looked at
        await asyncio.wait_for(notices.changed(), 5)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(notices.changed(), 0.8)
    (root / "f").write_text("1")
    await asyncio.wait_for(notices.changed(), 5)
    notices.close()
