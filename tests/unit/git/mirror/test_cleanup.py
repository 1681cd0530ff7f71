"""A cache does not grow for ever, and nothing that is in use is taken away."""

from __future__ import annotations

import fcntl
import os
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from stoker.domain.refs import GitRef, RepoUrl
from stoker.git.auth.credentials import RepoAccess, fixed_access
from stoker.git.mirror import cleanup
from stoker.git.mirror.cleanup import CLEANUP_INTERVAL_SECONDS, UNUSED_SECONDS, clean_cache, is_cleanup_due
from stoker.git.mirror.mirror import Mirror, try_lock
from stoker.git.process.runner import GitRunner
from stoker.git.remote.remote import Remote
from stoker_testkit.repositories.bare_repository import Repository

MAIN = GitRef("main")


class Cache:
    """Mirrors of several repositories in one cache, used at several times."""

    def __init__(self, tmp_path: Path) -> None:
        self.tmp_path = tmp_path
        self.path = tmp_path / "cache"

    def mirror(self, name: str) -> Mirror:
        url = RepoUrl((self.tmp_path / f"{name}.git").as_uri())
        return Mirror(Remote(GitRunner(self.path), url, fixed_access(RepoAccess())), self.path)

    async def used(self, name: str, *, days_ago: float) -> Path:
        commit = Repository.create(self.tmp_path / f"{name}.git").commit({"a": "x" * 1000})
        mirror = self.mirror(name)
        async with mirror.held():
            await mirror.fetch(commit, MAIN)
        moment = time.time() - days_ago * 86400
        os.utime(mirror.path.with_suffix(".lock"), (moment, moment))
        return mirror.path


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache(tmp_path)


def now() -> datetime:
    return datetime.now(UTC)


async def test_mirrors_that_were_not_used_for_long_go_with_their_locks(cache: Cache) -> None:
    days = UNUSED_SECONDS / 86400
    fresh = await cache.used("fresh", days_ago=days - 1)
    old = await cache.used("old", days_ago=days + 1)
    old.with_name(f"{old.name}.new.gone").mkdir()
    clean_cache(cache.path, now())
    assert {path.name for path in fresh.parent.iterdir()} == {fresh.name, f"{fresh.name}.lock"}


async def test_the_longest_unused_go_first_when_all_together_are_too_large(
    cache: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    mirrors = [await cache.used(f"r{age}", days_ago=age) for age in range(4)]
    size = sum(file.stat().st_size for file in (mirrors[0] / "objects/pack").iterdir())
    monkeypatch.setattr(cleanup, "MAX_BYTES", int(2.5 * size))
    clean_cache(cache.path, now())
    assert [mirror.exists() for mirror in mirrors] == [True, True, False, False]


async def test_a_mirror_in_use_stays(cache: Cache) -> None:
    mirror = await cache.used("r", days_ago=1000)
    lock = mirror.with_suffix(".lock")
    held = try_lock(lock)
    assert held is not None
    os.utime(lock, (0, 0))
    clean_cache(cache.path, now())
    assert mirror.exists()
    os.close(held)
    clean_cache(cache.path, now())
    assert not mirror.exists()
    assert not lock.exists()


async def test_a_waiter_for_a_removed_lock_gets_a_new_one(cache: Cache) -> None:
    mirror = await cache.used("r", days_ago=0)
    lock = mirror.with_suffix(".lock")
    first = try_lock(lock)
    assert first is not None
    assert try_lock(lock) is None
    lock.unlink()
    second = try_lock(lock)
    assert second is not None
    assert os.fstat(second).st_ino == lock.stat().st_ino
    os.close(first)
    assert try_lock(lock) is None, "the first one's end does not open it"
    os.close(second)


async def test_a_lock_that_is_taken_away_in_that_moment_is_not_held(
    cache: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = (await cache.used("r", days_ago=0)).with_suffix(".lock")
    flock = fcntl.flock

    def just_after_housekeeping(fd: int, operation: int) -> None:
        monkeypatch.setattr(fcntl, "flock", flock)
        lock.unlink()
        flock(fd, operation)

    monkeypatch.setattr(fcntl, "flock", just_after_housekeeping)
    held = try_lock(lock)
    assert held is not None
    assert os.fstat(held).st_ino == lock.stat().st_ino
    assert try_lock(lock) is None
    os.close(held)


async def test_half_written_files_of_killed_processes_go(cache: Cache) -> None:
    await cache.used("r", days_ago=0)
    names = ["key.0123456789abcdef", "home/askpass.0123.tmp"]
    for name in names:
        (cache.path / name).touch()
        (cache.path / f"{name}.tmp").touch()
        os.utime(cache.path / name, (0, 0))
    clean_cache(cache.path, now())
    for name in names:
        assert not (cache.path / name).exists()
        assert (cache.path / f"{name}.tmp").exists(), "this one may be in the making"
    assert (cache.path / "key").exists()


async def test_it_is_due_once_a_day_whatever_the_clock_does(cache: Cache) -> None:
    await cache.used("r", days_ago=0)
    assert is_cleanup_due(cache.path, now())
    clean_cache(cache.path, now())
    assert not is_cleanup_due(cache.path, now())
    later = datetime.fromtimestamp(time.time() + CLEANUP_INTERVAL_SECONDS + 60, UTC)
    assert is_cleanup_due(cache.path, later)
    clean_cache(cache.path, datetime.fromtimestamp(time.time() + 400 * 86400, UTC))
    assert is_cleanup_due(cache.path, now()), "the clock was wrong by a year"


def test_a_cache_that_is_not_there_is_nothing_to_tend(tmp_path: Path) -> None:
    clean_cache(tmp_path / "nowhere", now())
    assert not (tmp_path / "nowhere").exists()
