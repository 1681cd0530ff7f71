"""Reads commits and contents from a repository on disk, whichever process filled it.

The common base of sources that fetch themselves (`stoker.git.source.git`) and of sources that read what
another process fetches (`stoker.git.source.shared`). It never writes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import TypeAlias

from stoker.domain.git_objects import Blob, BlobId, CommitTree, FileVersion, TreeChange
from stoker.domain.refs import CommitId, GitRef
from stoker.git.mirror import tree as git_tree
from stoker.git.mirror.objects import MirrorObjects
from stoker.git.process.runner import GitRunner
from stoker.git.remote.remote import Remote

CommitRule: TypeAlias = Callable[[Remote, Path, CommitId, GitRef, CommitId | None], Awaitable[None]]
"""Raises unless a commit may be applied.

Arguments: the remote, the repository on disk that has the commit, the commit, the ref that led to it, and
the commit of that ref that was applied last.
"""


class MirrorReader(ABC):
    """The reading half of a `SourceReader`; subclasses provide the current `repository` and `objects`."""

    def __init__(self, runner: GitRunner) -> None:
        self._runner = runner

    @property
    @abstractmethod
    def repository(self) -> Path:
        """The repository on disk; valid while the source is held."""

    @property
    @abstractmethod
    def objects(self) -> MirrorObjects:
        """The objects of that repository."""

    async def tree(self, commit: CommitId) -> CommitTree:
        return await git_tree.read_tree(self._runner, self.repository, commit)

    async def changes(self, before: CommitId, after: CommitId) -> tuple[TreeChange, ...] | None:
        return await git_tree.read_changes(self._runner, self.repository, before, after)

    async def look_up(self, commit: CommitId, paths: Collection[str]) -> dict[str, FileVersion]:
        return await git_tree.look_up_files(self._runner, self.repository, commit, paths)

    async def committed_at(self, commit: CommitId) -> int:
        return git_tree.commit_time(await self.objects.commit(commit))

    def contents(self, blobs: Sequence[BlobId]) -> Iterator[Blob]:
        return self.objects.contents(blobs)
