"""The binary format of a manifest.

A header in JSON, all paths as one compressed text, a row for each content, a row for each file, and a
SHA-256 checksum over all of it, which detects truncation and damage before any path is read. An attacker
with write access to the storage can also write a matching checksum, so all paths, modes and numbers are
validated again, and no memory is allocated by a number before that number is known to be possible.

`SealedManifest` parses only what a caller needs: to find stored contents, the content rows are enough. This
module does no I/O.
"""

from __future__ import annotations

import base64
import hashlib
import json
import struct
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from stoker.domain.errors import Stalled
from stoker.domain.git_objects import BlobId
from stoker.domain.intent.policies import SnapshotScope
from stoker.domain.paths import RelPath
from stoker.domain.reasons import Reason
from stoker.engine.layout.protected_paths import STAGING, STATE
from stoker.snapshots import ids
from stoker.snapshots.types import (
    MAX_EXTRA,
    MAX_FILE_BYTES,
    MAX_FILES,
    MAX_OMITTED,
    PackCodec,
    PackLocation,
    SnapshotFile,
    SnapshotHeader,
    SnapshotManifest,
    SnapshotOrigin,
    corrupt_snapshot,
)

FORMAT = 1
MAGIC = b"StkSnap\n"
MAX_BYTES = 256 << 20
MAX_HEAD = 4 << 20
MAX_TEXT = 1 << 30

_PREFIX = struct.Struct("<8sIIQQQQ")
_SUM = hashlib.sha256().digest_size
_FILE = struct.Struct("<IH")
_PLACE = "QQQIB"
_MOST = 1 << 60
# The highest compression ratio that a deflate stream can have.
_DENSEST = 1_100


class SnapshotFormatTooNew(Stalled):
    """A later version wrote the manifest, so it is unknown which packs it needs."""

    default_reason = Reason.SNAPSHOT_CORRUPT


def encode(manifest: SnapshotManifest) -> bytes:
    """Encode a manifest; raise ValueError if it exceeds the size that the reader accepts."""
    paths = [*manifest.files, *manifest.left_out]
    packs = list(manifest.packs)
    used = Counter[str]()
    for place in manifest.contents.values():
        used[place.pack] += place.stored
    numbers = {name: number for number, name in enumerate(packs)}
    row = struct.Struct(f"<{manifest.digits // 2}s{_PLACE}")
    index = {blob: number for number, blob in enumerate(manifest.contents)}
    contents = b"".join(
        row.pack(
            bytes.fromhex(blob), place.size, place.offset, place.stored, numbers[place.pack], place.codec
        )
        for blob, place in manifest.contents.items()
    )
    files = b"".join(_FILE.pack(index[kept.blob], kept.mode) for kept in manifest.files.values())
    text = "".join([f"{path}\0" for path in paths]).encode()
    head = json.dumps(
        {
            "id": manifest.id,
            "gateway": manifest.gateway,
            "takenAt": manifest.taken_at,
            "scope": str(manifest.scope),
            "commit": manifest.origin.commit,
            "ref": manifest.origin.ref,
            "settings": manifest.origin.settings,
            "extra": base64.b64encode(manifest.extra).decode(),
            "digits": manifest.digits,
            "packs": [[name, manifest.packs[name], used[name]] for name in packs],
            "files": len(manifest.files),
            "leftOut": len(manifest.left_out),
            "contents": len(manifest.contents),
            "size": manifest.size,
        }
    ).encode()
    smaller = zlib.compress(text, 1)
    prefix = _PREFIX.pack(MAGIC, FORMAT, len(head), len(smaller), len(text), len(contents), len(files))
    whole = b"".join((prefix, head, smaller, contents, files))
    if len(whole) + _SUM > MAX_BYTES or len(head) > MAX_HEAD or len(text) > MAX_TEXT:
        raise ValueError("its manifest would be larger than any that is read")
    return whole + hashlib.sha256(whole).digest()


