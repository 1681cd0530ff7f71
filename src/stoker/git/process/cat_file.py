"""One running `git cat-file`: requests in windows, answers in the same order.

`stoker.git.mirror.objects` uses it and decides what to request. Answers are cut out of large reads
without a second copy. All of it is for a worker thread. It reads local objects only: a missing object is
reported as missing and never fetched.
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
"""Contents up to this size come as one chunk."""

# Two windows of requests fit into the pipe's buffer, so writing never blocks on git. Otherwise both could
# deadlock: git waiting for us to read its output, and we for git to read its input.
_WINDOW = 256
_MAX_LINE = 1024


class CatFile:
    """One `git cat-file` process, for one caller at a time."""

    def __init__(self, runner: GitRunner, repository: Path) -> None:
        self._stack = ExitStack()
        self._process = self._stack.enter_context(
            runner.stream(["cat-file", "--batch-command", "--buffer"], repository=repository)
        )
        self._output = PipedOutput(self._process)
        self._data = b""
        self._at = 0
        self.is_at_rest = True
        """Whether every answer was read, so that the process can take new requests."""

    def answered(self, verb: str, names: Sequence[ObjectNameT]) -> Iterator[list[ObjectNameT]]:
        """Request the names and yield windows whose answers the caller reads; the next is already sent."""
        self.is_at_rest = False
        waiting = iter(names)
        window = self._ask(verb, waiting)
        while window:
            following = self._ask(verb, waiting)
            yield window
            window = following
        self.is_at_rest = True

    def sizes(self, names: Sequence[str]) -> Iterator[int | None]:
        """Read the answers for a window of `info` requests: each size, None if the object is missing."""
        parts = [self._data[self._at :]]
        left = len(names) - parts[0].count(b"\n")
        while left > 0:
            parts.append(self._read())
            left -= parts[-1].count(b"\n")
        *lines, self._data = b"".join(parts).split(b"\n", len(names))
        self._at = 0
        return map(_parse_size, names, lines)

    def header(self, name: str, kind: bytes) -> int | None:
        """Read a header: the size of the content that follows, None if the object is missing."""
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
        """Read the content after a header; the caller must consume all of it before the next read."""
        end = self._at + size
        if end < len(self._data):  # the whole content and its final line feed are buffered
            whole = self._data[self._at : end]
            self._at = end + 1
            return iter((whole,))
        return iter((self._gathered(size),)) if size <= WHOLE else self._pieces(size)

    def kill(self) -> None:
        """Kill the process; a thread that waits for an answer gets an error."""
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
    """Parse the size in an answer, `<id> <type> <size>` or `<name> missing`; None if missing."""
    last = line[line.rfind(b" ") + 1 :]
    if last.isdigit():
        return int(last)
    if last == b"missing":
        return None
    raise GitFailed(f"git gives no answer about {name}; the mirror is damaged")
