"""Reads the storage of one gateway: the list of snapshots and the locations of stored contents.

Manifests never change, so their headers are cached. A manifest that cannot be read is listed with its error
and does not affect the others.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import suppress

from stoker.domain.errors import Stalled
from stoker.domain.git_objects import BlobId
from stoker.domain.reasons import Reason
from stoker.snapshots import ids
from stoker.snapshots.manifest import MAX_BYTES, SealedManifest, SnapshotFormatTooNew
from stoker.snapshots.retention import StorageListing, missing_packs, reusable_packs
from stoker.snapshots.storage import CHUNK_BYTES, ObjectMissing, ObjectStorage, StoredObject
from stoker.snapshots.types import PackLocation, Snapshot, SnapshotHeader, corrupt_snapshot


class StoredContents:
    """Locations of stored contents; an older manifest is read only if no newer one has a content."""

    def __init__(self, indexes: Iterator[dict[BlobId, PackLocation]], packs: Collection[str]) -> None:
        self._indexes = indexes
        self._packs = packs
        self._places: dict[BlobId, PackLocation] = {}

    def get(self, blob: BlobId) -> PackLocation | None:
        while blob not in self._places:
            index = next(self._indexes, None)
            if index is None:
                return None
            good = {blob: place for blob, place in index.items() if place.pack in self._packs}
            self._places = good | self._places
        return self._places[blob]


class StorageIndex:
    """Lists one storage and caches the headers of its manifests."""

    def __init__(self, storage: ObjectStorage, gateway: str) -> None:
        self._storage = storage
        self._gateway = gateway
        self._heads: dict[StoredObject, SnapshotHeader] = {}

    def look(self) -> StorageListing:
        """List the storage now, with the header of each manifest."""
        stored = [
            one
            for one in self._storage.listed()
            if ids.belongs_to(self._gateway, ids.snapshot_id_of(one.name))
        ]
        heads: dict[str, SnapshotHeader] = {}
        troubles: dict[str, str] = {}
        newer = False
        remembered: dict[StoredObject, SnapshotHeader] = {}
        for one in stored:
            if not one.name.endswith(ids.MANIFEST):
                continue
            snapshot_id = ids.snapshot_id_of(one.name)
            try:
                head = self._heads.get(one) or self.sealed(snapshot_id).head
            except Stalled as error:
                troubles[snapshot_id] = error.message
                newer = newer or isinstance(error, SnapshotFormatTooNew)
            else:
                heads[snapshot_id] = remembered[one] = head
        self._heads = remembered
        return StorageListing({one.name: one for one in stored}, heads, troubles, newer)

    def sealed(self, snapshot_id: str) -> SealedManifest:
        """Read one manifest; raise Stalled if it does not exist or is damaged."""
        if not ids.is_snapshot_id(snapshot_id) or not ids.belongs_to(self._gateway, snapshot_id):
            raise self._unknown(snapshot_id)
        data = bytearray()
        try:
            while len(data) <= MAX_BYTES:
                piece = self._storage.get(snapshot_id + ids.MANIFEST, len(data), CHUNK_BYTES)
                data += piece
                if len(piece) < CHUNK_BYTES:
                    return SealedManifest(snapshot_id, bytes(data))
        except ObjectMissing:
            raise self._unknown(snapshot_id) from None
        raise corrupt_snapshot(f"the manifest of snapshot {snapshot_id} is larger than any that we write")

    def kept(self, shelf: StorageListing, digits: int) -> StoredContents:
        """Return the locations of contents that need not be stored again."""
        return StoredContents(self._indexes(shelf, digits), reusable_packs(shelf))

    def _indexes(self, shelf: StorageListing, digits: int) -> Iterator[dict[BlobId, PackLocation]]:
        for snapshot_id in shelf.ids:
            head = shelf.heads.get(snapshot_id)
            if head is not None and head.digits == digits:
                with suppress(Stalled):  # damaged or deleted: reuse nothing from it
                    yield self.sealed(snapshot_id).contents()

    def _unknown(self, snapshot_id: str) -> Stalled:
        whose = f"of gateway {self._gateway!r} in {self._storage.where}"
        message = f"there is no snapshot {snapshot_id[:200]!r} {whose}"
        return Stalled(message, reason=Reason.SNAPSHOT_NOT_FOUND)


def index_entry(snapshot_id: str, shelf: StorageListing) -> Snapshot:
    """Return the listing entry of one snapshot."""
    head = shelf.heads.get(snapshot_id)
    if head is None:
        return Snapshot(snapshot_id, trouble=shelf.troubles[snapshot_id])
    own = (snapshot_id + ids.MANIFEST, snapshot_id + ids.PACK)
    stored = sum(shelf.stored[name].size for name in own if name in shelf.stored)
    why = missing_packs(head.packs, shelf.stored)
    return Snapshot(
        snapshot_id,
        head.taken_at,
        head.size,
        head.files,
        head.scope,
        head.origin,
        stored,
        f"snapshot {snapshot_id} cannot be used: {why}" if why else "",
    )
