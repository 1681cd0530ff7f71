"""Maintains a complete mirror on a shared volume: all branches and tags with all of their contents.

The writer's half of `stoker.git.mirror.shared_volume`; `stoker.git.source.shared` is the reader's. Only
one process writes at a time. Every fetch adds a pack. When there are too many packs, or git finds
damage, the writer builds a new generation beside the current generation and publishes it atomically.
Readers stay on the old generation until they are done.
"""

from __future__ import annotations

import asyncio
import fcntl
from collections.abc import Collection, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from stoker.domain.clock import Clock, SystemClock
from stoker.domain.refs import CommitId, GitRef
from stoker.git.errors import BrokenPack, GitFailed, RefNotFound
from stoker.git.mirror.bare_repository import QUIET_FETCH
from stoker.git.mirror.layout import remove_temporary_packs
from stoker.git.mirror.objects import MirrorObjects
from stoker.git.mirror.shared_volume import WANTED_REFS, MirrorVolume, is_intact, is_safe_generation, try_lock
from stoker.git.remote.remote import Remote, local_remote
from stoker.git.remote.resolve import full_names

_BRANCHES_AND_TAGS = ("+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*")
_ALL_REFS = ("+refs/*:refs/*",)
_UNFILTERED_FETCH = (*QUIET_FETCH, "--no-filter")


@dataclass(frozen=True, slots=True)
class MirrorUpkeep:
    """Limits above which the mirror is compacted or old data is removed."""

    fetch: int = 64 << 30
    """Maximum bytes of one fetch; the volume's size is the real limit."""
    seconds: float = 3600.0
    packs: int = 50
    wanted: int = 64
    """Number of requested commits that are kept although no branch or tag leads to them."""
    grace: float = 3600.0
    """Seconds to keep a generation after it is no longer current."""


_DEFAULT_UPKEEP = MirrorUpkeep()


