"""Finds blobs that were fetched before in any mirror of a cache.

For commands that have no source to contact, such as `stoker verify`. A blob is identified by its id, so
the mirror of any repository and any credential will do: the contents are only compared and never shown.
This module fetches nothing and creates no mirror. It skips a mirror that is in use or damaged.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Collection, Iterator, Sequence
from contextlib import ExitStack, asynccontextmanager, suppress
from pathlib import Path

from stoker.domain.git_objects import Blob, BlobId
from stoker.git.errors import GitFailed
from stoker.git.mirror.layout import repair_mirror
from stoker.git.mirror.mirror import try_lock
from stoker.git.mirror.objects import MirrorObjects
from stoker.git.process.runner import GitRunner


class BlobCache:
    """The mirrors of one cache folder; call `complete` and `contents` inside `held` only."""

    def __init__(self, cache: Path) -> None:
        self._cache = cache
        self._kept = ExitStack()
        self._objects: MirrorObjects | None = None

    @asynccontextmanager
    async def held(self) -> AsyncIterator[None]:
        """Keep the lock of the mirror that `complete` finds until the context ends."""
        try:
            yield
        finally:
            self._objects = None
            self._kept.close()

    async def complete(self, blobs: Collection[BlobId]) -> None:
        """Find and lock a mirror that has all of these blobs; raise `GitFailed` if there is none."""
        for mirror in self._mirrors():
            if await self._has_all(mirror, blobs):
                return
        raise GitFailed(f"no mirror in {self._cache} has all {len(blobs)} contents")

    def contents(self, blobs: Sequence[BlobId]) -> Iterator[Blob]:
        """Yield the blobs in this order; call it in a worker thread."""
        if self._objects is None:
            raise GitFailed(f"no mirror in {self._cache} was found")
        return self._objects.contents(blobs)

    def _mirrors(self) -> list[Path]:
        """List the mirrors, the most recently used first."""
        with suppress(OSError):
            locks = [path for path in (self._cache / "mirrors").iterdir() if path.suffix == ".lock"]
            locks.sort(key=lambda path: path.lstat().st_mtime, reverse=True)
            return [path.with_suffix("") for path in locks if path.with_suffix("").is_dir()]
        return []

    async def _has_all(self, mirror: Path, blobs: Collection[BlobId]) -> bool:
        with ExitStack() as kept, suppress(OSError, GitFailed):
            fd = try_lock(mirror.with_suffix(".lock"))
            if fd is None:
                return False
            kept.callback(os.close, fd)
            if repair_mirror(mirror, max(map(len, blobs), default=40)) is None:
                return False
            objects = MirrorObjects(GitRunner(self._cache), mirror)
            kept.callback(objects.close)
            if not await objects.missing(blobs):
                self._objects = objects
                self._kept.push(kept.pop_all())
                return True
        return False
