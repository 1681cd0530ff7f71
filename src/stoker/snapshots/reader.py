"""Reads contents from packs and verifies each while it is read.

Consecutive contents that are close together in a pack come in one request; this helps a restore, which
reads in path order, the order in which packs were written. A content with a wrong id or size raises an
error with the reason `SnapshotCorrupt`: a small content before any of it is returned, a streamed content
at its end at the latest, so the caller must not use a content before its last chunk.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence

from stoker.domain.errors import Stalled
from stoker.domain.git_objects import Blob, BlobHash, BlobId
from stoker.snapshots.storage import CHUNK_BYTES, ObjectMissing, ObjectStorage
from stoker.snapshots.types import PackCodec, PackLocation, corrupt_snapshot

NEAR = 64 << 10
"""Gaps up to this size between two contents are read too, because a second request would cost more."""


class PackReader:
    """Reads the contents of one snapshot."""

    def __init__(
        self,
        storage: ObjectStorage,
        snapshot: str,
        places: Mapping[BlobId, PackLocation],
        digits: int,
        damaged: Callable[[str], None],
    ) -> None:
        """Create a reader; it calls `damaged` with the name of a pack that has damaged content."""
        self._storage = storage
        self._snapshot = snapshot
        self._places = places
        self._digits = digits
        self._damaged = damaged

    def read(self, blobs: Sequence[BlobId]) -> Iterator[Blob]:
        """Yield the contents in the given order."""
        for run in self._runs(blobs):
            first, last = self._places[run[0]], self._places[run[-1]]
            if len(run) == 1 and (first.stored > CHUNK_BYTES or first.size > CHUNK_BYTES):
                yield Blob(run[0], first.size, self._streamed(run[0], first))
                continue
            data = self._get(run[0], first, first.offset, last.offset + last.stored - first.offset)
            for blob in run:
                place = self._places[blob]
                start = place.offset - first.offset
                content = self._checked(blob, place, data[start : start + place.stored])
                yield Blob(blob, place.size, iter((content,) if content else ()))

    def _runs(self, blobs: Sequence[BlobId]) -> Iterator[list[BlobId]]:
        """Group the blobs into runs that one request can read."""
        run: list[BlobId] = []
        begin = end = 0
        pack = ""
        for blob in blobs:
            place = self._places.get(blob)
            if place is None:
                raise corrupt_snapshot(f"snapshot {self._snapshot} does not hold the content {blob}")
            near = end <= place.offset <= end + NEAR or (
                place.offset == begin and place.stored == end - begin
            )
            small = place.offset + place.stored - begin <= CHUNK_BYTES and place.size <= CHUNK_BYTES
            if run and not (place.pack == pack and near and small):
                yield run
                run = []
            if not run:
                pack, begin = place.pack, place.offset
            run.append(blob)
            end = place.offset + place.stored
        if run:
            yield run

    def _checked(self, blob: BlobId, place: PackLocation, data: bytes) -> bytes:
        content = data
        if place.codec == PackCodec.ZLIB:
            inflating = zlib.decompressobj()
            try:
                content = inflating.decompress(data, place.size + 1)
            except zlib.error:
                raise self._wrong(blob, place) from None
            if not inflating.eof or inflating.unused_data:
                raise self._wrong(blob, place)
        digest = BlobHash(place.size, digits=self._digits)
        digest.update(content)
        if len(content) != place.size or digest.blob() != blob:
            raise self._wrong(blob, place)
        return content

    def _streamed(self, blob: BlobId, place: PackLocation) -> Iterator[bytes]:
        """Yield a large content in chunks; raise at the end if its size or id is wrong."""
        digest = BlobHash(place.size, digits=self._digits)
        size = 0
        for piece in self._inflated(blob, place):
            size += len(piece)
            if size > place.size:
                break
            digest.update(piece)
            yield piece
        if size != place.size or digest.blob() != blob:
            raise self._wrong(blob, place)

    def _inflated(self, blob: BlobId, place: PackLocation) -> Iterator[bytes]:
        inflating = zlib.decompressobj() if place.codec == PackCodec.ZLIB else None
        for start in range(0, place.stored, CHUNK_BYTES):
            data = self._get(blob, place, place.offset + start, min(CHUNK_BYTES, place.stored - start))
            while inflating is not None and data and not inflating.eof:
                try:
                    piece = inflating.decompress(data, CHUNK_BYTES)
                except zlib.error:
                    raise self._wrong(blob, place) from None
                data = inflating.unconsumed_tail
                if piece:
                    yield piece
            if data:  # uncompressed, or extra bytes after the zlib stream, which then fail the check
                yield data
        if inflating is not None and not inflating.eof:
            yield inflating.flush()  # output that did not fit into the last chunk

    def _get(self, blob: BlobId, place: PackLocation, start: int, length: int) -> bytes:
        if not length:
            return b""
        try:
            data = self._storage.get(place.pack, start, length)
        except ObjectMissing:
            raise corrupt_snapshot(f"snapshot {self._snapshot} needs {place.pack}, which is gone") from None
        if len(data) != length:
            raise self._wrong(blob, place)
        return data

    def _wrong(self, blob: BlobId, place: PackLocation) -> Stalled:
        self._damaged(place.pack)
        return corrupt_snapshot(
            f"snapshot {self._snapshot} cannot be used: {place.pack} is damaged at content {blob}"
        )
