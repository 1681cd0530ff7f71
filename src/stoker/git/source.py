"""A git repository as the source of a pass: resolve, hold, fetch, read.

It implements `stoker.engine.sources.SourceReader` and holds no algorithm: resolving,
fetching and reading are rooms of their own. It can change nothing at the source.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from stoker.domain.clock import Clock, SystemClock
from stoker.domain.refs import CommitId, GitRef
from stoker.engine.objects import BlobId
from stoker.git.looking.fetching import Limits
from stoker.git.looking.remote import Remote
from stoker.git.looking.resolving import look_up
from stoker.git.mirrors.contents import Objects
from stoker.git.mirrors.housekeeping import is_due, tend
from stoker.git.mirrors.mirror import Mirror
from stoker.git.mirrors.reader import MirrorReader, Rule

_DEFAULT = Limits()


class GitSource(MirrorReader):
    """One repository, read through a mirror below `cache`."""

    def __init__(
        self,
        remote: Remote,
        cache: Path,
        clock: Clock | None = None,
        limits: Limits = _DEFAULT,
        rules: Sequence[Rule] = (),
    ) -> None:
        super().__init__(remote.runner)
        self._remote = remote
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
        return self._mirror.path

    @property
    def objects(self) -> Objects:
        return self._mirror.objects

    async def fetch(self, commit: CommitId, ref: GitRef) -> None:
        await self._mirror.fetch(commit, ref)

    async def vouch(self, commit: CommitId, ref: GitRef, before: CommitId | None) -> None:
        for rule in self._rules:
            await rule(self._remote, self._mirror.path, commit, ref, before)

    async def complete(self, blobs: Collection[BlobId]) -> None:
        await self._mirror.complete(blobs)

    def discard(self) -> None:
        self._mirror.discard()