class SealedManifest:
    """A manifest with a valid checksum and a parsed header."""

    def __init__(self, name: str, data: bytes) -> None:
        """Parse the header; raise Stalled if damaged, `SnapshotFormatTooNew` for a later version."""
        self._name = name
        self._data = data
        try:
            self._cut()
            self.head = self._read_head()
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError, struct.error) as error:
            raise self._wrong(error) from error

    def contents(self) -> dict[BlobId, PackLocation]:
        """Return the locations of all contents of the snapshot."""
        try:
            return self._read_contents()
        except (ValueError, struct.error) as error:
            raise self._wrong(error) from error

    def manifest(self) -> SnapshotManifest:
        contents = self.contents()
        try:
            paths = self._read_paths()
            files, left_out = self._read_files(paths, list(contents)), tuple(paths[self.head.files :])
            _check_sizes(files, contents, self.head.size)
        except (ValueError, UnicodeDecodeError, zlib.error, struct.error) as error:
            raise self._wrong(error) from error
        head = self.head
        return SnapshotManifest(
            id=head.id,
            gateway=head.gateway,
            taken_at=head.taken_at,
            scope=head.scope,
            origin=head.origin,
            files={
                path: SnapshotFile(blob, contents[blob].size, mode) for path, (blob, mode) in files.items()
            },
            left_out=left_out,
            extra=self._extra,
            size=head.size,
            packs=head.packs,
            contents=contents,
            digits=head.digits,
        )

    def _wrong(self, error: Exception) -> Stalled:
        return corrupt_snapshot(f"the manifest of snapshot {self._name} is damaged: {error}")

    def _cut(self) -> None:
        """Verify the checksum and compute the offset of each part."""
        data = self._data
        if not _PREFIX.size + _SUM <= len(data) <= MAX_BYTES:
            raise ValueError(f"{len(data)} bytes are no manifest")
        magic, version, head, paths, self._text, contents, files = _PREFIX.unpack_from(data)
        if magic != MAGIC:
            raise ValueError("it does not begin as one")
        if version != FORMAT:  # before the checksum: a later version may use another
            raise SnapshotFormatTooNew(
                f"snapshot {self._name} has format {version}, which this version cannot read"
            )
        if hashlib.sha256(memoryview(data)[:-_SUM]).digest() != data[-_SUM:]:
            raise ValueError("its checksum does not fit")
        self._head_at = _PREFIX.size
        self._paths_at = self._head_at + head
        self._contents_at = self._paths_at + paths
        self._files_at = self._contents_at + contents
        if self._files_at + files + _SUM != len(data) or head > MAX_HEAD or self._text > MAX_TEXT:
            raise ValueError("its parts have other lengths than it says")

    def _read_head(self) -> SnapshotHeader:
        told = json.loads(self._data[self._head_at : self._paths_at])
        self._extra = base64.b64decode(told["extra"], validate=True)
        self._left_out = _check_number(told["leftOut"], MAX_OMITTED)
        self._contents = _check_number(told["contents"], MAX_FILES)
        packs = [
            (_check_text(name), _check_number(size, _MOST), _check_number(used, size))
            for name, size, used in told["packs"]
        ]
        head = SnapshotHeader(
            id=_check_text(told["id"]),
            gateway=_check_text(told["gateway"]),
            taken_at=float(_check_number(told["takenAt"], 1 << 40)),
            scope=SnapshotScope(told["scope"]),
            origin=SnapshotOrigin(
                _check_text(told["commit"]), _check_text(told["ref"]), _check_text(told["settings"])
            ),
            digits=_check_number(told["digits"], 64),
            files=_check_number(told["files"], MAX_FILES),
            size=_check_number(told["size"], _MOST),
            packs={name: size for name, size, _ in packs},
            used={name: used for name, _, used in packs},
        )
        if head.id != self._name or not ids.belongs_to(head.gateway, head.id):
            raise ValueError("it is that of another snapshot")
        if head.digits not in (40, 64) or len(self._extra) > MAX_EXTRA:
            raise ValueError("its head holds what no head holds")
        for name in head.packs:
            if not name.endswith(ids.PACK) or not ids.belongs_to(head.gateway, ids.snapshot_id_of(name)):
                raise ValueError("it names a pack that is none")
        return head

    def _read_contents(self) -> dict[BlobId, PackLocation]:
        row = struct.Struct(f"<{self.head.digits // 2}s{_PLACE}")
        part = memoryview(self._data)[self._contents_at : self._files_at]
        if len(part) != row.size * self._contents:
            raise ValueError("it names another number of contents than it says")
        packs = list(self.head.packs)
        ends = list(self.head.packs.values())
        found: dict[BlobId, PackLocation] = {}
        for raw, size, offset, stored, pack, codec in row.iter_unpack(part):
            if (
                pack >= len(packs)
                or offset + stored > ends[pack]
                or size > MAX_FILE_BYTES
                or (stored != size if codec == PackCodec.PLAIN else size > stored * _DENSEST)
                or codec > PackCodec.ZLIB
            ):
                raise ValueError("a content is where none can be")
            found[str.__new__(BlobId, raw.hex())] = PackLocation(packs[pack], offset, stored, codec, size)
        if len(found) != self._contents:
            raise ValueError("it names a content twice")
        return found

    def _read_paths(self) -> list[str]:
        inflating = zlib.decompressobj()
        text = inflating.decompress(self._data[self._paths_at : self._contents_at], self._text + 1)
        if len(text) != self._text or not inflating.eof or inflating.unused_data:
            raise ValueError("its paths are cut off")
        *paths, rest = text.decode().split("\0")
        if rest or len(paths) != self.head.files + self._left_out:
            raise ValueError("it names another number of paths than it says")
        check_paths(paths)
        return paths

    def _read_files(self, paths: list[str], blobs: list[BlobId]) -> dict[str, tuple[BlobId, int]]:
        part = memoryview(self._data)[self._files_at : -_SUM]
        if len(part) != _FILE.size * self.head.files:
            raise ValueError("it names another number of files than it says")
        files: dict[str, tuple[BlobId, int]] = {}
        for path, (index, mode) in zip(paths, _FILE.iter_unpack(part), strict=False):
            if index >= len(blobs) or mode > 0o777:
                raise ValueError("a file holds what no file holds")
            files[path] = blobs[index], mode
        return files


