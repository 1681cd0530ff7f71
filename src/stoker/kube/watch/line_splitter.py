"""Splits a stream of bytes into lines, however the network divided it into chunks.

A watch is one JSON object per line, and one object may be 3 MiB long, so a reader with a line limit does not
work. The splitter buffers only the unfinished line; each byte is scanned once, and a line over many chunks
is joined once. `split_lines` is the loop around it.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Iterator

from stoker.kube.client.errors import ApiServerUnreachable

MAX_LINE_BYTES = 64 * 1024 * 1024


class LineTooLong(Exception):
    """The peer sends a line without an end."""


class LineSplitter:
    """Takes chunks and returns complete lines, without line ends and without empty lines."""

    __slots__ = ("_held", "_limit", "_pieces")

    def __init__(self, limit: int = MAX_LINE_BYTES) -> None:
        self._limit = limit
        self._pieces: list[bytes] = []
        self._held = 0

    @property
    def unfinished(self) -> bool:
        """Whether the stream, if it ended now, would end within a line."""
        return self._held > 0

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """Take one chunk and yield the lines that it completes."""
        start = 0
        while (end := chunk.find(b"\n", start)) >= 0:
            line = self._take(chunk[start:end])
            start = end + 1
            if line:
                yield line
        self._hold(chunk[start:])

    def _hold(self, piece: bytes) -> None:
        if piece:
            self._held += len(piece)
            if self._held > self._limit:
                raise LineTooLong
            self._pieces.append(piece)

    def _take(self, last: bytes) -> bytes:
        self._hold(last)
        line = b"".join(self._pieces)
        self._pieces.clear()
        self._held = 0
        return line.rstrip(b"\r")


async def split_lines(chunks: AsyncIterator[bytes], what: str) -> AsyncGenerator[bytes]:
    """Yield the lines of a stream.

    A stream that ends within a line, or a line without an end, is an error.
    """
    splitter = LineSplitter()
    try:
        async for chunk in chunks:
            for line in splitter.feed(chunk):
                yield line
    except LineTooLong:
        raise ApiServerUnreachable(f"{what}: the server sends a line without an end") from None
    if splitter.unfinished:
        raise ApiServerUnreachable(f"{what}: the stream broke off in the middle of an event")
