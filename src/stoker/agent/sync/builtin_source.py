"""A source that also serves the contents that Stoker itself writes.

`FolderSync` wraps every source in it. Later steps ask for contents by blob id and need not know that some of
them (`stoker.engine.layout.builtin_files`) are in no repository. Every other request goes to the wrapped
source.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass

from stoker.domain.git_objects import Blob, BlobId, CommitTree, FileVersion, TreeChange
from stoker.domain.refs import CommitId, GitRef
from stoker.engine.layout import builtin_files
from stoker.engine.source_protocol import SourceReader


@dataclass(frozen=True, slots=True)
class BuiltinSource:
    """A `SourceReader` that wraps another one."""

    source: SourceReader

    async def complete(self, blobs: Collection[BlobId]) -> None:
        await self.source.complete(
            blobs if builtin_files.IDS.isdisjoint(blobs) else set(blobs) - builtin_files.IDS
        )

    def contents(self, blobs: Sequence[BlobId]) -> Iterator[Blob]:
        return self.source.contents(blobs) if builtin_files.IDS.isdisjoint(blobs) else self._mixed(blobs)

    def _mixed(self, blobs: Sequence[BlobId]) -> Iterator[Blob]:
        asked = self.source.contents([blob for blob in blobs if blob not in builtin_files.IDS])
        for blob in blobs:
            if blob in builtin_files.IDS:
                content = builtin_files.builtin_content(blob)
                yield Blob(blob, len(content), iter((content,)))
            else:
                yield next(asked)
        for _ in asked:  # run the iterator to its end, so that the source can clean up
            pass

    async def resolve(self, ref: GitRef) -> CommitId:
        return await self.source.resolve(ref)

    def held(self) -> AbstractAsyncContextManager[None]:
        return self.source.held()

    async def fetch(self, commit: CommitId, ref: GitRef) -> None:
        await self.source.fetch(commit, ref)

    async def vouch(self, commit: CommitId, ref: GitRef, before: CommitId | None) -> None:
        await self.source.vouch(commit, ref, before)

    async def tree(self, commit: CommitId) -> CommitTree:
        return await self.source.tree(commit)

    async def changes(self, before: CommitId, after: CommitId) -> tuple[TreeChange, ...] | None:
        return await self.source.changes(before, after)

    async def look_up(self, commit: CommitId, paths: Collection[str]) -> dict[str, FileVersion]:
        return await self.source.look_up(commit, paths)

    async def committed_at(self, commit: CommitId) -> int:
        return await self.source.committed_at(commit)

    def discard(self) -> None:
        self.source.discard()
