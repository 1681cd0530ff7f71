"""Decides which namespaces a shard may reconcile while other shards may use another count. No I/O.

Shards of the same count never overlap: a namespace has one owner, and the owner's replicas share a Lease.
While the count changes, a shard of the old count and a shard of the new count may both claim a namespace. So
every holder writes its count into its Lease, and a shard that wins its Lease reads all others *after* that:

- Of two shards that claim the same namespace, the shard that wrote later sees the other and waits.
- It waits until the other Lease is free, is held with the new count, or was not renewed for its whole
  duration by our clock: its holder has then stopped by its own clock.
- A deleted Lease, such as that of a removed shard, gives no information. If our own Lease had another count
  before, the shards of that count get the duration of a Lease to notice.

A shard that reconciles need not check again: every later shard sees it. If two shards saw each other, both
wait until the shard with the older count stops.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from stoker.domain.shards import Shard, shard_of_namespace
from stoker.kube.leader.lease import Lease

SHARDS = "stoker.io/shards"
"""Annotation of a Lease: the shard count of its holder."""

_NAME = re.compile(r"stoker-controller-([0-9]{1,3})", re.ASCII)


def lease_name(index: int) -> str:
    """The Lease of an index, whatever the count: two shards of the same index never reconcile at once."""
    return f"stoker-controller-{index}"


def shard_index(lease: Lease) -> int | None:
    """The index of the shard that uses the Lease; None if it is not a Lease of ours."""
    match = _NAME.fullmatch(lease.metadata.name)
    return int(match[1]) if match is not None else None


def shard_count(lease: Lease | None) -> int | None:
    """The count of the Lease's last holder; None if it never had any. Versions without shards count as 1."""
    if lease is None or lease.spec.holder_identity is None:
        return None
    said = (lease.metadata.annotations or {}).get(SHARDS, "1")
    return int(said) if re.fullmatch(r"[0-9]{1,3}", said, re.ASCII) and int(said) else 1


@dataclass(frozen=True, slots=True)
class _ShardClaim:
    """The namespaces that another shard may still reconcile."""

    index: int
    count: int
    version: str
    """Empty if its Lease was deleted."""
    until: float

    def covers(self, namespace: str) -> bool:
        return shard_of_namespace(namespace, self.count) == self.index


class ShardDivision:
    """The state of one term of a shard towards all other shards."""

    def __init__(self, shard: Shard, found: Lease | None, duration: float) -> None:
        """`found` is our own Lease before we claimed it."""
        self._shard = shard
        self._before = shard_count(found)
        self._duration = duration
        self._claims: dict[int, _ShardClaim] | None = None
        self._looked_at = 0.0

    def saw(self, leases: Iterable[Lease], at: float) -> None:
        """Process all Leases, read after ours was won; `at` is the moment after the response arrived."""
        seen = {index: lease for lease in leases if (index := shard_index(lease)) is not None}
        known = self._unseen(at) if self._claims is None else self._claims
        claims: dict[int, _ShardClaim] = {}
        for index in (known.keys() | seen.keys()) - {self._shard.index}:
            claim = self._claim(index, seen.get(index), known.get(index), at)
            if claim is not None:
                claims[index] = claim
        # Expired claims stay recorded: otherwise the shard would wait for the same Lease again and again.
        self._claims = claims
        self._looked_at = at

    def may(self, namespace: str) -> bool:
        """Whether the namespace is ours and no other shard can still claim it."""
        if not self._shard.has(namespace) or self._claims is None:
            return False
        return not any(claim.covers(namespace) for claim in self._standing())

    @property
    def settled(self) -> bool:
        """Whether no shard with another count is left."""
        return self._claims is not None and not self._standing()

    @property
    def others(self) -> tuple[str, ...]:
        """The shards that this shard waits for."""
        return tuple(f"{one.index}/{one.count}" for one in self._standing())

    def _standing(self) -> list[_ShardClaim]:
        return [one for one in (self._claims or {}).values() if one.until > self._looked_at]

    def _unseen(self, at: float) -> dict[int, _ShardClaim]:
        """Claims of shards whose Leases may have been deleted before this shard could read them."""
        before = self._before
        if before is None or before == self._shard.count:
            return {}
        return {index: _ShardClaim(index, before, "", at + self._duration) for index in range(before)}

    def _claim(
        self, index: int, lease: Lease | None, known: _ShardClaim | None, at: float
    ) -> _ShardClaim | None:
        if lease is None:
            if known is None or not known.version or known.until <= at:
                return known
            # Deleted while it was held; the holder notices at its next renewal.
            return _ShardClaim(index, known.count, "", at + self._duration)
        count = shard_count(lease)
        if count is None or not lease.holder or count == self._shard.count:
            return None
        if known is not None and known.version == lease.version:
            return known
        # The longer of both: the holder may have other terms, or a user may have edited them by hand.
        stands = max(self._duration, float(lease.spec.lease_duration_seconds or 0))
        return _ShardClaim(index, count, lease.version, at + stands)