class FullMirror:
    """One repository on one volume; call `opened` first, and never run two updates at once."""

    def __init__(
        self, volume: MirrorVolume, clock: Clock | None = None, upkeep: MirrorUpkeep = _DEFAULT_UPKEEP
    ) -> None:
        self._volume = volume
        self._clock = clock if clock is not None else SystemClock()
        self._upkeep = upkeep
        self._stack = ExitStack()
        self._is_open = False
        self._checked = ""

    def opened(self) -> bool:
        """Take the writer lock; False while another process, perhaps one that is stopping, holds it."""
        if not self._is_open:
            try:
                self._volume.prepare()
                lock = try_lock(self._volume.root / "writer.lock", fcntl.LOCK_EX)
                self._is_open = self._stack.enter_context(lock)
            except OSError as error:
                raise GitFailed(f"volume {self._volume.root} cannot be written: {error.strerror}") from error
        return self._is_open

    def close(self) -> None:
        self._is_open = False
        self._stack.close()

    async def update(self, remote: Remote, wanted: Sequence[CommitId], ref: GitRef) -> None:
        """Fetch all current branches and tags, and the commits in `wanted`, which `ref` led to."""
        try:
            await self._update(remote, wanted, ref)
            self._tidy()
        except OSError as error:
            raise GitFailed(f"volume {self._volume.root} cannot be used: {error.strerror}") from error

    async def _update(self, remote: Remote, wanted: Sequence[CommitId], ref: GitRef) -> None:
        name = self._sound(len(wanted[0]))
        if name is not None and name != self._checked:
            # Check once after each start: a restart is how an operator has a damaged mirror rebuilt.
            name = name if await asyncio.to_thread(is_intact, self._volume.path(name)) else None
        if name is None:
            await self._anew(remote, wanted, ref)
            return
        self._checked = name
        path = self._volume.path(name)
        try:
            await self._fetch_into(remote, path, wanted, ref)
        except (GitFailed, BrokenPack):
            # The generation may be damaged. If the disk is full instead, the rebuild fails in the same way.
            await self._anew(remote, wanted, ref)
            return
        if len(list((path / "objects/pack").glob("*.pack"))) > self._upkeep.packs:
            await self._gathered(remote, path, len(wanted[0]))

    def _sound(self, digits: int) -> str | None:
        """Remove lock files of a killed git; return the current generation, None if it is unusable."""
        name = self._volume.current
        if name is None:
            return None
        path = self._volume.path(name)
        for folder in (path, *(each for each in (path / "refs").rglob("*") if each.is_dir())):
            for lock in folder.glob("*.lock"):
                lock.unlink()
        same_ids = b"sha256" in (path / "config").read_bytes() if (path / "config").exists() else False
        return name if is_safe_generation(path) and same_ids == (digits > 40) else None

    async def _anew(self, remote: Remote, wanted: Sequence[CommitId], ref: GitRef) -> None:
        """Clone everything into a new generation and publish it."""
        name = self._volume.make(len(wanted[0]))
        try:
            await self._fetch_into(remote, self._volume.path(name), wanted, ref)
        except BaseException:
            self._volume.drop(name)
            raise
        self._publish(name)

    async def _gathered(self, remote: Remote, path: Path, digits: int) -> None:
        """Copy a generation into a new one with one pack and without unreachable objects.

        This reads from the local disk only and contacts no server.
        """
        name = self._volume.make(digits)
        try:
            await self._git(local_remote(remote.runner, path), self._volume.path(name), _ALL_REFS)
        except BaseException:
            self._volume.drop(name)
            raise
        self._publish(name)

    def _publish(self, name: str) -> None:
        self._volume.publish(name)
        self._checked = name

    async def _fetch_into(self, remote: Remote, path: Path, wanted: Sequence[CommitId], ref: GitRef) -> None:
        objects = MirrorObjects(remote.runner, path)
        try:
            await self._git(remote, path, _BRANCHES_AND_TAGS, "--prune")
            for commit in wanted:
                if not await objects.has(commit):
                    await self._fetch_one(remote, path, objects, commit, ref)
                _record_wanted_commit(path, commit)
        finally:
            objects.close()
        self._forget(path, wanted)

    async def _fetch_one(
        self, remote: Remote, path: Path, objects: MirrorObjects, commit: CommitId, ref: GitRef
    ) -> None:
        """Fetch a commit that no branch or tag leads to: by its id, else by the ref that led to it."""
        names = [str(commit), *(full_names(ref) if str(ref) != str(commit) else ())]
        for name in names:
            try:
                await self._git(remote, path, (f"+{name}:{WANTED_REFS / commit}",))
            except RefNotFound:
                if name == names[-1]:
                    raise
                continue
            if await objects.has(commit):
                return
        raise RefNotFound(f"commit {commit} is not in the repository, and ref {str(ref)!r} leads to another")

    async def _git(self, remote: Remote, path: Path, refspecs: Collection[str], *options: str) -> None:
        try:
            await remote.git(
                [*_UNFILTERED_FETCH, *options],
                [remote.url, *refspecs],
                repository=path,
                max_bytes=self._upkeep.fetch,
                timeout=self._upkeep.seconds,
            )
        finally:
            remove_temporary_packs(path)

    def _forget(self, path: Path, wanted: Sequence[CommitId]) -> None:
        """Keep refs to the latest requested commits only."""
        noted = sorted((path / WANTED_REFS).iterdir(), key=lambda each: each.stat().st_mtime, reverse=True)
        for each in noted[self._upkeep.wanted :]:
            if each.name not in wanted:
                each.unlink()

    def _tidy(self) -> None:
        """Remove retired generations after the grace period, unless a reader holds the lock."""
        now = self._clock.now().timestamp()
        for name in self._volume.others():
            if now - self._volume.retired_at(name, now) >= self._upkeep.grace:
                self._volume.drop(name)


def _record_wanted_commit(path: Path, commit: CommitId) -> None:
    (path / WANTED_REFS).mkdir(parents=True, exist_ok=True)
    (path / WANTED_REFS / commit).write_text(f"{commit}\n")
