"""Reading a file that somebody else may write to at any time.

What was read counts only if the file was the same before and after; otherwise it is
read again, a few times. Nothing here trusts the size that a listing gave.
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
"""Of zlib: twice as quick as its default, for a tenth more bytes."""
LARGE = 2 << 20
"""A file of this size goes through in pieces."""
MAX_ATTEMPTS = 3
_CHUNK = 1 << 20
# What is smaller is not worth a try; what is larger is tried in its middle first.
_MIN_COMPRESSED_BYTES = 64
_COMPRESSION_SAMPLE_BYTES = 16 << 10
_SAMPLE = 4 << 10


class FileKeepsChanging(OSError):
    """The file was another one whenever it had been read."""

    def __str__(self) -> str:
        return "it keeps changing while it is read"


def read_stable(fd: int, read: Callable[[int, int], T]) -> tuple[T, os.stat_result]:
    """What `read` makes of the file and its size, and what the file was then."""
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
    """All of a file that is not large; raises if it has become so."""
    if size > 2 * LARGE:
        raise FileKeepsChanging
    content = os.read(fd, size + 1)
    while len(content) <= size and (more := os.read(fd, size + 1 - len(content))):
        content += more
    if len(content) != size:
        raise FileKeepsChanging
    return content


def is_compressible(content: bytes) -> bool:
    """Whether a content may become smaller: pictures and archives cost the most time, for nothing."""
    if len(content) <= _COMPRESSION_SAMPLE_BYTES:
        return len(content) > _MIN_COMPRESSED_BYTES
    middle = (len(content) - _SAMPLE) // 2
    return len(zlib.compress(content[middle : middle + _SAMPLE], LEVEL)) < _SAMPLE * 0.95


def hash_large_file(fd: int, digits: int) -> tuple[BlobId, PackCodec, os.stat_result]:
    """The id of a large file's content, and whether that is worth compressing."""
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
    """The content as it will lie in a pack; `digest` has seen all of it in the end."""
    os.lseek(fd, 0, os.SEEK_SET)
    pressing = zlib.compressobj(LEVEL) if codec is PackCodec.ZLIB else None
    while chunk := os.read(fd, _CHUNK):
        digest.update(chunk)
        smaller = pressing.compress(chunk) if pressing is not None else chunk
        if smaller:
            yield smaller
    if pressing is not None:
        yield pressing.flush()
