"""A bare mirror of the needed part of a repository; never a checkout.

Every source in `stoker.git.source` that fetches, and every writer in `stoker.git.commit`, works on a
mirror. There is one folder per address and credential, so that content fetched with one credential is
never served to another. A mirror is a cache: if it is missing, damaged, or has grown too large, it is
rebuilt beside the old folder, which is removed only after the new fetch has succeeded. Lock files that a
killed git left inside do not block it (`stoker.git.mirror.layout`). One process at a time holds a mirror.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
from collections.abc import AsyncIterator, Collection, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Protocol

from stoker.domain.clock import Clock, SystemClock
from stoker.domain.failpoints import reach_failpoint
from stoker.domain.git_objects import BlobId
from stoker.domain.refs import CommitId, GitRef, without_userinfo
from stoker.git.errors import BrokenPack, GitFailed, SourceUnreachable
from stoker.git.mirror.layout import MirrorSize, init_empty, remove_path, repair_mirror
from stoker.git.mirror.objects import MirrorObjects
from stoker.git.private_files import private_folder, write_private
from stoker.git.remote.fetch import FetchLimits, RemoteFetcher
from stoker.git.remote.remote import Remote

HOLD_TIMEOUT = 120.0
_HOLD_PAUSE = 0.1
_KEY_BYTES = 32
_DEFAULT = FetchLimits()


class MirrorFiller(Protocol):
    """Fills one repository on disk: by fetching from a remote or by importing artifacts."""

    async def fetch(self, commit: CommitId, ref: GitRef) -> None: ...

    async def complete(self, blobs: Collection[BlobId]) -> None: ...


class Mirror:
    """The mirror of one repository for one credential.

    Call `held` first: all other methods except `follow` require the lock.
    """

    def __init__(
        self,
        remote: Remote,
        cache: Path,
        clock: Clock | None = None,
        limits: FetchLimits = _DEFAULT,
        purpose: str = "",
    ) -> None:
        self._remote = remote
        self._cache = cache
        self._clock = clock if clock is not None else SystemClock()
        self._limits = limits
        self._purpose = purpose
        self._may_rebuild = True
        self.path = cache / "mirrors/none"
        """The repository on disk; valid only while held, because the credential may change in between."""
        self.objects = self._objects_of(self.path)

    @asynccontextmanager
    async def held(self) -> AsyncIterator[None]:
        """Lock the mirror for this process; the kernel releases the lock if the process dies."""
        path = await self._place()
        fd = await self._locked(path.with_suffix(".lock"))
        try:
            self.path = path
            self.objects = self._objects_of(path)
            self._may_rebuild = True
            yield
        finally:
            self.objects.close()
            os.close(fd)

    async def fetch(self, commit: CommitId, ref: GitRef) -> None:
        """Make `commit` available; the fetch uses `ref` if the server does not allow requests by id."""
        with self._disk_trouble_named():
            size = self._ready(len(commit))
            try:
                if size.packs and await self.objects.has(commit):
                    return
                if size.packs > self._limits.packs or size.bytes > self._limits.mirror:
                    await self._rebuild(commit, ref)
                else:
                    await self._fetcher(self.path, self.objects).fetch(commit, ref)
            except (GitFailed, BrokenPack, OSError):
                if not (size.packs and self._may_rebuild):
                    raise
                await self._rebuild(commit, ref)

    async def follow(self, ref: GitRef, branch: str, digits: int) -> CommitId | None:
        """Fetch a branch and return its commit; None if the caller must resolve and fetch separately.

        `branch` is the full name of the branch that `ref` means. Call this while the mirror is not held:
        it takes the lock itself, without waiting, and returns None if another process has it.
        """
        async with self._held_at_once() as path:
            if path is None or (size := repair_mirror(path, digits)) is None:
                return None
            if not size.packs or size.packs >= self._limits.packs or size.bytes > self._limits.mirror:
                return None
            objects = self._objects_of(path)
            try:
                return await RemoteFetcher(self._remote, path, objects, self._limits).follow(ref, branch)
            except (GitFailed, BrokenPack, OSError):
                return None  # the following fetch repairs the mirror or reports the error
            finally:
                objects.close()

    def ready(self, digits: int) -> MirrorSize:
        """Repair or create the repository, with ids of this length, and return its size."""
        with self._disk_trouble_named():
            return self._ready(digits)

    async def renew(self, commit: CommitId, ref: GitRef) -> None:
        """Rebuild the mirror with `commit` only, because it has grown too large."""
        with self._disk_trouble_named():
            await self._rebuild(commit, ref)

    async def complete(self, blobs: Collection[BlobId]) -> None:
        """Fetch the missing ones of these blobs, in one request."""
        with self._disk_trouble_named():
            await self._fetcher(self.path, self.objects).complete(blobs)

    def discard(self) -> None:
        """Remove the mirror; the next fetch rebuilds it. There is at most one rebuild while it is held."""
        self._may_rebuild = False
        self.objects.close()
        remove_path(self.path)

    @asynccontextmanager
    async def _held_at_once(self) -> AsyncIterator[Path | None]:
        """Lock without waiting and yield the path; None while another process holds the mirror."""
        path = await self._place()
        fd = self._try_lock(path.with_suffix(".lock"))
        try:
            yield path if fd is not None else None
        finally:
            if fd is not None:
                os.close(fd)

    async def _place(self) -> Path:
        cache = private_folder(self._cache)
        folder = private_folder(cache / "mirrors")
        key = _cache_key(cache)
        if self._purpose:  # a writer of a branch never waits for a reader
            key = hashlib.sha256(key + self._purpose.encode()).digest()
        return folder / await self._remote.identity(key)

    def _ready(self, digits: int) -> MirrorSize:
        """Repair the repository, or replace it by an empty repository if that is not possible."""
        size = repair_mirror(self.path, digits)
        if size is None:
            self.objects.close()
            remove_path(self.path)
            reach_failpoint("mirror.make.before")
            init_empty(self.path, digits)
            reach_failpoint("mirror.make.after")
            return MirrorSize(0, 0)
        return size

    async def _rebuild(self, commit: CommitId, ref: GitRef) -> None:
        """Make one shallow fetch into a new folder; the old folder stays until the fetch has succeeded."""
        self._may_rebuild = False
        beside = self.path.with_suffix(".new")
        remove_path(beside)
        init_empty(beside, len(commit))
        objects = self._objects_of(beside)
        try:
            await self._fetcher(beside, objects).fetch(commit, ref)
        except BaseException:
            objects.close()
            remove_path(beside)
            raise
        objects.close()
        self.objects.close()
        reach_failpoint("mirror.swap.before")
        remove_path(self.path)
        beside.rename(self.path)
        reach_failpoint("mirror.swap.after")

    @contextmanager
    def _disk_trouble_named(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise GitFailed(f"mirror folder {self.path} cannot be used: {error.strerror}") from error

    def _objects_of(self, repository: Path) -> MirrorObjects:
        return MirrorObjects(self._remote.runner, repository)

    def _fetcher(self, repository: Path, objects: MirrorObjects) -> MirrorFiller:
        return RemoteFetcher(self._remote, repository, objects, self._limits)

    async def _locked(self, lock: Path) -> int:
        deadline = self._clock.monotonic() + HOLD_TIMEOUT
        while (fd := self._try_lock(lock)) is None:
            if self._clock.monotonic() >= deadline:
                raise SourceUnreachable(
                    f"the mirror of {without_userinfo(self._remote.url)} has been in use by another process "
                    f"for {HOLD_TIMEOUT:g} s"
                )
            await self._clock.sleep(_HOLD_PAUSE)
        return fd

    def _try_lock(self, lock: Path) -> int | None:
        with self._disk_trouble_named():
            try:
                return try_lock(lock)
            except OSError:  # something else, such as a folder or a symlink, is in its place
                remove_path(lock)
                return try_lock(lock)


def try_lock(lock: Path) -> int | None:
    """Return a descriptor that holds the lock; None if another process holds it."""
    while True:
        fd = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.utime(fd)  # `stoker.git.mirror.cleanup` reads the time of last use here
            if os.fstat(fd).st_nlink:
                return fd
        except BlockingIOError:
            os.close(fd)
            return None
        os.close(fd)  # the cleanup removed the lock file between open and flock


def _cache_key(cache: Path) -> bytes:
    """Return the random key of this cache, created once; folder names reveal nothing without it."""
    path = cache / "key"
    with contextlib.suppress(FileNotFoundError):
        key = path.read_bytes()
        if len(key) == _KEY_BYTES:
            return key
        path.unlink()  # a power loss cut it short
    mine = path.with_name(f"key.{os.urandom(8).hex()}")
    write_private(mine, os.urandom(_KEY_BYTES), 0o600)
    with contextlib.suppress(FileExistsError):  # another process was first; use its key
        path.hardlink_to(mine)
    mine.unlink()
    return path.read_bytes()
