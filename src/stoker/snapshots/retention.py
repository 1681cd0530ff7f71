"""Decides which objects of a storage to remove, and which packs a new snapshot may reuse. No I/O.

An object that a remaining snapshot needs is never removed. If a later version wrote a manifest, it is
unknown which packs it needs, and no pack is removed at all. A pack of which every remaining snapshot needs
only a small part is not reused: the next snapshot stores that part again, and the pack is removed with the
last snapshot that names it. So the storage takes at most a few times the size of the snapshots' contents.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from stoker.snapshots import ids as snapshot_ids
from stoker.snapshots.storage import StoredObject
from stoker.snapshots.types import SnapshotHeader

MOSTLY = 4
"""A pack is reusable if some snapshot needs at least 1/`MOSTLY` of it."""
SMALL = 1 << 20
"""A pack up to this size is always reusable."""


@dataclass(frozen=True, slots=True)
class StorageListing:
    """The objects of a storage, and the headers or errors of its manifests."""

    stored: Mapping[str, StoredObject]
    heads: Mapping[str, SnapshotHeader]
    """The headers of readable manifests, by snapshot id."""
    troubles: Mapping[str, str]
    """The errors of unreadable manifests, by snapshot id."""
    newer: bool
    """Whether a later version wrote one of the unreadable manifests."""

    @property
    def ids(self) -> list[str]:
        """All snapshot ids, the newest first."""
        return sorted((*self.heads, *self.troubles), key=snapshot_ids.snapshot_order, reverse=True)

    def without(self, gone: Collection[str]) -> StorageListing:
        names = {snapshot_id + snapshot_ids.MANIFEST for snapshot_id in gone}
        return replace(
            self,
            stored={name: one for name, one in self.stored.items() if name not in names},
            heads={name: head for name, head in self.heads.items() if name not in gone},
            troubles={name: why for name, why in self.troubles.items() if name not in gone},
        )


def missing_packs(packs: Mapping[str, int], stored: Mapping[str, StoredObject]) -> str:
    """Describe the first pack that is missing or has a wrong size; empty if all are present."""
    for pack, size in packs.items():
        there = stored.get(pack)
        if there is None:
            return f"{pack} is gone"
        if there.size != size:
            return f"{pack} has {there.size} bytes instead of {size}"
    return ""


def expired_snapshots(shelf: StorageListing, retention: int, keep: Collection[str]) -> tuple[str, ...]:
    """Return the snapshots to remove. An unusable snapshot does not count towards `retention`."""
    usable = [
        snapshot_id
        for snapshot_id in shelf.ids
        if snapshot_id in shelf.heads and not missing_packs(shelf.heads[snapshot_id].packs, shelf.stored)
    ]
    staying = {*usable[:retention], *keep}
    oldest = snapshot_ids.snapshot_order(usable[retention - 1]) if len(usable) >= retention else None
    return tuple(
        snapshot_id
        for snapshot_id in shelf.ids
        if snapshot_id not in staying
        and oldest is not None
        and snapshot_ids.snapshot_order(snapshot_id) < oldest
    )


def unreferenced_objects(
    shelf: StorageListing, now: float, rest: float, *, let_go: Collection[str] = ()
) -> tuple[str, ...]:
    """Return the objects that no snapshot needs: left by a crash, or of removed snapshots."""
    needed = {pack for head in shelf.heads.values() for pack in head.packs}
    # Keep the own pack of an unreadable manifest: a user may still repair the manifest.
    needed |= {snapshot_id + snapshot_ids.PACK for snapshot_id in shelf.troubles}
    gone = [
        one.name
        for one in shelf.stored.values()
        if not one.name.endswith(snapshot_ids.MANIFEST)
        and (snapshot_ids.snapshot_id_of(one.name) in let_go or now - one.modified >= rest)
        and _is_unreferenced(one.name, needed, shelf.newer)
    ]
    return tuple(sorted(gone, reverse=True))  # the `.bad` marker before its pack


def _is_unreferenced(name: str, needed: Collection[str], newer: bool) -> bool:
    if name.endswith(snapshot_ids.PART):
        return True
    return not newer and name.removesuffix(snapshot_ids.CORRUPT_SUFFIX) not in needed


def reusable_packs(shelf: StorageListing) -> frozenset[str]:
    """Return the packs whose contents a new snapshot may reuse."""
    used: Counter[str] = Counter()
    sizes: dict[str, int] = {}
    for head in shelf.heads.values():
        sizes |= head.packs
        for pack, needs in head.used.items():
            used[pack] = max(used[pack], needs)
    return frozenset(
        pack
        for pack, size in sizes.items()
        if not missing_packs({pack: size}, shelf.stored)
        and pack + snapshot_ids.CORRUPT_SUFFIX not in shelf.stored
        and (size <= SMALL or used[pack] * MOSTLY >= size)
    )
