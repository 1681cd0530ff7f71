"""The snapshots of one gateway: take, list, open, verify and prune them.

This module ties the package together: `packer` writes packs, `manifest` encodes manifests, `index` reads the
storage, `reader` reads contents, `retention` decides what to remove. A pack is stored before the manifest
that names it, and a manifest is removed before its packs. So at any moment every stored manifest has all of
its packs. A crash can leave only a pack that no manifest names, which the next writer removes. Objects are
never changed, so a reader never sees a partial object.

Everything here blocks; call it in a worker thread.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from itertools import chain

from stoker.domain.errors import Stalled, StokerError
from stoker.domain.git_objects import Blob, BlobId
from stoker.domain.intent.policies import SnapshotScope
from stoker.snapshots import ids
from stoker.snapshots.index import StorageIndex, index_entry
from stoker.snapshots.manifest import check_paths, encode
from stoker.snapshots.packer import FileOpener, PackWriter
from stoker.snapshots.reader import PackReader
from stoker.snapshots.retention import StorageListing, expired_snapshots, missing_packs, unreferenced_objects
from stoker.snapshots.storage import ObjectStorage
from stoker.snapshots.types import (
    MAX_EXTRA,
    ContinueCheck,
    ScannedFile,
    Snapshot,
    SnapshotManifest,
    SnapshotOrigin,
    corrupt_snapshot,
    never_stop,
    storage_failed,
)

NO_ORIGIN = SnapshotOrigin()


class OpenSnapshot:
    """A snapshot that is open for reading."""

    def __init__(self, manifest: SnapshotManifest, contents: PackReader) -> None:
        self.manifest = manifest
        self._contents = contents

    def read(self, blobs: Sequence[BlobId]) -> Iterator[Blob]:
        """Yield the contents in the given order, each verified while it is read."""
        return self._contents.read(blobs)

    def content(self, path: str) -> bytes:
        """Return the content of one file."""
        (blob,) = self.read([self.manifest.files[path].blob])
        return b"".join(blob.chunks)


class SnapshotRepository:
    """The snapshots of one gateway in one storage."""

    def __init__(
        self, storage: ObjectStorage, gateway: str, *, clock: Callable[[], float] = time.time
    ) -> None:
        self._storage = storage
        self._gateway = gateway
        self._clock = clock
        self._shelves = StorageIndex(storage, gateway)

    def take(
        self,
        files: Iterable[ScannedFile],
        open_file: FileOpener,
        *,
        scope: SnapshotScope,
        origin: SnapshotOrigin = NO_ORIGIN,
        extra: bytes = b"",
        digits: int = 40,
        strict: bool = True,
        reuse: bool = False,
        go_on: ContinueCheck = never_stop,
    ) -> Snapshot:
        """Take a snapshot of these files; with `reuse`, return the newest snapshot if it is identical.

        `open_file` returns a descriptor that this method closes. A file that no longer exists is omitted. A
        file that cannot be read makes a `strict` snapshot fail; otherwise the snapshot lists it in
        `left_out`. After an error no partial snapshot remains.
        """
        if len(extra) > MAX_EXTRA:
            raise storage_failed(f"more than {MAX_EXTRA} bytes cannot ride with a snapshot")
        with self._storage.exclusive():
            shelf = self._shelves.look()
            self._delete(unreferenced_objects(shelf, self._now(), self._storage.leftovers_rest))
            kept = self._shelves.kept(shelf, digits)
            new = ids.next_id(self._gateway, self._clock(), shelf.ids)
            packing = PackWriter(new + ids.PACK, kept, open_file, digits=digits, strict=strict, go_on=go_on)
            try:
                with closing(packing.chunks(files)) as chunks:
                    first = next(chunks, None)
                    if first is not None:
                        self._storage.put(new + ids.PACK, chain((first,), chunks))
                manifest = self._manifest(new, packing, shelf, scope, origin, extra, digits)
                if reuse and first is None and (same := self._same(manifest, shelf)):
                    return same
                data = self._encoded(manifest)
                go_on()
                self._storage.put(new + ids.MANIFEST, (data,))
            except BaseException:
                with suppress(StokerError):  # in this order: a manifest must not stay without its pack
                    self._storage.delete(new + ids.MANIFEST)
                    self._storage.delete(new + ids.PACK)
                raise
        return Snapshot(
            new,
            manifest.taken_at,
            manifest.size,
            len(manifest.files),
            scope,
            origin,
            packing.size + len(data),
        )

    def listed(self) -> tuple[Snapshot, ...]:
        """Return all snapshots, the newest first."""
        shelf = self._shelves.look()
        return tuple(index_entry(snapshot_id, shelf) for snapshot_id in shelf.ids)

    def newest(self) -> Snapshot | None:
        """Return the newest usable snapshot, judged by its manifest and the sizes of its packs."""
        return next((snapshot for snapshot in self.listed() if not snapshot.trouble), None)

    def open(self, snapshot_id: str) -> OpenSnapshot:
        """Open a snapshot; raise Stalled if it is missing, its manifest is damaged or a pack is missing."""
        manifest = self._shelves.sealed(snapshot_id).manifest()
        why = missing_packs(manifest.packs, {stored.name: stored for stored in self._storage.listed()})
        if why:
            raise corrupt_snapshot(f"snapshot {snapshot_id} cannot be used: {why}")
        contents = PackReader(self._storage, snapshot_id, manifest.contents, manifest.digits, self._distrust)
        return OpenSnapshot(manifest, contents)

    def verify(
        self, snapshot_id: str, paths: Collection[str] | None = None, *, go_on: ContinueCheck = never_stop
    ) -> SnapshotManifest:
        """Read and verify the contents of these files, or of all; raise Stalled at the first damage."""
        opened = self.open(snapshot_id)
        files = opened.manifest.files
        places = opened.manifest.contents
        wanted = {files[path].blob for path in (files if paths is None else paths) if path in files}
        for blob in opened.read(sorted(wanted, key=lambda blob: places[blob][:2])):
            go_on()
            for _ in blob.chunks:
                pass
        return opened.manifest

    def prune(self, retention: int, *, keep: Collection[str] = ()) -> tuple[str, ...]:
        """Remove all but the newest `retention` snapshots, and unreferenced packs; return the removed ids."""
        with self._storage.exclusive():
            shelf = self._shelves.look()
            gone = expired_snapshots(shelf, max(1, retention), keep)
            for snapshot_id in gone:
                self._storage.delete(snapshot_id + ids.MANIFEST)
            left = shelf.without(gone)
            self._delete(unreferenced_objects(left, self._now(), self._storage.leftovers_rest, let_go=gone))
        return gone

    def _now(self) -> float:
        return time.time()  # compared with file times, so not the injected clock that names snapshots

    def _delete(self, names: Iterable[str]) -> None:
        for name in names:
            self._storage.delete(name)

    def _manifest(
        self,
        new: str,
        packing: PackWriter,
        shelf: StorageListing,
        scope: SnapshotScope,
        origin: SnapshotOrigin,
        extra: bytes,
        digits: int,
    ) -> SnapshotManifest:
        needed = dict.fromkeys(file.blob for file in packing.files.values())
        contents = {blob: packing.contents[blob] for blob in needed}
        packs = sorted({place.pack for place in contents.values()})
        return SnapshotManifest(
            id=new,
            gateway=self._gateway,
            taken_at=float(int(self._clock())),
            scope=scope,
            origin=origin,
            files=packing.files,
            left_out=tuple(packing.left_out),
            extra=extra,
            size=sum(file.size for file in packing.files.values()),
            packs={
                pack: packing.size if pack == new + ids.PACK else shelf.stored[pack].size for pack in packs
            },
            contents=contents,
            digits=digits,
        )

    def _same(self, manifest: SnapshotManifest, shelf: StorageListing) -> Snapshot | None:
        """Return the newest snapshot if the new manifest equals it except for id and time."""
        if not shelf.ids or shelf.ids[0] not in shelf.heads:
            return None
        try:
            newest = self._shelves.sealed(shelf.ids[0]).manifest()
        except Stalled:  # it is damaged
            return None
        named = replace(manifest, id=newest.id, taken_at=newest.taken_at)
        return index_entry(newest.id, shelf) if named == newest else None

    def _encoded(self, manifest: SnapshotManifest) -> bytes:
        try:
            check_paths([*manifest.files, *manifest.left_out])  # the same check as on reading
            return encode(manifest)
        except ValueError as error:
            raise storage_failed(f"there can be no snapshot of these files: {error}") from error

    def _distrust(self, pack: str) -> None:
        """Mark a pack as damaged, so that no later snapshot reuses it; a failure to mark it is ignored."""
        with suppress(StokerError):
            self._storage.put(pack + ids.CORRUPT_SUFFIX, (b"",))
