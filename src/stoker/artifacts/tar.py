"""Reads tar archives, with or without gzip, as a stream; nothing is unpacked to disk.

Only regular files are returned; folders are skipped. A symbolic or hard link, a device, a pipe, a sparse
file or any other entry type makes the whole artifact fail with the entry's name, because a partial artifact
must not be applied. Headers of declared length (long names, extended attributes) are limited before they are
read, which Python's own `tarfile` does not do.
"""

from __future__ import annotations

import gzip
import io
import tarfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from stoker.artifacts.errors import ArtifactRefused, ArtifactTooLarge, printable_name
from stoker.artifacts.limits import ArtifactReadBudget, UncheckedFile

BLOCK = 512
CHUNK_BYTES = 1 << 16
MAX_HEADER = 1 << 16
"""Maximum bytes of an extended header; enough for many paths of 4 KiB."""
_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
_UNPACK_ERRORS = (OSError, EOFError, zlib.error, gzip.BadGzipFile)
_ENTRY_TYPE_NAMES = {
    tarfile.SYMTYPE: "a symbolic link",
    tarfile.LNKTYPE: "a hard link",
    tarfile.CHRTYPE: "a device",
    tarfile.BLKTYPE: "a device",
    tarfile.FIFOTYPE: "a named pipe",
    tarfile.GNUTYPE_SPARSE: "a sparse file",
}
_SKIPPED = {"path", "size", "GNU.sparse"}


def archive_files(path: Path, title: str, reading: ArtifactReadBudget) -> Iterator[UncheckedFile]:
    """Yield the files of an archive on disk; `reading` limits all unpacked bytes, including headers."""
    with path.open("rb") as raw:
        magic = raw.read(4)
        raw.seek(0)
        if magic == _ZSTD:
            raise ArtifactRefused(f"{title} is compressed with zstd; publish it with gzip")
        packed = gzip.GzipFile(fileobj=raw) if magic.startswith(_GZIP) else None
        stream = _TarStream(packed if packed is not None else raw, title, reading)
        yield from _entries(stream, title, reading)


class _TarStream:
    """The unpacked bytes of an archive, counted against the read budget."""

    def __init__(self, source: BinaryIO | gzip.GzipFile, title: str, reading: ArtifactReadBudget) -> None:
        self._source = source
        self._title = title
        self._reading = reading

    def exactly(self, size: int) -> bytes:
        """Read exactly `size` bytes or raise; only for small sizes."""
        content = self.some(size)
        while len(content) < size:
            more = self.some(size - len(content))
            if not more:
                raise ArtifactRefused(f"{self._title} ends in the middle of a file")
            content += more
        return content

    def some(self, size: int) -> bytes:
        self._reading.go_on()
        self._reading.unpacked(size)
        try:
            content = self._source.read(size)
        except _UNPACK_ERRORS:
            raise ArtifactRefused(f"{self._title} cannot be unpacked as an archive") from None
        self._reading.unpacked(len(content) - size)
        return content


def _entries(stream: _TarStream, title: str, reading: ArtifactReadBudget) -> Iterator[UncheckedFile]:
    longer: dict[str, str] = {}
    while True:
        header = stream.some(BLOCK)
        if not header or header.count(0) == len(header):
            return  # the end marker; anything after it is ignored
        reading.header()
        info = _parse_header(header + stream.exactly(BLOCK - len(header)), title)
        if info.type in (
            tarfile.XHDTYPE,
            tarfile.XGLTYPE,
            tarfile.GNUTYPE_LONGNAME,
            tarfile.GNUTYPE_LONGLINK,
        ):
            longer |= _parse_extended_header(info, _read_padded(stream, info.size, title), title)
            continue
        name = longer.get("path", info.name)
        if "GNU.sparse" in longer:
            raise ArtifactRefused(f"{title} holds {printable_name(name)}, which is a sparse file")
        size = _parse_size(longer.get("size"), info.size, title)
        longer = {}
        if info.type == tarfile.DIRTYPE or name in (".", "./"):
            _read_padded(stream, size, title)
            continue
        if info.type not in (tarfile.REGTYPE, tarfile.AREGTYPE):
            what = _ENTRY_TYPE_NAMES.get(info.type, f"an entry of the kind {info.type!r}")
            raise ArtifactRefused(f"{title} holds {printable_name(name)}, which is {what}")
        content = _TarMember(stream, size)
        yield UncheckedFile(name, size, content.chunks(), bool(info.mode & 0o100))
        content.skip()
        stream.exactly(-size % BLOCK)


class _TarMember:
    """The bytes of one file; `skip` reads past what the caller did not consume."""

    def __init__(self, stream: _TarStream, size: int) -> None:
        self._stream = stream
        self._left = size

    def chunks(self) -> Iterator[bytes]:
        while self._left:
            chunk = self._stream.exactly(min(self._left, CHUNK_BYTES))
            self._left -= len(chunk)
            yield chunk

    def skip(self) -> None:
        for _ in self.chunks():
            pass


def _parse_header(header: bytes, title: str) -> tarfile.TarInfo:
    try:
        info = tarfile.TarInfo.frombuf(header, "utf-8", "surrogateescape")
    except (tarfile.HeaderError, ValueError, OverflowError):
        raise ArtifactRefused(f"{title} is not a tar archive, or is damaged") from None
    if info.size < 0:
        raise ArtifactRefused(f"{title} holds a file of a negative size")
    return info


def _read_padded(stream: _TarStream, size: int, title: str) -> bytes:
    if size > MAX_HEADER:
        raise ArtifactTooLarge(f"{title} holds a header of more than {MAX_HEADER} bytes")
    return stream.exactly(size + -size % BLOCK)[:size]


def _parse_extended_header(info: tarfile.TarInfo, content: bytes, title: str) -> dict[str, str]:
    """Return the values of an extended header that apply to the next file."""
    if info.type == tarfile.GNUTYPE_LONGLINK:
        return {}  # belongs to a link entry, which is refused when it is read
    if info.type == tarfile.GNUTYPE_LONGNAME:
        return {"path": content.rstrip(b"\0").decode("utf-8", "surrogateescape")}
    said = dict(_pax_records(content, title))
    if info.type == tarfile.XGLTYPE:  # git archive puts a comment there
        if said.keys() & _SKIPPED:
            raise ArtifactRefused(f"{title} gives all of its files the same name in a global header")
        return {}
    return {key: value for key, value in said.items() if key in _SKIPPED}


def _pax_records(content: bytes, title: str) -> Iterator[tuple[str, str]]:
    """Yield the records, each `<length> <key>=<value>`; the length covers the whole line."""
    rest = io.BytesIO(content)
    while rest.tell() < len(content):
        start = rest.tell()
        length, blank, _ = content[start : start + 20].partition(b" ")
        if not blank or not length.isdigit() or not len(length) + 2 <= int(length) <= len(content) - start:
            raise ArtifactRefused(f"{title} has an unreadable extended header")
        line = rest.read(int(length))[len(length) + 1 :].removesuffix(b"\n")
        key, _, value = line.decode("utf-8", "surrogateescape").partition("=")
        yield ("GNU.sparse" if key.startswith("GNU.sparse") else key), value


def _parse_size(told: str | None, usual: int, title: str) -> int:
    if told is None:
        return usual
    if not told.isascii() or not told.isdigit() or len(told) > 15:
        raise ArtifactRefused(f"{title} holds a file of an unreadable size")
    return int(told)
