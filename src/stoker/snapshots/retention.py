"""What of a storage may go, and what a new snapshot may lean on. Pure decisions.

Nothing goes that a snapshot needs which stays. Where a manifest was written by a
later version nobody knows what it needs, and no pack goes at all. A pack of which
every snapshot that is left needs only a small part is not leaned on any more: the
next snapshot stores that part again, and the pack goes with the last one that
names it. So what is kept costs at most a few times what the snapshots hold.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from stoker.snapshots import ids as snapshot_ids
from stoker.snapshots.storage import StoredObject
from stoker.snapshots.types import SnapshotHeader

MOSTLY = 4
"""A pack is worth keeping if some snapshot needs at least this part of it."""
SMALL = 1 << 20
"""A pack up to this size always is."""


@dataclass(frozen=True, slots=True)
class StorageListing:
    """What lies in a storage."""

    stored: Mapping[str, StoredObject]
    heads: Mapping[str, SnapshotHeader]
    """By id, of the manifests that can be read."""
    troubles: Mapping[str, str]
    """By id, why a manifest cannot."""
    newer: bool
    """Whether one of those was written by a later version."""

    @property
    def ids(self) -> list[str]:
        """Newest first."""
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
    """What of these is not there as it must be, in words; empty if all are."""
    for pack, size in packs.items():
        there = stored.get(pack)
        if there is None:
            return f"{pack} is gone"
        if there.size != size:
            return f"{pack} has {there.size} bytes instead of {size}"
    return ""


def expired_snapshots(shelf: StorageListing, retention: int, keep: Collection[str]) -> tuple[str, ...]:
    """The snapshots that go. One that cannot be used takes no other's place."""
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
    """Objects that no snapshot needs: a crash left them, or their snapshots are gone."""
    needed = {pack for head in shelf.heads.values() for pack in head.packs}
    # The own pack of a manifest that cannot be read: somebody may mend that one day.
    needed |= {snapshot_id + snapshot_ids.PACK for snapshot_id in shelf.troubles}
    gone = [
        one.name
        for one in shelf.stored.values()
        if not one.name.endswith(snapshot_ids.MANIFEST)
        and (snapshot_ids.snapshot_id_of(one.name) in let_go or now - one.modified >= rest)
        and _is_unreferenced(one.name, needed, shelf.newer)
    ]
    return tuple(sorted(gone, reverse=True))  # what says that a pack is bad goes before the pack


def _is_unreferenced(name: str, needed: Collection[str], newer: bool) -> bool:
    if name.endswith(snapshot_ids.PART):
        return True
    return not newer and name.removesuffix(snapshot_ids.CORRUPT_SUFFIX) not in needed


def reusable_packs(shelf: StorageListing) -> frozenset[str]:
    """The packs that a new snapshot may lean on."""
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
