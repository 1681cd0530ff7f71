"""A remote branch as the target of an export: all changes in one commit, or none."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from stoker.domain.clock import Clock, SystemClock
from stoker.domain.git_objects import blob_of
from stoker.domain.refs import CommitId
from stoker.git.commit.branch import RemoteBranch
from stoker.git.commit.types import CommitAuthor, FileEdit, NewCommit
from stoker.reverser.export.types import ExportFinish


class BranchStore:
    """Collects changes for one commit; implements `types.ExportStore`."""

    def __init__(self, branch: RemoteBranch, author: CommitAuthor, clock: Clock | None = None) -> None:
        self.digits = 40
        self._branch = branch
        self._author = author
        self._clock = clock if clock is not None else SystemClock()
        self._tip: CommitId | None = None
        self._listed: dict[str, dict[str, str]] = {}
        self._blobs: dict[str, str] = {}
        self._edits: dict[str, bytes | None] = {}

    async def begin(self, bases: Collection[str]) -> None:
        self._tip = await self._branch.refresh()
        if self._tip is not None:
            self.digits = len(self._tip)
        for base in bases:
            self._listed[base] = {path: str(blob) for path, blob in (await self._branch.listed(base)).items()}
            self._blobs |= self._listed[base]

    def paths(self, base: str) -> Collection[str]:
        return self._listed[base].keys()

    def blob(self, path: str) -> str | None:
        return self._blobs.get(path)

    async def read(self, paths: Sequence[str]) -> dict[str, bytes]:
        there = [path for path in paths if path in self._blobs]
        return await self._branch.read(there) if there else {}

    def put(self, path: str, content: bytes | None, *, private: bool = False) -> None:
        self._edits[path] = content
        if content is None:
            self._blobs.pop(path, None)
        else:
            self._blobs[path] = blob_of(content, digits=self.digits)

    async def finish(self, message: str) -> ExportFinish:
        if not self._edits:
            return ExportFinish(self._tip)
        edits = tuple(FileEdit(path, content) for path, content in self._edits.items())
        when = int(self._clock.now().timestamp())
        pushed = await self._branch.commit([NewCommit(self._author, self._author, message, edits, when)])
        return ExportFinish(pushed.tip, pushed.refused)
