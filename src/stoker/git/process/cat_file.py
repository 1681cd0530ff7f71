"""One running `git cat-file`: questions in windows, answers in their order.

It stands under `stoker.git.mirror.objects`, which decides what is asked. Answers are cut
out of large reads without being copied twice. All of it is for a worker thread; it
knows nothing but local objects, and a missing one is an answer, never a fetch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import TypeVar

from stoker.git.errors import GitFailed
from stoker.git.process.child import kill_group
from stoker.git.process.pipe import PipedOutput
from stoker.git.process.runner import GitRunner

ObjectNameT = TypeVar("ObjectNameT", bound=str)

WHOLE = 1 << 20
"""Contents up to this size come as one piece."""

# Two windows of questions fit into a pipe that nobody reads, so asking never waits for git, which may itself
# be waiting for us to read.
_WINDOW = 256
_MAX_LINE = 1024


class CatFile:
    """A process that is asked by one caller at a time."""

    def __init__(self, runner: GitRunner, repository: Path) -> None:
        self._stack = ExitStack()
        self._process = self._stack.enter_context(
            runner.stream(["cat-file", "--batch-command", "--buffer"], repository=repository)
        )
        self._output = PipedOutput(self._process)
        self._data = b""
        self._at = 0
        self.is_at_rest = True
        """Whether every answer was read, so that it may be asked again."""

    def answered(self, verb: str, names: Sequence[ObjectNameT]) -> Iterator[list[ObjectNameT]]:
        """Names whose answers are to be read, in windows; the next is asked for while one is read."""
        self.is_at_rest = False
        waiting = iter(names)
        window = self._ask(verb, waiting)
        while window:
            following = self._ask(verb, waiting)
            yield window
            window = following
        self.is_at_rest = True

    def sizes(self, names: Sequence[str]) -> Iterator[int | None]:
        """The answers about a window of objects: how large each is, None if it is missing."""
        parts = [self._data[self._at :]]
        left = len(names) - parts[0].count(b"\n")
        while left > 0:
            parts.append(self._read())
            left -= parts[-1].count(b"\n")
        *lines, self._data = b"".join(parts).split(b"\n", len(names))
        self._at = 0
        return map(_parse_size, names, lines)

    def header(self, name: str, kind: bytes) -> int | None:
        """The size of the content that follows, None if it is missing."""
        while (end := self._data.find(b"\n", self._at)) < 0:
            if len(self._data) - self._at > _MAX_LINE:
                raise GitFailed("git answers with nonsense; the mirror is damaged")
            self._data, self._at = self._data[self._at :] + self._read(), 0
        line = self._data[self._at : end]
        self._at = end + 1
        size = _parse_size(name, line)
        if size is not None and line.split(b" ")[1] != kind:
            raise GitFailed(f"{name} is no {kind.decode()} in the mirror")
        return size

    def content(self, size: int) -> Iterator[bytes]:
        """What follows the header; all of it must be read before anything else."""
        end = self._at + size
        if end < len(self._data):  # all of it is here, with the line feed that ends it
            whole = self._data[self._at : end]
            self._at = end + 1
            return iter((whole,))
        return iter((self._gathered(size),)) if size <= WHOLE else self._pieces(size)

    def kill(self) -> None:
        """Whoever waits for an answer then gets an error."""
        kill_group(self._process.pid)

    def close(self) -> None:
        self._stack.close()

    def _ask(self, verb: str, waiting: Iterator[ObjectNameT]) -> list[ObjectNameT]:
        window = list(islice(waiting, _WINDOW))
        if window and self._process.stdin is not None:
            questions = "".join([f"{verb} {name}\n" for name in window])
            try:
                self._process.stdin.write(f"{questions}flush\n".encode())
            except OSError as error:
                raise GitFailed("git ended while it was asked for objects; the mirror is damaged") from error
        return window

    def _gathered(self, size: int) -> bytes:
        return b"".join(self._pieces(size))

    def _pieces(self, size: int) -> Iterator[bytes]:
        while size:
            if self._at == len(self._data):
                self._data, self._at = self._read(), 0
            chunk = self._data[self._at : self._at + size]
            self._at += len(chunk)
            size -= len(chunk)
            yield chunk
        if self._at == len(self._data):
            self._data, self._at = self._read(), 0
        self._at += 1  # the line feed after each content

    def _read(self) -> bytes:
        chunk = self._output.read()
        if not chunk:
            raise GitFailed("git ended while the mirror was read; it is damaged, or git is older than 2.36")
        return chunk


def _parse_size(name: str, line: bytes) -> int | None:
    """What stands in an answer: `<id> <type> <size>` or `<name> missing`."""
    last = line[line.rfind(b" ") + 1 :]
    if last.isdigit():
        return int(last)
    if last == b"missing":
        return None
    raise GitFailed(f"git gives no answer about {name}; the mirror is damaged")
