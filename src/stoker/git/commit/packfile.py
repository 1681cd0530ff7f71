"""Writes new objects as one pack that git can read.

It does not use `git fast-import`, which takes three times as long for a commit of one file (to start, read
the trees and write) and cannot sign. The pack and its index appear atomically, under the names that git
would use. They need not survive a power loss: their content was pushed, or will be built and pushed again.
"""

from __future__ import annotations

import hashlib
import secrets
import struct
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

from stoker.domain.failpoints import reach_failpoint
from stoker.git.errors import GitFailed

GitObjectKind = Literal["commit", "tree", "blob"]

MAX_BYTES = 1 << 30
"""Maximum size of one pack; the 4-byte offsets of an index reach only 2 GiB."""

_TYPES: dict[GitObjectKind, int] = {"commit": 1, "tree": 2, "blob": 3}
_VERSION = 2


class PackBuilder:
    """Collects objects and writes them as one pack into one repository."""

    def __init__(self, repository: Path, digits: int) -> None:
        """Create an empty pack; `digits` is the length of an id in the repository."""
        self._folder = repository / "objects/pack"
        # SHA-1 only names git objects here; no trust depends on it.
        self._hash = hashlib.sha1 if digits == 40 else hashlib.sha256
        self._at: dict[bytes, tuple[int, int]] = {}
        self._parts: list[bytes] = []
        self.bytes = 12  # the pack header
        self.id_bytes = digits // 2

    def add(self, kind: GitObjectKind, content: bytes, level: int = -1) -> bytes:
        """Add an object to the pack and return its id; `level` is the zlib compression level."""
        id_ = self.id_of(kind, content)
        if id_ not in self._at:
            entry = _object_header(_TYPES[kind], len(content)) + zlib.compress(content, level)
            self._at[id_] = (zlib.crc32(entry), self.bytes)
            self._parts.append(entry)
            self.bytes += len(entry)
            if self.bytes > MAX_BYTES:
                raise GitFailed(f"what is to be pushed at once is larger than {MAX_BYTES} bytes")
        return id_

    def id_of(self, kind: GitObjectKind, content: bytes) -> bytes:
        digest = self._hash(b"%b %d\0" % (kind.encode(), len(content)), usedforsecurity=False)
        digest.update(content)
        return digest.digest()

    def write(self) -> int:
        """Write the pack and its index into the repository; return the pack's size in bytes."""
        head = b"PACK" + struct.pack(">II", _VERSION, len(self._at))
        digest = self._hash(head, usedforsecurity=False)
        for part in self._parts:
            digest.update(part)
        checksum = digest.digest()
        place = self._folder / f"pack-{checksum.hex()}"
        try:
            reach_failpoint("pack.write.before")
            # Write the index last: git ignores a pack without an index.
            _write_file(place.with_suffix(".pack"), (head, *self._parts, checksum))
            _write_file(place.with_suffix(".idx"), (self._index(checksum),))
            reach_failpoint("pack.write.after")
        except OSError as error:
            raise GitFailed(f"folder {self._folder} cannot be written: {error.strerror}") from error
        return self.bytes + len(checksum)

    def _index(self, checksum: bytes) -> bytes:
        ids = sorted(self._at)
        firsts = [0] * 256
        for id_ in ids:
            firsts[id_[0]] += 1
        total = 0
        for first, count in enumerate(firsts):
            total += count
            firsts[first] = total
        content = b"".join(
            (
                b"\xfftOc",
                struct.pack(">257I", _VERSION, *firsts),
                *ids,
                *(struct.pack(">I", self._at[id_][0]) for id_ in ids),
                *(struct.pack(">I", self._at[id_][1]) for id_ in ids),
                checksum,
            )
        )
        return content + self._hash(content, usedforsecurity=False).digest()


def _write_file(path: Path, parts: Iterable[bytes]) -> None:
    """Write a file atomically; the mirror's repair removes the `tmp_` file of a killed process."""
    beside = path.with_name(f"tmp_{secrets.token_hex(8)}")
    try:
        with beside.open("xb") as file:
            file.writelines(parts)
        beside.chmod(0o400)
        beside.replace(path)
    except OSError:
        beside.unlink(missing_ok=True)
        raise


def _object_header(type_: int, size: int) -> bytes:
    """Encode type and size: four size bits in the first byte, seven in each further byte."""
    byte, size = type_ << 4 | size & 15, size >> 4
    head = bytearray()
    while size:
        head.append(byte | 0x80)
        byte, size = size & 0x7F, size >> 7
    head.append(byte)
    return bytes(head)