def _check_sizes(
    files: Mapping[str, tuple[BlobId, int]], contents: Mapping[BlobId, PackLocation], size: int
) -> None:
    if sum(contents[blob].size for blob, _ in files.values()) != size:
        raise ValueError("its files have another size than it says")


def check_paths(paths: list[str]) -> None:
    """Raise ValueError unless all paths fit into one data folder, outside Stoker's own folders."""
    if "" in paths or not RelPath.all_of(paths):
        raise ValueError("a path leads out of its place")
    known = set(paths)
    if len(known) != len(paths):
        raise ValueError("it names a path twice")
    if not known.isdisjoint(_folders(paths)):
        raise ValueError("a path is a file and a folder")


def _folders(paths: list[str]) -> Iterator[str]:
    """Yield every parent folder of the paths, and Stoker's own folders, into which nothing is restored."""
    yield from (STAGING, STATE)
    seen: set[str] = set()
    for path in paths:
        above = path.rpartition("/")[0]
        while above and above not in seen:
            if above in (STAGING, STATE):
                raise ValueError("a path is within what is ours alone")
            seen.add(above)
            yield above
            above = above.rpartition("/")[0]


def _check_number(value: Any, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= most:
        raise ValueError("a number is not possible")
    return int(value)


def _check_text(value: Any) -> str:
    if not isinstance(value, str) or len(value) > 4096:
        raise ValueError("a text is not possible")
    return value
