"""A bare copy of what is needed of a repository; never a checkout.

One folder per address and credential, so that what one credential opened is never
served to another. It is a cache: missing, damaged, left locked by a killed process,
or grown too large, it is built anew, beside the old one, which goes when the new one
is there. It is held by one process at a time.
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
    """Brings what was asked for into one repository on disk."""

    async def fetch(self, commit: CommitId, ref: GitRef) -> None: ...

    async def complete(self, blobs: Collection[BlobId]) -> None: ...


class Mirror:
    """What one credential sees of one repository; everything but `held` is for while it is held."""

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
        """The repository on disk; known while it is held, because the credential may change between."""
        self.objects = self._objects_of(self.path)

    @asynccontextmanager
    async def held(self) -> AsyncIterator[None]:
        """For this process alone, until done; the kernel lets go of it when the process dies."""
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
        """Have `commit` here; `ref` is where to look when the server does not give out ids."""
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
        """Where a branch is now, which is then here; None where it has to be asked for and fetched.

        `branch` is the full name of what `ref` means.

        Not for while it is held: it holds the mirror itself, if nobody else does.
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
                return None  # whoever fetches finds out what is broken here
            finally:
                objects.close()

    def ready(self, digits: int) -> MirrorSize:
        """Have a sound repository with ids of this length here, empty if there was none."""
        with self._disk_trouble_named():
            return self._ready(digits)

    async def renew(self, commit: CommitId, ref: GitRef) -> None:
        """Have `commit` here and nothing else, because what has gathered is too much."""
        with self._disk_trouble_named():
            await self._rebuild(commit, ref)

    async def complete(self, blobs: Collection[BlobId]) -> None:
        """Have these contents here, in one request."""
        with self._disk_trouble_named():
            await self._fetcher(self.path, self.objects).complete(blobs)

    def discard(self) -> None:
        """Forget all of it; the next fetch builds it anew, and that is the one time in this hold."""
        self._may_rebuild = False
        self.objects.close()
        remove_path(self.path)

    @asynccontextmanager
    async def _held_at_once(self) -> AsyncIterator[Path | None]:
        """The same without waiting; None while another holds it."""
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
        if self._purpose:  # who writes to a branch never waits for who reads another
            key = hashlib.sha256(key + self._purpose.encode()).digest()
        return folder / await self._remote.identity(key)

    def _ready(self, digits: int) -> MirrorSize:
        """A sound repository, empty if there was none."""
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
        """One shallow fetch into a new folder; the old one stays until it has succeeded."""
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
            except OSError:  # whatever stands in its place is no lock of ours
                remove_path(lock)
                return try_lock(lock)


def try_lock(lock: Path) -> int | None:
    """A descriptor that holds the lock, None if another process holds it."""
    while True:
        fd = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.utime(fd)  # when it was last used, for housekeeping
            if os.fstat(fd).st_nlink:
                return fd
        except BlockingIOError:
            os.close(fd)
            return None
        os.close(fd)  # housekeeping took it away in this moment


def _cache_key(cache: Path) -> bytes:
    """The random key of this cache, made once; without it nobody can tell which folder is whose."""
    path = cache / "key"
    with contextlib.suppress(FileNotFoundError):
        key = path.read_bytes()
        if len(key) == _KEY_BYTES:
            return key
        path.unlink()  # torn when the machine went down
    mine = path.with_name(f"key.{os.urandom(8).hex()}")
    write_private(mine, os.urandom(_KEY_BYTES), 0o600)
    with contextlib.suppress(FileExistsError):  # another process was first; its key is the cache's
        path.hardlink_to(mine)
    mine.unlink()
    return path.read_bytes()
