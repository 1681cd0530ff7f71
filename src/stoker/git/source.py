"""A git repository as the source of a pass: resolve, hold, fetch, read.

It implements `stoker.engine.sources.SourceReader` and holds no algorithm: resolving,
fetching and reading are rooms of their own. It can change nothing at the source.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from stoker.domain.clock import Clock, SystemClock
from stoker.domain.refs import CommitId, GitRef
from stoker.engine.objects import Blob, BlobId, FileVersion, Tree, TreeChange
from stoker.git import reading
from stoker.git.fetching import Limits
from stoker.git.housekeeping import is_due, tend
from stoker.git.mirror import Mirror
from stoker.git.remote import Remote
from stoker.git.resolving import look_up

Rule = Callable[[Remote, Path, CommitId, GitRef, CommitId | None], Awaitable[None]]
"""Raises unless a commit, which a ref led to and a repository on disk holds, may follow the one before."""

_DEFAULT = Limits()


class GitSource:
    """One repository, read through a mirror below `cache`."""

    def __init__(
        self,
        remote: Remote,
        cache: Path,
        clock: Clock | None = None,
        limits: Limits = _DEFAULT,
        rules: Sequence[Rule] = (),
    ) -> None:
        self._remote = remote
        self._runner = remote.runner
        self._cache = cache
        self._clock = clock if clock is not None else SystemClock()
        self._rules = rules
        self._mirror = Mirror(remote, cache, self._clock, limits)

    async def resolve(self, ref: GitRef) -> CommitId:
        return await look_up(self._remote, ref)

    @asynccontextmanager
    async def held(self) -> AsyncIterator[None]:
        async with self._mirror.held():
            yield
        now = self._clock.now()
        if is_due(self._cache, now):
            await asyncio.to_thread(tend, self._cache, now)

    @property
    def repository(self) -> Path:
        """Where the objects lie; known while it is held."""
        return self._mirror.path

    async def fetch(self, commit: CommitId, ref: GitRef) -> None:
        await self._mirror.fetch(commit, ref)

    async def vouch(self, commit: CommitId, ref: GitRef, before: CommitId | None) -> None:
        for rule in self._rules:
            await rule(self._remote, self._mirror.path, commit, ref, before)

    async def tree(self, commit: CommitId) -> Tree:
        return await reading.read_tree(self._runner, self._mirror.path, commit)

    async def changes(self, before: CommitId, after: CommitId) -> tuple[TreeChange, ...] | None:
        return await reading.read_changes(self._runner, self._mirror.path, before, after)

    async def look_up(self, commit: CommitId, paths: Collection[str]) -> dict[str, FileVersion]:
        return await reading.look_up(self._runner, self._mirror.path, commit, paths)

    async def committed_at(self, commit: CommitId) -> int:
        return reading.committed_at(await self._mirror.objects.commit(commit))

    async def complete(self, blobs: Collection[BlobId]) -> None:
        await self._mirror.complete(blobs)

    def contents(self, blobs: Sequence[BlobId]) -> Iterator[Blob]:
        return self._mirror.objects.contents(blobs)

    def discard(self) -> None:
        self._mirror.discard()
