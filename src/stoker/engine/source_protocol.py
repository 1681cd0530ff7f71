"""The interface through which a sync reads its source.

`stoker.git.source.git` implements it for git, `stoker.fs.folder_source` for a local folder in which a
person edits. Reading and writing are separate capabilities with separate credentials. This is the reading
half: code that holds only a `SourceReader` cannot change the source.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from stoker.domain.git_objects import Blob, BlobId, CommitTree, FileVersion, TreeChange
from stoker.domain.refs import CommitId, GitRef


class SourceReader(Protocol):
    """Reads a source.

    Every method after `resolve` takes the commit that `resolve` returned, never the ref again.
    """

    async def resolve(self, ref: GitRef) -> CommitId:
        """Return the commit that a ref points to now."""
        ...

    def held(self) -> AbstractAsyncContextManager[None]:
        """Lock the local copy for this process; the methods below must be called while the lock is held."""
        ...

    async def fetch(self, commit: CommitId, ref: GitRef) -> None:
        """Fetch the commit and its trees.

        If the server does not serve single commit ids, the commit is fetched through `ref`.
        """
        ...

    async def vouch(self, commit: CommitId, ref: GitRef, before: CommitId | None) -> None:
        """Raise unless the source's rules allow `commit` after `before`: signature, no rewritten history."""
        ...

    async def tree(self, commit: CommitId) -> CommitTree:
        """Return the whole tree of a commit."""
        ...

    async def changes(self, before: CommitId, after: CommitId) -> tuple[TreeChange, ...] | None:
        """Return the differences between two commits.

        Returns None if they involve more than regular files, or `before` is not available here.
        """
        ...

    async def look_up(self, commit: CommitId, paths: Collection[str]) -> dict[str, FileVersion]:
        """Return those of the paths that are regular files in the commit."""
        ...

    async def committed_at(self, commit: CommitId) -> int:
        """Return when the commit was made, in Unix seconds."""
        ...

    async def complete(self, blobs: Collection[BlobId]) -> None:
        """Fetch these contents in one request."""
        ...

    def contents(self, blobs: Sequence[BlobId]) -> Iterator[Blob]:
        """Iterate over the contents in this order; call it in a worker thread."""
        ...

    def discard(self) -> None:
        """Delete the local copy, which was found damaged; the next fetch builds it again."""
        ...
