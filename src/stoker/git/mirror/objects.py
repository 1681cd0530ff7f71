"""Reads objects of a mirror by id: existence, size, content.

One `git cat-file` process answers all requests while a mirror is held, because starting a process costs
as much as a thousand answers. That process also sees packs that are fetched later. Contents come in
chunks, so a file of any size needs the memory of one chunk only. Nothing here writes to disk or contacts
a server. The coroutines are for the event loop, everything else is for a worker thread.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from stoker.domain.git_objects import Blob, BlobId
from stoker.domain.refs import CommitId
from stoker.git.errors import GitFailed
from stoker.git.process.cat_file import WHOLE, CatFile
from stoker.git.process.pipe import run_in_worker
from stoker.git.process.runner import GitRunner

MAX_TREE = 64 << 20
_FEW = 1000
_GONE = " missing"
_MAX_ANSWER = 64 + len(_GONE) + 1


class MirrorObjects:
    """The objects of one repository on disk."""

    def __init__(self, runner: GitRunner, repository: Path) -> None:
        self._runner = runner
        self._repository = repository
        self._idle: CatFile | None = None
        self._started: set[CatFile] = set()

    async def has(self, commit: CommitId) -> bool:
        """Whether the mirror has a commit and its root tree."""
        return None not in await self.sizes([f"{commit}^{{commit}}", f"{commit}^{{tree}}"])

    async def sizes(self, names: Sequence[str]) -> list[int | None]:
        """Return the size of each object, None if it is missing."""
        return await run_in_worker(lambda: self._sizes(names), self.abort)

    async def missing(self, blobs: Collection[BlobId]) -> list[BlobId]:
        """Return those of the blobs that the mirror does not have."""
        asked = list(dict.fromkeys(blobs))
        if len(asked) <= _FEW:
            return [blob for blob, size in zip(asked, await self.sizes(asked), strict=True) if size is None]
        # To compute a size, git follows deltas to their base. For many blobs a new process that asks for
        # ids only is faster.
        said = await self._runner.run(
            ["cat-file", "--buffer", "--batch-check=%(objectname)"],
            repository=self._repository,
            stdin="".join(f"{blob}\n" for blob in asked).encode(),
            max_output=len(asked) * _MAX_ANSWER,
        )
        lines = said.decode().split("\n") if _GONE.encode() in said else ()
        return [BlobId(line[: -len(_GONE)]) for line in lines if line.endswith(_GONE)]

    async def commit(self, commit: CommitId) -> bytes:
        """Return a commit as git stores it."""
        return await run_in_worker(lambda: self._commit(commit), self.abort)

    def contents(self, blobs: Sequence[BlobId]) -> Iterator[Blob]:
        """Yield the blobs in this order."""
        with self._taken() as git:
            for window in git.answered("contents", blobs):
                for blob in window:
                    size = git.header(blob, b"blob")
                    if size is None:
                        raise GitFailed(f"blob {blob} is not in the mirror")
                    chunks = git.content(size)
                    yield Blob(blob, size, chunks)
                    for _ in chunks:  # read what the caller did not, to reach the next answer
                        pass

    def tree(self, name: str) -> bytes:
        """Return a tree as git stores it."""
        content = b""
        with self._taken() as git:
            for _ in git.answered("contents", [name]):
                size = git.header(name, b"tree")
                if size is None or size > MAX_TREE:
                    raise GitFailed(f"tree {name} is not in the mirror, or larger than {MAX_TREE} bytes")
                content = b"".join(git.content(size))
        return content

    def abort(self) -> None:
        """Kill every git process; a thread that waits for an answer gets an error."""
        for git in tuple(self._started):
            git.kill()

    def close(self) -> None:
        """Close every git process; the next request starts another."""
        self._idle = None
        while self._started:
            self._started.pop().close()

    def _sizes(self, names: Sequence[str]) -> list[int | None]:
        with self._taken() as git:
            return [size for window in git.answered("info", names) for size in git.sizes(window)]

    def _commit(self, commit: CommitId) -> bytes:
        with self._taken() as git:
            for _ in git.answered("contents", [commit]):
                size = git.header(commit, b"commit")
                if size is None or size > WHOLE:
                    raise GitFailed(f"commit {commit} is not in the mirror, or too large to be one")
                content = b"".join(git.content(size))
        return content

    @contextmanager
    def _taken(self) -> Iterator[CatFile]:
        """Yield a git process for exclusive use; close it afterwards if it has unread answers."""
        git, self._idle = self._idle, None
        if git is None:
            git = CatFile(self._runner, self._repository)
            self._started.add(git)
        try:
            yield git
        finally:
            if git.is_at_rest and self._idle is None and git in self._started:
                self._idle = git
            else:
                self._started.discard(git)
                git.close()
