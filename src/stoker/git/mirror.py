"""A bare copy of what is needed of a repository; never a checkout.

One folder per address and credential, so that what one credential opened is never
served to another. It is a cache: missing, damaged, left locked by a killed
process, or grown old, it is simply built anew. It is held by one process at a
time, which is also why a lock file or half a pack that lies in it is always a
left-over.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from stoker.domain.clock import Clock, SystemClock
from stoker.domain.refs import CommitId, GitRef, without_userinfo
from stoker.git.errors import GitFailed, RefNotFound, SourceUnreachable
from stoker.git.private import private_folder, write_private
from stoker.git.remote import Remote
from stoker.git.resolving import full_names

# Every fetch adds a pack. Building anew by one shallow fetch costs less than a repack, and bounds the disk.
MAX_PACKS = 100
HOLD_TIMEOUT = 120.0
_HOLD_PAUSE = 0.1

_WANTED = "refs/stoker/wanted"
_FETCH = (
    "fetch",
    "--quiet",
    "--force",
    "--no-tags",
    "--no-write-fetch-head",
    "--no-auto-maintenance",
    "--no-recurse-submodules",
)
# Written by us and compared byte by byte before every use: a setting planted here could run a command.
_CONFIG = {
    40: b"[core]\n\trepositoryformatversion = 0\n\tbare = true\n",
    64: b"[core]\n\trepositoryformatversion = 1\n\tbare = true\n[extensions]\n\tobjectformat = sha256\n",
}


class Mirror:
    """What one credential sees of one repository."""

    def __init__(self, remote: Remote, path: Path, clock: Clock | None = None) -> None:
        self._remote = remote
        self._runner = remote.runner
        self._url = remote.url
        self._clock = clock if clock is not None else SystemClock()
        self.path = path

    @classmethod
    async def of(cls, remote: Remote, cache: Path, clock: Clock | None = None) -> Mirror:
        """The one that belongs to what opens the repository now."""
        cache = private_folder(cache)
        folder = private_folder(cache / "mirrors")
        return cls(remote, folder / await remote.identity(_cache_key(cache)), clock)

    @asynccontextmanager
    async def held(self) -> AsyncIterator[None]:
        """For this process alone, until done; the kernel lets go of it when the process dies."""
        fd = os.open(
            self.path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600
        )
        try:
            await self._take(fd)
            yield
        finally:
            os.close(fd)

    async def fetch(self, commit: CommitId, ref: GitRef) -> None:
        """Have all of `commit` here; `ref` is where to look when the server does not give out ids."""
        self._prepare(commit)
        if not await self._has(commit):
            try:
                await self._fetch_from_source(commit, ref)
            except GitFailed:
                self.discard()
                self._prepare(commit)
                await self._fetch_from_source(commit, ref)

    def discard(self) -> None:
        """Forget all of it; the next fetch builds it anew."""
        shutil.rmtree(self.path, ignore_errors=True)
        with contextlib.suppress(OSError):  # it is not even a folder
            self.path.unlink()

    async def _take(self, fd: int) -> None:
        deadline = self._clock.monotonic() + HOLD_TIMEOUT
        while True:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if self._clock.monotonic() >= deadline:
                    raise SourceUnreachable(
                        f"the mirror of {without_userinfo(self._url)} has been in use by another process "
                        f"for {HOLD_TIMEOUT:g} s"
                    ) from None
                await self._clock.sleep(_HOLD_PAUSE)
            else:
                return

    def _prepare(self, commit: CommitId) -> None:
        """A folder that git takes for an empty repository, unless a sound one is there."""
        config = _CONFIG[len(commit)]
        if self.path.exists() and not self._sound(config):
            self.discard()
        if self.path.exists():
            return
        try:
            self.path.mkdir(mode=0o700)
            for name in ("objects/pack", "refs/heads"):
                (self.path / name).mkdir(parents=True)
            (self.path / "HEAD").write_bytes(b"ref: refs/heads/none\n")
            write_private(self.path / "config", config, 0o600)
        except OSError as error:
            raise GitFailed(f"mirror folder {self.path} cannot be made: {error.strerror}") from error

    def _sound(self, config: bytes) -> bool:
        """Whether it can be used as it is; damage inside a pack shows when it is read."""
        try:
            if (self.path / "config").read_bytes() != config:
                return False
            packs = self.path / "objects/pack"
            few = sum(1 for _ in packs.glob("*.pack")) <= MAX_PACKS
            return few and not any(packs.glob("tmp_*")) and not any(self.path.rglob("*.lock"))
        except OSError:
            return False

    async def _has(self, commit: CommitId) -> bool:
        try:
            await self._runner.run(["cat-file", "-e"], [f"{commit}^{{commit}}"], repository=self.path)
        except GitFailed:
            return False
        return True

    async def _fetch_from_source(self, commit: CommitId, ref: GitRef) -> None:
        """The commit alone; else the ref; else everything (C-025)."""
        try:
            await self._git_fetch(["--depth=1"], [f"+{commit}:{_WANTED}"])
        except RefNotFound:
            if await self._fetch_by_ref(commit, ref):
                return
            deepen = ["--unshallow"] if (self.path / "shallow").exists() else []
            await self._git_fetch(
                deepen, ["+refs/heads/*:refs/stoker/heads/*", "+refs/tags/*:refs/stoker/tags/*"]
            )
            if not await self._has(commit):
                raise RefNotFound(
                    f"commit {commit} is not in repository {without_userinfo(self._url)}"
                ) from None

    async def _fetch_by_ref(self, commit: CommitId, ref: GitRef) -> bool:
        if str(ref) == str(commit):
            return False
        for name in full_names(ref):
            try:
                await self._git_fetch(["--depth=1"], [f"+{name}:{_WANTED}"])
            except RefNotFound:
                continue
            if await self._has(commit):
                return True
        return False

    async def _git_fetch(self, options: list[str], refspecs: list[str]) -> None:
        await self._remote.git([*_FETCH, *options], [self._url, *refspecs], repository=self.path)


def _cache_key(cache: Path) -> bytes:
    """The random key of this cache, made once; without it nobody can tell which folder is whose."""
    path = cache / "key"
    if not path.exists():
        mine = path.with_name(f"key.{secrets.token_hex(8)}")
        write_private(mine, secrets.token_bytes(32), 0o600)
        with contextlib.suppress(FileExistsError):  # another process was first; its key is the cache's
            path.hardlink_to(mine)
        mine.unlink()
    return path.read_bytes()
