"""Reading a commit from a mirror: its tree by name and id, its contents as streams.

Names come from git's objects and are attacks until proven canonical; symlinks,
submodules and unknown modes are recorded and never read. Contents come from one long
`git cat-file` in pieces, so a file of any size needs the memory of one piece.
Nothing here writes anywhere.
"""

from __future__ import annotations

import os
import select
import subprocess
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path

from stoker.domain.errors import InvalidValue
from stoker.domain.paths import RelPath
from stoker.domain.refs import CommitId
from stoker.engine.objects import Blob, BlobId, FileVersion, Refusal, RefusalKind, Tree, TreeEntry, shown
from stoker.git.errors import GitFailed
from stoker.git.runner import GitRunner

MAX_TREE_BYTES = 128 << 20
CHUNK = 1 << 16
SILENCE_TIMEOUT = 120.0

# Ids sent ahead. They fit into a pipe that is empty, so writing them never waits for git, which may itself
# be waiting for us to read.
_WINDOW = 256
_MAX_POINTER = 1024
_POINTER = b"version https://git-lfs.github.com/spec/"


async def read_tree(runner: GitRunner, repository: Path, commit: CommitId) -> Tree:
    """All entries of a commit, those that can be delivered and those that are refused."""
    listing = await runner.run(
        ["ls-tree", "-r", "-z", "--full-tree"], [commit], repository=repository, max_output=MAX_TREE_BYTES
    )
    files: list[TreeEntry] = []
    refused: list[Refusal] = []
    for line in listing.split(b"\0"):
        if line:
            entry = _entry(line)
            (files if isinstance(entry, TreeEntry) else refused).append(entry)  # type: ignore[arg-type]
    twice = {path for path, count in Counter(entry.path for entry in files).items() if count > 1}
    refused += [Refusal(path, path, RefusalKind.AMBIGUOUS) for path in sorted(twice)]
    return Tree(tuple(entry for entry in files if entry.path not in twice), tuple(refused))


def read_blobs(runner: GitRunner, repository: Path, ids: Iterable[BlobId]) -> Iterator[Blob]:
    """The contents in the order of `ids`; for a worker thread."""
    waiting = iter(ids)
    with runner.stream(["cat-file", "--batch"], repository=repository) as process:
        answers = _Answers(process)
        while window := list(islice(waiting, _WINDOW)):
            answers.ask(window)
            for blob in window:
                size = answers.header(blob)
                chunks = answers.content(size)
                yield Blob(blob, size, chunks)
                for _ in chunks:  # whatever the caller left of it
                    pass


def find_lfs_pointers(runner: GitRunner, repository: Path, ids: Iterable[BlobId]) -> frozenset[BlobId]:
    """Which of these contents only point at content that lies elsewhere; for a worker thread."""
    small = [blob for blob, size in _sizes(runner, repository, dict.fromkeys(ids)) if size < _MAX_POINTER]
    return frozenset(
        blob.id
        for blob in read_blobs(runner, repository, small)
        if b"".join(blob.chunks).startswith(_POINTER)
    )


def _sizes(runner: GitRunner, repository: Path, ids: Iterable[BlobId]) -> Iterator[tuple[BlobId, int]]:
    waiting = iter(ids)
    with runner.stream(["cat-file", "--batch-check"], repository=repository) as process:
        answers = _Answers(process)
        while window := list(islice(waiting, _WINDOW)):
            answers.ask(window)
            yield from ((blob, answers.header(blob)) for blob in window)


def _entry(line: bytes) -> TreeEntry | Refusal:
    head, _, raw = line.partition(b"\t")
    mode, _, blob = head.decode("ascii").split(" ")
    text = raw.decode("utf-8", "surrogateescape")
    try:
        path = RelPath(text)
    except InvalidValue as error:
        return Refusal(shown(text), _nearest(text), RefusalKind.BAD_NAME, shown(error.message))
    if mode == "120000":
        return Refusal(path, path, RefusalKind.SYMLINK)
    if not mode.startswith("100"):  # git takes every mode that it does not know for a submodule
        return Refusal(path, path, RefusalKind.SUBMODULE)
    # Of a mode only the owner's executable bit counts: setuid and the like never reach the disk.
    return TreeEntry(path, FileVersion(BlobId(blob), executable=bool(int(mode, 8) & 0o100)))


def _nearest(text: str) -> RelPath:
    """The deepest canonical folder above a name that is not canonical."""
    good = RelPath("")
    for part in text.split("/")[:-1]:
        try:
            good = RelPath(f"{good}/{part}" if good else part or "..")
        except InvalidValue:
            break
    return good


class _Answers:
    """Reads what `git cat-file` answers, with a limit on its silence."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        if process.stdin is None or process.stdout is None:
            raise ValueError("the process was started without pipes")
        self._questions = process.stdin
        self._fd = process.stdout.fileno()
        self._buffer = b""

    def ask(self, ids: Sequence[BlobId]) -> None:
        try:
            self._questions.write("".join(f"{blob}\n" for blob in ids).encode())
        except OSError as error:
            raise GitFailed("git ended while it was asked for contents") from error

    def header(self, blob: BlobId) -> int:
        """The size of the content that follows."""
        while b"\n" not in self._buffer:
            self._buffer += self._read()
        line, _, self._buffer = self._buffer.partition(b"\n")
        words = line.decode("ascii", "replace").split(" ")
        if len(words) != 3 or words[0] != blob or words[1] != "blob" or not words[2].isdigit():
            raise GitFailed(f"blob {blob} is not in the mirror")
        return int(words[2])

    def content(self, size: int) -> Iterator[bytes]:
        left = size
        while left:
            if not self._buffer:
                self._buffer = self._read()
            chunk, self._buffer = self._buffer[:left], self._buffer[left:]
            left -= len(chunk)
            yield chunk
        while not self._buffer:
            self._buffer = self._read()
        self._buffer = self._buffer[1:]  # the line feed after each content

    def _read(self) -> bytes:
        ready, _, _ = select.select([self._fd], [], [], SILENCE_TIMEOUT)
        if not ready:
            raise GitFailed(f"git was silent for {SILENCE_TIMEOUT:g} s while contents were read")
        chunk = os.read(self._fd, CHUNK)
        if not chunk:
            raise GitFailed("git ended while contents were read; the mirror is damaged")
        return chunk
