"""The ledger as bytes: a base with the whole state, and a journal of the changes since.

Both consist of `LedgerChange` values; the base is the change from an empty ledger. A base is written whole
and rarely. A journal grows by one frame per change. Each frame has a checksum over itself and all frames
before it, seeded by the base that it belongs to, so a frame that a crash tore, or that belongs to another
base, is detected and cut off.

A process that can write these files must not be able to make the agent touch other places, so all paths are
validated again when they are read. Pure: bytes in, values out. `stoker.fs.ledger_store` handles the files.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from itertools import chain, islice
from types import MappingProxyType
from typing import NamedTuple, TypeVar

from stoker.domain.errors import Stalled
from stoker.domain.git_objects import BlobId, FileVersion
from stoker.domain.paths import RelPath
from stoker.engine.layout.protected_paths import STATE
from stoker.engine.plan.ledger import STAT
from stoker.engine.plan.plan import LedgerFacts

T = TypeVar("T")

FORMAT = 2
GENERATION = 16
MAGIC = b"StkLedgr"

_HEAD = struct.Struct(f"<8sI{GENERATION}sQ")
_CHECK = struct.Struct("<I")
_FRAME = struct.Struct("<II")
_BATCH = 8192
_PARTS = struct.Struct("<QQ")
_IDS = (20, 32)
_RECORDS = {STAT.size + size for size in _IDS}
_INTENDED = {1 + size for size in _IDS}
# A set is stored as a list; any other value as itself.
_FACTS = {field.name: type(getattr(LedgerFacts(), field.name)) for field in fields(LedgerFacts)}
_PATHS = ("folders", "kept", "mirrored")


_JournalFact = str | int | list[str]


class JournalUnreadable(ValueError):
    """These bytes are not a ledger that Stoker wrote."""


class LedgerChange(NamedTuple):
    """One change of the ledger; facts that it does not name stay as they were."""

    files: dict[str, bytes]
    gone: Sequence[str] = ()
    intended: Mapping[str, bytes] = MappingProxyType({})
    """All intentions from now on, in the form of `pack_version`."""
    facts: Mapping[str, _JournalFact] = MappingProxyType({})
    complete: bool = False


def encode_base(generation: bytes, change: LedgerChange) -> list[bytes]:
    """Return the base in pieces, because the whole may be large."""
    pieces = _encode_change(change)
    head = _HEAD.pack(MAGIC, FORMAT, generation, sum(map(len, pieces)))
    checksum = zlib.crc32(head)
    for piece in pieces:
        checksum = zlib.crc32(piece, checksum)
    return [head + _CHECK.pack(checksum), *pieces]


def decode_base(data: bytes) -> tuple[bytes, LedgerChange]:
    """Return generation and content of a base.

    Raises `JournalUnreadable`, or `Stalled` for a format that a later version wrote.
    """
    start = _HEAD.size + _CHECK.size
    if len(data) < start:
        raise JournalUnreadable("it is too short")
    magic, version, generation, size = _HEAD.unpack_from(data)
    content = memoryview(data)[start:]
    checksum = zlib.crc32(content, zlib.crc32(data[: _HEAD.size]))
    if magic != MAGIC or size != len(content) or _CHECK.unpack_from(data, _HEAD.size)[0] != checksum:
        raise JournalUnreadable("its checksum does not fit")
    if version != FORMAT:
        raise Stalled(f"the manifest in {STATE} has format {version}, which this version cannot read")
    return generation, _decode_change(content)


def minimum_size(change: LedgerChange) -> int:
    """Return a lower bound of the encoded size of a change."""
    kept = chain(change.files.values(), change.intended.values())
    return sum(map(len, chain(change.files, change.intended, kept)))


class JournalFrames:
    """Makes and reads the frames of one journal, each with a checksum that covers those before it."""

    def __init__(self, generation: bytes) -> None:
        self._generation = generation
        self._sum = zlib.crc32(generation)
        self.end = 0
        """The length of the valid part of the journal; the next frame is written there."""

    def next(self, change: LedgerChange) -> bytes:
        """Return the bytes to write at `end`; `end` advances only when `wrote` is called."""
        content = b"".join(_encode_change(change))
        frame = _FRAME.pack(len(content), zlib.crc32(content, self._sum)) + content
        return frame if self.end else self._generation + frame

    def wrote(self, frame: bytes) -> None:
        start = 0 if self.end else GENERATION
        _, self._sum = _FRAME.unpack_from(frame, start)
        self.end += len(frame)

    def read(self, data: bytes) -> list[LedgerChange]:
        """Return the changes up to the first invalid byte, and set `end` to it."""
        if data[:GENERATION] != self._generation:
            return []
        changes = []
        at = GENERATION
        while len(data) - at >= _FRAME.size:
            size, checksum = _FRAME.unpack_from(data, at)
            start = at + _FRAME.size
            content = memoryview(data)[start : start + size]
            if len(content) != size or zlib.crc32(content, self._sum) != checksum:
                break
            changes.append(_decode_change(content))
            self._sum = checksum
            at = start + size
        self.end = at
        return changes


def pack_version(kept: bytes) -> bytes:
    """Return the version part of a record: the executable bit as a byte, and the raw blob id."""
    return kept[STAT.size - 1 :]


def unpack_version(data: bytes) -> FileVersion:
    return FileVersion(str.__new__(BlobId, data[1:].hex()), data[0] == 1)


def plain_facts(facts: LedgerFacts, known: LedgerFacts | None) -> dict[str, _JournalFact]:
    """Return the facts that differ from `known`, in the stored form."""
    values = {name: getattr(facts, name) for name in _FACTS}
    return {
        name: sorted(map(str, value)) if isinstance(value, frozenset) else value
        for name, value in values.items()
        if known is None or value != getattr(known, name)
    }


def with_facts(known: LedgerFacts, told: Mapping[str, _JournalFact]) -> LedgerFacts:
    values = {name: getattr(known, name) for name in _FACTS}
    values |= {name: _FACTS[name](value) for name, value in told.items()}
    return LedgerFacts(**values)


# A change is a few facts as JSON, all paths as one text, and all records in a row: the interpreter splits
# 100,000 of them itself, and no further module has to be imported.
def _encode_change(change: LedgerChange) -> list[bytes]:
    text = [
        "".join([f"{path}\0" for path in some]).encode()
        for some in _batches(chain(change.files, change.gone, change.intended))
    ]
    records = [b"".join(some) for some in _batches(chain(change.files.values(), change.intended.values()))]
    facts = {
        "facts": dict(change.facts),
        "complete": change.complete,
        "files": len(change.files),
        "gone": len(change.gone),
        "intended": len(change.intended),
        "lengths": _length_runs(chain(change.files.values(), change.intended.values())),
    }
    head = json.dumps(facts).encode()
    return [_PARTS.pack(len(head), sum(map(len, text))), head, *text, *records]


def _batches(items: Iterable[T]) -> Iterator[list[T]]:
    """Yield the items in batches, so that no piece is as large as the whole."""
    left = iter(items)
    while some := list(islice(left, _BATCH)):
        yield some


def _length_runs(records: Iterable[bytes]) -> list[list[int]]:
    """Return runs of records of equal length, as count and length; nearly always there is one run."""
    runs: list[list[int]] = []
    for size in map(len, records):
        if runs and runs[-1][1] == size:
            runs[-1][0] += 1
        else:
            runs.append([1, size])
    return runs


def _decode_change(content: memoryview) -> LedgerChange:
    try:
        change = _parse_change(bytes(content))
    except (ValueError, KeyError, TypeError, AttributeError, struct.error, RecursionError) as error:
        raise JournalUnreadable(str(error)) from error
    if not {len(kept) for kept in change.files.values()} <= _RECORDS:
        raise JournalUnreadable("a record has a wrong length")
    if not {len(kept) for kept in change.intended.values()} <= _INTENDED:
        raise JournalUnreadable("an intention has a wrong length")
    for name, value in change.facts.items():
        if name not in _FACTS or not _is_instance_of(value, _FACTS[name]):
            raise JournalUnreadable("a fact is unknown")
        if name in _PATHS and isinstance(value, list):
            _check_paths(value)
    for paths in (change.files, change.gone, change.intended):
        _check_paths(paths)
    return change


def _parse_change(content: bytes) -> LedgerChange:
    head_size, text_size = _PARTS.unpack_from(content)
    text_at = _PARTS.size + head_size
    records_at = text_at + text_size
    told = json.loads(content[_PARTS.size : text_at])
    *paths, after = content[text_at:records_at].decode().split("\0")
    files, gone, intended = (int(told[name]) for name in ("files", "gone", "intended"))
    records = _split_records(content, records_at, told["lengths"])
    counted = len(paths), len(records)
    if after or min(files, gone, intended) < 0 or counted != (files + gone + intended, files + intended):
        raise JournalUnreadable("it holds another number of paths or records than it says")
    return LedgerChange(
        files=dict(zip(paths[:files], records[:files], strict=True)),
        gone=paths[files : files + gone],
        intended=dict(zip(paths[files + gone :], records[files:], strict=True)),
        facts=dict(told["facts"]),
        complete=told["complete"] is True,
    )


def _split_records(content: bytes, at: int, lengths: Sequence[Sequence[int]]) -> list[bytes]:
    """Split the records, which must fill the rest of the content exactly."""
    records: list[bytes] = []
    for count, size in lengths:
        end = at + count * size
        if size <= 0 or count < 0 or end > len(content):
            raise JournalUnreadable("its records are cut off")
        records += [content[start : start + size] for start in range(at, end, size)]
        at = end
    if at != len(content):
        raise JournalUnreadable("more follows than it says")
    return records


def _is_instance_of(value: object, kind: type) -> bool:
    if kind is frozenset:
        return isinstance(value, list) and all(isinstance(item, str) for item in value)
    return isinstance(value, kind)


def _check_paths(paths: Iterable[str]) -> None:
    listed = list(paths)
    if "" in listed or not RelPath.all_of(listed):
        raise JournalUnreadable("a path leads out of its place")
