"""Objects of a mirror by id: whether they are here, how large they are, what they hold.

One `git cat-file` answers everything while a mirror is held, because starting one
costs as much as a thousand answers; it sees packs that are fetched meanwhile. Contents
come in pieces, so a file of any size needs the memory of one piece. Nothing here
writes anywhere or talks to a server. The coroutines are for the event loop, everything
else is for a worker thread.
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
        """Whether a commit and its own tree are here."""
        return None not in await self.sizes([f"{commit}^{{commit}}", f"{commit}^{{tree}}"])

    async def sizes(self, names: Sequence[str]) -> list[int | None]:
        """The size of each object, None where it is missing."""
        return await run_in_worker(lambda: self._sizes(names), self.abort)

    async def missing(self, blobs: Collection[BlobId]) -> list[BlobId]:
        """Which of these contents are not here."""
        asked = list(dict.fromkeys(blobs))
        if len(asked) <= _FEW:
            return [blob for blob, size in zip(asked, await self.sizes(asked), strict=True) if size is None]
        # To tell a size git follows deltas to their base, which for many takes longer than another process.
        said = await self._runner.run(
            ["cat-file", "--buffer", "--batch-check=%(objectname)"],
            repository=self._repository,
            stdin="".join(f"{blob}\n" for blob in asked).encode(),
            max_output=len(asked) * _MAX_ANSWER,
        )
        lines = said.decode().split("\n") if _GONE.encode() in said else ()
        return [BlobId(line[: -len(_GONE)]) for line in lines if line.endswith(_GONE)]

    async def commit(self, commit: CommitId) -> bytes:
        """A commit as git stores it."""
        return await run_in_worker(lambda: self._commit(commit), self.abort)

    def contents(self, blobs: Sequence[BlobId]) -> Iterator[Blob]:
        """The contents in this order."""
        with self._taken() as git:
            for window in git.answered("contents", blobs):
                for blob in window:
                    size = git.header(blob, b"blob")
                    if size is None:
                        raise GitFailed(f"blob {blob} is not in the mirror")
                    chunks = git.content(size)
                    yield Blob(blob, size, chunks)
                    for _ in chunks:  # whatever the caller left of it
                        pass

    def tree(self, name: str) -> bytes:
        """A tree as git stores it."""
        content = b""
        with self._taken() as git:
            for _ in git.answered("contents", [name]):
                size = git.header(name, b"tree")
                if size is None or size > MAX_TREE:
                    raise GitFailed(f"tree {name} is not in the mirror, or larger than {MAX_TREE} bytes")
                content = b"".join(git.content(size))
        return content

    def abort(self) -> None:
        """End every git at once; whoever waits for an answer gets an error."""
        for git in tuple(self._started):
            git.kill()

    def close(self) -> None:
        """Let go of everything; the next question starts anew."""
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
        """A git that nobody else asks; one with unread answers is of no more use."""
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
