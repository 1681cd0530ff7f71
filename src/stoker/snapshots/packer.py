"""From files to a pack: the contents that nobody keeps yet, one after the other.

A file whose content is known and kept is not opened. Any other is read, named by its
blob id, and compressed if that makes it smaller; a large one goes through in pieces.
A file is read until it is the same before and after; what was read is what its id
says, whatever happens to the file later.

All of it in one thread: with two, half of the CPU time more was spent to be a tenth
quicker, for small files spend their time in the interpreter.
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
"""Small contents are handed on together."""

FileOpener = Callable[[str], int]


class KnownContents(Protocol):
    """What is kept already."""

    def get(self, blob: BlobId, /) -> PackLocation | None: ...


class PackWriter:
    """One pack on its way; once `chunks` is through, the rest says what is in it."""

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
        """All that the files need, wherever it lies."""
        self.left_out: list[str] = []
        self.size = 0
        """Of the pack so far."""
        self._pack = pack
        self._known = known
        self._open_file = open_file
        self._digits = digits
        self._strict = strict
        self._go_on = go_on
        self._waiting: list[bytes] = []
        self._handed_on = 0

    def chunks(self, files: Iterable[ScannedFile]) -> Generator[bytes, None, None]:
        """The bytes of the pack; none if everything is kept already."""
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
                continue  # gone meanwhile: there is nothing to go back to
            except OSError as error:
                self._leave_out(found.path, error)
            if self.size - self._handed_on >= CHUNK:
                yield from self._handing_on()
        yield from self._handing_on()

    def _have_known(self, found: ScannedFile) -> bool:
        """Whether a file need not be opened."""
        if found.blob is None or len(found.blob) != self._digits:
            return False
        place = self._place(found.blob)
        if place is None or place.size != found.size:
            return False
        self.files[found.path] = SnapshotFile(found.blob, found.size, found.mode & 0o777)
        return True

    def _place(self, blob: BlobId) -> PackLocation | None:
        """Where a content lies already."""
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
        # Not by size: empty files have a place in the pack too, and a pack that is named must exist.
        if self._waiting:
            together = b"".join(self._waiting)
            self._waiting.clear()
            self._handed_on = self.size
            yield together

    def _large(self, path: str, fd: int) -> Iterator[bytes]:
        """Read twice: for its name, which may be known already, and then for its content."""
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
                if digest.blob() != blob:  # what was written is lost in the pack, and nobody looks there
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
