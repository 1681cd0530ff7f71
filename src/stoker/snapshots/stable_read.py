"""Reads files that another process may write to at any time.

A read is valid only if the file's size and times were the same before and after it; otherwise the file is
read again, a few times. Nothing here trusts the size from an earlier scan.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Iterator
from typing import TypeVar

from stoker.domain.git_objects import BlobHash, BlobId
from stoker.snapshots.types import MAX_FILE_BYTES, PackCodec

T = TypeVar("T")

LEVEL = 1
"""The zlib level: twice as fast as the default, for 10 % more bytes."""
LARGE = 2 << 20
"""Files of at least this size are streamed in chunks."""
MAX_ATTEMPTS = 3
_CHUNK = 1 << 20
# Smaller contents are not compressed. For contents above the second size, a sample from the middle decides.
_MIN_COMPRESSED_BYTES = 64
_COMPRESSION_SAMPLE_BYTES = 16 << 10
_SAMPLE = 4 << 10


class FileKeepsChanging(OSError):
    """The file changed during every attempt to read it."""

    def __str__(self) -> str:
        return "it keeps changing while it is read"


def read_stable(fd: int, read: Callable[[int, int], T]) -> tuple[T, os.stat_result]:
    """Call `read` until the file does not change during the call; return the result and the file's stat."""
    for _ in range(MAX_ATTEMPTS):
        before = os.fstat(fd)
        os.lseek(fd, 0, os.SEEK_SET)
        value = read(fd, before.st_size)
        after = os.fstat(fd)
        if (before.st_size, before.st_mtime_ns, before.st_ctime_ns) == (
            after.st_size,
            after.st_mtime_ns,
            after.st_ctime_ns,
        ):
            return value, after
    raise FileKeepsChanging


def read_whole(fd: int, size: int) -> bytes:
    """Return the whole content of a small file; raise if the file has grown large."""
    if size > 2 * LARGE:
        raise FileKeepsChanging
    content = os.read(fd, size + 1)
    while len(content) <= size and (more := os.read(fd, size + 1 - len(content))):
        content += more
    if len(content) != size:
        raise FileKeepsChanging
    return content


def is_compressible(content: bytes) -> bool:
    """Whether compression may help: for images and archives it costs the most time and saves nothing."""
    if len(content) <= _COMPRESSION_SAMPLE_BYTES:
        return len(content) > _MIN_COMPRESSED_BYTES
    middle = (len(content) - _SAMPLE) // 2
    return len(zlib.compress(content[middle : middle + _SAMPLE], LEVEL)) < _SAMPLE * 0.95


def hash_large_file(fd: int, digits: int) -> tuple[BlobId, PackCodec, os.stat_result]:
    """Return the blob id of a large file, whether to compress it, and the file's stat."""
    (blob, codec), found = read_stable(fd, lambda fd, size: _hash_content(fd, size, digits))
    return blob, codec, found


def _hash_content(fd: int, size: int, digits: int) -> tuple[BlobId, PackCodec]:
    if size > MAX_FILE_BYTES:
        raise OSError(f"it is larger than {MAX_FILE_BYTES} bytes")
    digest = BlobHash(size, digits=digits)
    chunk = os.read(fd, _CHUNK)
    codec = PackCodec.ZLIB if is_compressible(chunk) else PackCodec.PLAIN
    while chunk:
        digest.update(chunk)
        chunk = os.read(fd, _CHUNK)
    return digest.blob(), codec


def packed_chunks(fd: int, codec: PackCodec, digest: BlobHash) -> Iterator[bytes]:
    """Yield the content as stored in a pack; `digest` has hashed all of it at the end."""
    os.lseek(fd, 0, os.SEEK_SET)
    pressing = zlib.compressobj(LEVEL) if codec is PackCodec.ZLIB else None
    while chunk := os.read(fd, _CHUNK):
        digest.update(chunk)
        smaller = pressing.compress(chunk) if pressing is not None else chunk
        if smaller:
            yield smaller
    if pressing is not None:
        yield pressing.flush()
