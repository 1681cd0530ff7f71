"""A source with its own mirror, which it holds during a sync, fills, and cleans up afterwards.

Base of `stoker.git.source.git` and `stoker.git.source.artifact`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from pathlib import Path

from stoker.domain.clock import Clock
from stoker.domain.git_objects import BlobId
from stoker.domain.refs import CommitId, GitRef
from stoker.git.mirror.cleanup import clean_cache, is_cleanup_due
from stoker.git.mirror.mirror import Mirror
from stoker.git.mirror.objects import MirrorObjects
from stoker.git.mirror.reader import MirrorReader
from stoker.git.process.runner import GitRunner


class MirrorSource(MirrorReader):
    """A `SourceReader` except for `resolve` (what a ref means) and `vouch` (which commits are trusted)."""

    def __init__(self, runner: GitRunner, mirror: Mirror, cache: Path, clock: Clock) -> None:
        super().__init__(runner)
        self._mirror = mirror
        self._cache = cache
        self._clock = clock

    @asynccontextmanager
    async def held(self) -> AsyncIterator[None]:
        async with self._mirror.held():
            yield
        now = self._clock.now()
        if is_cleanup_due(self._cache, now):
            await asyncio.to_thread(clean_cache, self._cache, now)

    @property
    def repository(self) -> Path:
        return self._mirror.path

    @property
    def objects(self) -> MirrorObjects:
        return self._mirror.objects

    async def fetch(self, commit: CommitId, ref: GitRef) -> None:
        await self._mirror.fetch(commit, ref)

    async def complete(self, blobs: Collection[BlobId]) -> None:
        await self._mirror.complete(blobs)

    def discard(self) -> None:
        self._mirror.discard()
