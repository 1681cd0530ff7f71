"""Writes a pack: the contents of the scanned files that no stored pack has yet.

`stoker.snapshots.repository` calls it. A file whose content is known and already stored is not opened. Any
other file is read, identified by its blob id, and compressed if that makes it smaller; a large file is
streamed in chunks. A file is read again until it did not change during the read, so the stored content
always matches its id, whatever happens to the file later.

Everything runs in one thread. With two threads it took 50 % more CPU time to be 10 % faster, because small
files spend their time in the interpreter.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Protocol

from stoker.domain.git_objects import BlobHash, BlobId, blob_of
from stoker.snapshots.stable_read import (
    LARGE,
    LEVEL,
    MAX_ATTEMPTS,
    FileKeepsChanging,
    hash_large_file,
    is_compressible,
    packed_chunks,
    read_stable,
    read_whole,
)
from stoker.snapshots.types import (
    MAX_FILES,
    MAX_OMITTED,
    ContinueCheck,
    PackCodec,
    PackLocation,
    ScannedFile,
    SnapshotFile,
    storage_failed,
)

CHUNK = 256 << 10
"""Small contents are joined to chunks of this size."""

FileOpener = Callable[[str], int]


class KnownContents(Protocol):
    """Lookup of contents that are already stored."""

    def get(self, blob: BlobId, /) -> PackLocation | None: ...


class PackWriter:
    """Writes one pack; the attributes are complete after `chunks` is exhausted."""

    def __init__(
        self,
        pack: str,
        known: KnownContents,
        open_file: FileOpener,
        *,
        digits: int,
        strict: bool,
        go_on: ContinueCheck,
    ) -> None:
        self.files: dict[str, SnapshotFile] = {}
        self.contents: dict[BlobId, PackLocation] = {}
        """The locations of all contents that the files need, in this pack or in others."""
        self.left_out: list[str] = []
        self.size = 0
        """Bytes of the pack so far."""
        self._pack = pack
        self._known = known
        self._open_file = open_file
        self._digits = digits
        self._strict = strict
        self._go_on = go_on
        self._waiting: list[bytes] = []
        self._handed_on = 0

    def chunks(self, files: Iterable[ScannedFile]) -> Generator[bytes, None, None]:
        """Yield the bytes of the pack; nothing if all contents are already stored."""
        for number, found in enumerate(files):
            if number >= MAX_FILES:
                raise storage_failed(f"there are more than {MAX_FILES} files to take a snapshot of")
            if self._have_known(found):
                continue
            self._go_on()
            try:
                fd = self._open_file(found.path)
                try:
                    if found.size >= LARGE:
                        yield from self._handing_on()
                        yield from self._large(found.path, fd)
                    else:
                        self._small(found.path, fd)
                finally:
                    os.close(fd)
            except FileNotFoundError:
                continue  # deleted since the scan: there is nothing to restore
            except OSError as error:
                self._leave_out(found.path, error)
            if self.size - self._handed_on >= CHUNK:
                yield from self._handing_on()
        yield from self._handing_on()

    def _have_known(self, found: ScannedFile) -> bool:
        """Record a file whose content is already stored; return whether that was possible unopened."""
        if found.blob is None or len(found.blob) != self._digits:
            return False
        place = self._place(found.blob)
        if place is None or place.size != found.size:
            return False
        self.files[found.path] = SnapshotFile(found.blob, found.size, found.mode & 0o777)
        return True

    def _place(self, blob: BlobId) -> PackLocation | None:
        """Return the location of a stored content; None if it is not stored."""
        place = self.contents.get(blob)
        if place is None:
            place = self._known.get(blob)
            if place is not None:
                self.contents[blob] = place
        return place

    def _small(self, path: str, fd: int) -> None:
        content, found = read_stable(fd, read_whole)
        blob = blob_of(content, digits=self._digits)
        if self._place(blob) is None:
            codec, payload = PackCodec.PLAIN, content
            if is_compressible(content):
                smaller = zlib.compress(content, LEVEL)
                if len(smaller) < len(content):
                    codec, payload = PackCodec.ZLIB, smaller
            self.contents[blob] = PackLocation(self._pack, self.size, len(payload), codec, len(content))
            self._waiting.append(payload)
            self.size += len(payload)
        self.files[path] = SnapshotFile(blob, len(content), found.st_mode & 0o777)

    def _handing_on(self) -> Iterator[bytes]:
        # Do not test the size: an empty file is located in the pack too, and a named pack must exist.
        if self._waiting:
            together = b"".join(self._waiting)
            self._waiting.clear()
            self._handed_on = self.size
            yield together

    def _large(self, path: str, fd: int) -> Iterator[bytes]:
        """Read the file twice: for its id, whose content may already be stored, then for its content."""
        for _ in range(MAX_ATTEMPTS):
            blob, codec, found = hash_large_file(fd, self._digits)
            if self._place(blob) is None:
                start = self.size
                digest = BlobHash(found.st_size, digits=self._digits)
                for piece in packed_chunks(fd, codec, digest):
                    self._go_on()
                    self.size += len(piece)
                    self._handed_on = self.size
                    yield piece
                if digest.blob() != blob:  # it changed; the bytes stay in the pack unused
                    continue
                self.contents[blob] = PackLocation(self._pack, start, self.size - start, codec, found.st_size)
            self.files[path] = SnapshotFile(blob, found.st_size, found.st_mode & 0o777)
            return
        raise FileKeepsChanging

    def _leave_out(self, path: str, error: OSError) -> None:
        why = f"{path!r} cannot be taken into the snapshot: {error.strerror or error}"
        if self._strict or len(self.left_out) >= MAX_OMITTED:
            raise storage_failed(why)
        self.left_out.append(path)
