"""What a pass needs of the place that files come from.

git is one (`stoker.git.source.git`), a folder of a person who edits is another
(`stoker.fs.folder_source`); a registry or a bucket can follow. Reading and
writing are different capabilities with different credentials: this is the
reader's half, and whoever has only that can change nothing at the source.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from stoker.domain.git_objects import Blob, BlobId, CommitTree, FileVersion, TreeChange
from stoker.domain.refs import CommitId, GitRef


class SourceReader(Protocol):
    """Everything is asked for by the commit that `resolve` gave, never by the ref again."""

    async def resolve(self, ref: GitRef) -> CommitId:
        """The commit that a ref means now."""
        ...

    def held(self) -> AbstractAsyncContextManager[None]:
        """The local copy for this process alone; the calls below are made while it is held."""
        ...

    async def fetch(self, commit: CommitId, ref: GitRef) -> None:
        """Have the commit and its trees here; `ref` is where to look if ids are not given out."""
        ...

    async def vouch(self, commit: CommitId, ref: GitRef, before: CommitId | None) -> None:
        """Raise unless the source's own rules let this commit follow that one: signed, nothing rewritten."""
        ...

    async def tree(self, commit: CommitId) -> CommitTree:
        """All of a commit."""
        ...

    async def changes(self, before: CommitId, after: CommitId) -> tuple[TreeChange, ...] | None:
        """What differs; None if that cannot be told by regular files alone, or `before` is not here."""
        ...

    async def look_up(self, commit: CommitId, paths: Collection[str]) -> dict[str, FileVersion]:
        """Those of the paths that are regular files in the commit."""
        ...

    async def committed_at(self, commit: CommitId) -> int:
        """When the commit was made, in Unix seconds."""
        ...

    async def complete(self, blobs: Collection[BlobId]) -> None:
        """Have these contents here, in one request."""
        ...

    def contents(self, blobs: Sequence[BlobId]) -> Iterator[Blob]:
        """The contents in this order; for a worker thread."""
        ...

    def discard(self) -> None:
        """Forget the local copy: it was found damaged, and the next fetch builds it anew."""
        ...
