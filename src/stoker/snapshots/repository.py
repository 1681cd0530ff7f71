"""The snapshots of one gateway: taken, listed, checked, read and let go.

A pack is put before the manifest that names it, and a manifest goes before its packs
do: at any moment each manifest that is there has all that it needs. What a crash left
is a pack that no manifest names, and whoever writes next removes it. An object is
never changed, so nobody who reads meets half of something.

Everything here blocks and belongs into a thread.
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
    """A snapshot to be read."""

    def __init__(self, manifest: SnapshotManifest, contents: PackReader) -> None:
        self.manifest = manifest
        self._contents = contents

    def read(self, blobs: Sequence[BlobId]) -> Iterator[Blob]:
        """Contents in the order in which they are asked for, each checked while it is read."""
        return self._contents.read(blobs)

    def content(self, path: str) -> bytes:
        """That of one file."""
        (blob,) = self.read([self.manifest.files[path].blob])
        return b"".join(blob.chunks)


class SnapshotRepository:
    """What is kept of one gateway in one storage."""

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
        """A new snapshot of these files; with `reuse` the newest one, if it says exactly the same.

        `open_file` gives a descriptor that is ours to close. A file that is gone by then
        is not in the snapshot; one that cannot be read stops a `strict` one and is named
        in `left_out` of any other. Whatever is raised, nothing half is left.
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
                with suppress(StokerError):  # in this order: a manifest without its pack must not stay
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
        """All of them, newest first."""
        shelf = self._shelves.look()
        return tuple(index_entry(snapshot_id, shelf) for snapshot_id in shelf.ids)

    def newest(self) -> Snapshot | None:
        """The newest one that can be used, as far as its manifest tells."""
        return next((snapshot for snapshot in self.listed() if not snapshot.trouble), None)

    def open(self, snapshot_id: str) -> OpenSnapshot:
        """A snapshot whose manifest is whole; raises Stalled for one that is not, or not there."""
        manifest = self._shelves.sealed(snapshot_id).manifest()
        why = missing_packs(manifest.packs, {stored.name: stored for stored in self._storage.listed()})
        if why:
            raise corrupt_snapshot(f"snapshot {snapshot_id} cannot be used: {why}")
        contents = PackReader(self._storage, snapshot_id, manifest.contents, manifest.digits, self._distrust)
        return OpenSnapshot(manifest, contents)

    def verify(
        self, snapshot_id: str, paths: Collection[str] | None = None, *, go_on: ContinueCheck = never_stop
    ) -> SnapshotManifest:
        """Read and check all that these files need, or all files; raises Stalled at the first wrong one."""
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
        """Let go of all but the newest `retention`, and of packs that nobody names; what is gone, by id."""
        with self._storage.exclusive():
            shelf = self._shelves.look()
            gone = expired_snapshots(shelf, max(1, retention), keep)
            for snapshot_id in gone:
                self._storage.delete(snapshot_id + ids.MANIFEST)
            left = shelf.without(gone)
            self._delete(unreferenced_objects(left, self._now(), self._storage.leftovers_rest, let_go=gone))
        return gone

    def _now(self) -> float:
        return time.time()  # beside the times of files, whatever clock the snapshots are named by

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
        """The newest one, if a new one would say nothing else."""
        if not shelf.ids or shelf.ids[0] not in shelf.heads:
            return None
        try:
            newest = self._shelves.sealed(shelf.ids[0]).manifest()
        except Stalled:  # its rows are wrong
            return None
        named = replace(manifest, id=newest.id, taken_at=newest.taken_at)
        return index_entry(newest.id, shelf) if named == newest else None

    def _encoded(self, manifest: SnapshotManifest) -> bytes:
        try:
            check_paths([*manifest.files, *manifest.left_out])  # as whoever reads it will
            return encode(manifest)
        except ValueError as error:
            raise storage_failed(f"there can be no snapshot of these files: {error}") from error

    def _distrust(self, pack: str) -> None:
        """Note that no later snapshot may lean on this pack; whoever found out goes on all the same."""
        with suppress(StokerError):
            self._storage.put(pack + ids.CORRUPT_SUFFIX, (b"",))
