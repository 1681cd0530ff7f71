"""Change sets on the wire: from a `ChangeSet` to chunks for ConfigMaps, and back.

The agent encodes, the controller decodes. A set is a zlib stream of

    {"id", "gateway", "baseCommit", "detectedAt", "files": N}\\n
    {"path", "repoPath", "action", "base", "blob", "mode", "baseMode", "size"}\\n   N times, each
    followed by `size` bytes of content

cut into chunks that fit into a ConfigMap beside those of other gateways. Each chunk holds its
number and the number of chunks; a set is decoded only when complete and after its digest matched.

The bytes come from a pod, and one controller decodes for all tenants. So the decoder
streams: it holds one short line and the contents that it returns, never a parsed document.
It checks the number of files before the first, every line and every content before it reads
it, and the total while it unpacks. It must never parse JSON whose size the sender chooses.
"""

from __future__ import annotations

import hashlib
import re
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from stoker.domain.errors import InvalidValue
from stoker.domain.paths import RelPath
from stoker.domain.protocol.changes import (
    CHANGE_MAPS,
    PLAIN,
    PROGRAM,
    ChangeAction,
    ChangedFile,
    ChangeSet,
)
from stoker.domain.protocol.json import compact_json, json_object, quote_value
from stoker.domain.refs import CommitId

CHUNK_BYTES = 900 << 10
MAX_CHUNKS = CHANGE_MAPS
MAX_SET_FILES = 5000
MAX_UNPACKED = 16 << 20
"""Limit of all lines and contents; `maxFileSize` is 10Mi by default. Decoding takes a few times this."""
MAX_LINE = 32 << 10
"""Two paths of 4096 bytes each, escaped, and the rest of a file's description."""
MAX_GATEWAY = 253
_HEADER = 256
_SLICE = 16 << 10

_ID = re.compile(r"\d{8}-\d{6}(-\d{1,4})?")
_BLOB = re.compile(r"([0-9a-f]{40}|[0-9a-f]{64})?")
_WORDS = ("path", "repoPath", "action", "base", "blob", "mode", "baseMode")


def chunk_key(gateway_key: str, set_id: str, number: int) -> str:
    """Return the key of a chunk in its ConfigMap."""
    return f"{gateway_key}.{set_id}.{number}"


def unpacked_size(files: Iterable[ChangedFile]) -> int:
    """Return the bytes of these files before compression."""
    return sum(len(_description(file)) + len(file.content) for file in files)


def encode(changes: ChangeSet) -> tuple[bytes, ...]:
    """Return the chunks, each for a key of its own; raise if all ConfigMaps together cannot hold them."""
    packer = zlib.compressobj(6)
    head = {
        "id": changes.id,
        "gateway": changes.gateway,
        "baseCommit": str(changes.base_commit),
        "detectedAt": changes.detected_at,
        "files": len(changes.files),
    }
    pieces = [packer.compress(_line(head))]
    for file in changes.files:
        pieces.append(packer.compress(_description(file)))
        pieces.append(packer.compress(file.content))
    packed = b"".join((*pieces, packer.flush()))
    room = CHUNK_BYTES - _HEADER
    parts = [packed[at : at + room] for at in range(0, len(packed), room)]
    if len(parts) > MAX_CHUNKS:
        raise InvalidValue(
            f"the change set takes {len(packed)} bytes, more than {MAX_CHUNKS} ConfigMaps can hold"
        )
    digest = hashlib.sha256(packed).hexdigest()
    return tuple(
        _line({"id": changes.id, "chunk": number, "of": len(parts), "sha256": digest}) + part
        for number, part in enumerate(parts)
    )


@dataclass(frozen=True, slots=True)
class ChangeSetChunk:
    """One part of a set."""

    id: str
    number: int
    of: int
    digest: str
    packed: bytes

    @classmethod
    def parse(cls, raw: bytes) -> ChangeSetChunk:
        header, newline, packed = raw[: CHUNK_BYTES + 1].partition(b"\n")
        if not newline or len(raw) > CHUNK_BYTES or len(header) > _HEADER:
            raise InvalidValue("a chunk of a change set has no header, or is too large")
        fields = json_object(header, "the header of a chunk")
        number, of, digest, name = (fields.get(key) for key in ("chunk", "of", "sha256", "id"))
        if type(number) is not int or type(of) is not int or not 0 <= number < of <= MAX_CHUNKS:
            raise InvalidValue("the header of a chunk does not say which chunk it is")
        if (
            not isinstance(digest, str)
            or len(digest) != 64
            or not isinstance(name, str)
            or not _ID.fullmatch(name)
        ):
            raise InvalidValue("the header of a chunk names neither its change set nor its digest")
        return cls(name, number, of, digest, packed)


def is_complete(chunks: Iterable[ChangeSetChunk]) -> bool:
    """Return whether all chunks of their set are present."""
    chunks = tuple(chunks)
    return bool(chunks) and {chunk.number for chunk in chunks} == set(range(chunks[0].of))


def decode(chunks: Iterable[ChangeSetChunk]) -> ChangeSet:
    """Decode the set; raise `InvalidValue` if chunks are missing or the digest differs."""
    by_number = {chunk.number: chunk for chunk in chunks}
    parts = [by_number[number] for number in sorted(by_number)]
    if not is_complete(parts) or len({(part.id, part.of, part.digest) for part in parts}) != 1:
        raise InvalidValue("the chunks of a change set do not belong together")
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part.packed)
    if digest.hexdigest() != parts[0].digest:
        raise InvalidValue("a change set is not what was sent: its digest differs")
    return _change_set(_ChangeSetUnpacker(part.packed for part in parts), parts[0].id)


