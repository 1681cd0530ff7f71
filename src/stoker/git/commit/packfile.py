"""New objects, written as one pack that git can read.

By ourselves: for a commit of one file git's own importer takes three times as long to
start, read the trees and write the same, and it cannot sign. The pack and its index
appear whole, under the name that git would give them. They need not survive a power
cut: what they hold was pushed, or is pushed again.
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
"""Of one pack; the short form of an index ends at two gigabytes."""

_TYPES: dict[GitObjectKind, int] = {"commit": 1, "tree": 2, "blob": 3}
_VERSION = 2


class PackBuilder:
    """Objects on their way into one repository."""

    def __init__(self, repository: Path, digits: int) -> None:
        """`digits` is the length of an id there."""
        self._folder = repository / "objects/pack"
        # SHA-1 here names git objects; nothing is trusted because of it.
        self._hash = hashlib.sha1 if digits == 40 else hashlib.sha256
        self._at: dict[bytes, tuple[int, int]] = {}
        self._parts: list[bytes] = []
        self.bytes = 12  # of its head
        self.id_bytes = digits // 2

    def add(self, kind: GitObjectKind, content: bytes, level: int = -1) -> bytes:
        """The id of an object, which is in the pack from now on; `level` is how much it is compressed."""
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
        """Put it into the repository; how many bytes it has."""
        head = b"PACK" + struct.pack(">II", _VERSION, len(self._at))
        digest = self._hash(head, usedforsecurity=False)
        for part in self._parts:
            digest.update(part)
        checksum = digest.digest()
        place = self._folder / f"pack-{checksum.hex()}"
        try:
            reach_failpoint("pack.write.before")
            # The index last: git does not see a pack without one.
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
    """As a whole; what a killed process leaves has a name that is taken away."""
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
    """Type and size, seven bits to a byte, the first with four."""
    byte, size = type_ << 4 | size & 15, size >> 4
    head = bytearray()
    while size:
        head.append(byte | 0x80)
        byte, size = size & 0x7F, size >> 7
    head.append(byte)
    return bytes(head)
