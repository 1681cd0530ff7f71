"""The kernel reports changed paths; lost events and unwatched folders are recognized."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from stoker.fs.watch import inotify
from stoker.fs.watch.inotify import InotifyEvent
from stoker.fs.watch.paths import ChangedPaths, PathWatch
from stoker_testkit.wait_until import eventually_async


class Heard:
    """Notices of a folder of which `kept` is watched, and what they reported."""

    def __init__(self, root: Path, most: int = 100) -> None:
        self.reported = asyncio.Event()
        self.notices = PathWatch(root, self.enters, self.takes, self.reported.set, most=most)
        self.paths: set[str] = set()
        self.folders: set[str] = set()
        self.everything = False

    def enters(self, folder: str) -> bool:
        return folder.split("/", maxsplit=1)[0] == "kept" and ".resources" not in folder

    def takes(self, path: str) -> bool:
        return self.enters(path) and not path.endswith(".log")

    def take(self) -> ChangedPaths:
        found = self.notices.take()
        self.paths |= found.paths
        self.folders |= found.folders
        self.everything |= found.everything
        return found

    async def eventually_reports(self, *paths: str) -> None:
        def all_reported() -> bool:
            self.take()
            return {*paths} <= self.paths | self.folders

        await eventually_async(all_reported, 5.0, lambda: f"{paths}; {self.paths} {self.folders}")


@pytest.fixture
async def heard(tmp_path: Path) -> AsyncIterator[Heard]:
    (tmp_path / "kept/deep").mkdir(parents=True)
    (tmp_path / "kept/.resources").mkdir()
    (tmp_path / "other").mkdir()
    made = Heard(tmp_path)
    await made.notices.start()
    assert made.notices.take() == ChangedPaths(everything=True), "what happened before is unknown"
    yield made
    made.notices.close()


async def test_only_what_is_allowed_is_watched_and_named(heard: Heard, tmp_path: Path) -> None:
    assert heard.notices.watches == 3  # the folder itself, kept and kept/deep
    (tmp_path / "other/x").write_text("1")
    (tmp_path / "kept/.resources/x").write_text("1")
    (tmp_path / "kept/x.log").write_text("1")
    (tmp_path / "kept/deep/x").write_text("1")
    await heard.eventually_reports("kept/deep/x")
    assert (heard.paths, heard.folders, heard.everything) == ({"kept/deep/x"}, set(), False)


async def test_a_folder_that_comes_or_moves_is_named_and_watched_where_it_is(
    heard: Heard, tmp_path: Path
) -> None:
    (tmp_path / "kept/new/inner").mkdir(parents=True)
    await heard.eventually_reports("kept/new")
    (tmp_path / "kept/new/inner/x").write_text("1")
    await heard.eventually_reports("kept/new/inner/x")
    (tmp_path / "kept/new").rename(tmp_path / "kept/moved")
    await heard.eventually_reports("kept/moved")
    heard.paths.clear()
    (tmp_path / "kept/moved/inner/x").write_text("2")
    await heard.eventually_reports("kept/moved/inner/x")
    assert heard.paths == {"kept/moved/inner/x"}
    (tmp_path / "kept/moved").rename(tmp_path / "other/away")
    await heard.eventually_reports("kept/moved")
    await eventually_async(lambda: heard.notices.watches == 3, 5.0, "what moved away is left")


async def test_a_folder_that_appears_later_is_watched(tmp_path: Path) -> None:
    made = Heard(tmp_path)
    await made.notices.start()
    made.notices.take()
    (tmp_path / "kept").mkdir()
    await made.eventually_reports("kept")
    (tmp_path / "kept/x").write_text("1")
    await made.eventually_reports("kept/x")
    made.notices.close()


async def test_more_paths_than_can_be_kept_are_reported_as_everything(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    made = Heard(tmp_path, most=10)
    await made.notices.start()
    made.notices.take()
    for number in range(20):
        (tmp_path / f"kept/{number}").touch()
    await eventually_async(lambda: made.take().everything, 5.0, "everything")
    made.notices.close()


async def test_a_queue_that_ran_over_is_reported_as_everything_and_its_folders_are_found_again(
    heard: Heard, tmp_path: Path
) -> None:
    (tmp_path / "kept/silent").mkdir()
    heard.notices.hear(InotifyEvent(-1, inotify.OVERFLOW, ""))
    assert heard.notices.take() == ChangedPaths(everything=True)
    (tmp_path / "kept/silent/x").write_text("1")
    await heard.eventually_reports("kept/silent/x")


async def test_a_limit_of_watches_is_known(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    made = Heard(tmp_path)
    assert not made.notices.blind
    made.notices.close()  # what the kernel then answers is not that a folder is missing
    await asyncio.to_thread(made.notices.watch_all)
    assert made.notices.blind