class _ChangeSetUnpacker:
    """Reads lines and contents from a compressed stream and unpacks no more of it than requested."""

    def __init__(self, parts: Iterable[bytes]) -> None:
        self._slices = (part[at : at + _SLICE] for part in parts for at in range(0, len(part), _SLICE))
        self._inflate = zlib.decompressobj()
        self._waiting = b""
        self._buffer = bytearray()
        self._total = 0

    def line(self) -> bytes:
        """Return the bytes up to the next newline; raise if the line is longer than any valid description."""
        start = 0
        while (end := self._buffer.find(b"\n", start)) < 0:
            start = len(self._buffer)
            if start > MAX_LINE or not self._more():
                raise InvalidValue(f"a change set has a line without end, or of more than {MAX_LINE} bytes")
        if end > MAX_LINE:
            raise InvalidValue(f"a change set has a line of more than {MAX_LINE} bytes")
        return self._cut(end + 1)[:-1]

    def content(self, size: int) -> bytes:
        """Return exactly `size` bytes; the caller has checked `size` against its limit."""
        while len(self._buffer) < size:
            if not self._more():
                raise InvalidValue("a change set is cut off")
        return self._cut(size)

    def end(self) -> None:
        """Raise unless the stream ends here."""
        if self._buffer or self._more() or not self._inflate.eof:
            raise InvalidValue("a change set holds more than it says, or is cut off")
        if self._inflate.unused_data or next(self._slices, None) is not None:
            raise InvalidValue("a change set holds more than it says")

    def _cut(self, size: int) -> bytes:
        piece = bytes(memoryview(self._buffer)[:size])
        del self._buffer[:size]
        return piece

    def _more(self) -> bool:
        """Unpack one more piece; False at the end of the stream."""
        while not self._inflate.eof:
            source = self._waiting or next(self._slices, b"")
            try:
                piece = self._inflate.decompress(source, _SLICE)
            except zlib.error:
                raise InvalidValue("a change set cannot be unpacked") from None
            self._waiting = self._inflate.unconsumed_tail
            self._total += len(piece)
            if self._total > MAX_UNPACKED:
                raise InvalidValue(f"a change set unpacks to more than {MAX_UNPACKED} bytes")
            if piece:
                self._buffer += piece
                return True
            if not source:
                return False
        return False


def _change_set(source: _ChangeSetUnpacker, name: str) -> ChangeSet:
    head = json_object(source.line(), "the head of a change set")
    gateway, base, files = head.get("gateway"), head.get("baseCommit"), head.get("files")
    if head.get("id") != name or not isinstance(gateway, str) or not isinstance(base, str):
        raise InvalidValue("a change set does not name its id, its gateway and its base commit")
    if len(gateway) > MAX_GATEWAY:
        raise InvalidValue("a change set names a gateway with a name that is too long")
    if type(files) is not int or not 0 <= files <= MAX_SET_FILES:
        raise InvalidValue(f"a change set does not say how many files it has, or more than {MAX_SET_FILES}")
    commit, detected = CommitId(base), head.get("detectedAt")
    changed = tuple(_file(source) for _ in range(files))
    source.end()
    at = detected if isinstance(detected, str) and len(detected) <= 64 else ""
    return ChangeSet(name, gateway, commit, changed, at)


def _file(source: _ChangeSetUnpacker) -> ChangedFile:
    fields = json_object(source.line(), "a file of a change set")
    words = {name: fields.get(name, "") for name in _WORDS}
    if not all(isinstance(word, str) for word in words.values()):
        raise InvalidValue("a file of a change set has a field that is not text")
    path, repo_path = RelPath(words["path"]), RelPath(words["repoPath"])
    if words["action"] not in tuple(ChangeAction) or words["mode"] not in (PLAIN, PROGRAM):
        raise InvalidValue(
            f"{quote_value(path)} is neither written nor deleted, or has another mode than a file"
        )
    if words["baseMode"] not in ("", PLAIN, PROGRAM):
        raise InvalidValue(f"{quote_value(path)} had another mode than a file")
    if not _BLOB.fullmatch(words["base"]) or not _BLOB.fullmatch(words["blob"]):
        raise InvalidValue(f"{quote_value(path)} names an object by something that is no blob id")
    action, size = ChangeAction(words["action"]), fields.get("size", 0)
    if type(size) is not int or not 0 <= size <= MAX_UNPACKED or (size and action is ChangeAction.DELETED):
        raise InvalidValue(
            f"{quote_value(path)} does not say how large it is, or more than {MAX_UNPACKED} bytes"
        )
    content = source.content(size)
    if action is ChangeAction.WRITTEN and words["blob"] != _blob_id(content, len(words["blob"])):
        raise InvalidValue(f"the content of {quote_value(path)} is not what its blob id says")
    return ChangedFile(
        str(path),
        str(repo_path),
        action,
        words["base"],
        words["blob"],
        content,
        PROGRAM if words["mode"] == PROGRAM else PLAIN,
        {"": "", PLAIN: PLAIN, PROGRAM: PROGRAM}[words["baseMode"]],
    )


def _description(file: ChangedFile) -> bytes:
    fields: dict[str, Any] = {
        "path": file.path,
        "repoPath": file.repo_path,
        "action": str(file.action),
        "base": file.base,
        "blob": file.blob,
        "mode": file.mode,
    }
    if file.base_mode:
        fields["baseMode"] = file.base_mode
    if file.content:
        fields["size"] = len(file.content)
    return _line(fields)


def _line(fields: dict[str, Any]) -> bytes:
    return compact_json(fields).encode() + b"\n"


def _blob_id(content: bytes, digits: int) -> str:
    digest = hashlib.sha256 if digits == 64 else hashlib.sha1
    whole = digest(b"blob %d\0" % len(content))  # the input that git hashes for a blob
    whole.update(content)
    return whole.hexdigest()
