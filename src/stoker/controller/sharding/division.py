"""Which namespaces a shard may begin with, while others may still count in another way; no I/O.

Shards of one count never meet: a namespace has one owner, and the owner's replicas share a
Lease. While the count changes, a shard of the old count and one of the new may both call a
namespace theirs. So every holder writes into its Lease by which count it divides, and
whoever wins one looks at all others *after* that:

- Of two that claim the same namespace the one that wrote later sees the other, and waits.
- It waits until the other's Lease is free, is held by the new count, or has stood still for
  its whole duration by our own clock, when its holder has stopped by its own.
- A Lease that is gone, as that of a shard that was taken away, tells nothing: who divided by
  another count before us is given the duration of a Lease to notice.

A shard that works need never look again: whoever comes later sees it. Where both saw each
other both wait, and it ends with the older count.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from stoker.domain.shards import Shard, shard_of_namespace
from stoker.kube.leader.lease import Lease

SHARDS = "stoker.io/shards"
"""Annotation of a Lease: by which count its holder divides the namespaces."""

_NAME = re.compile(r"stoker-controller-([0-9]{1,3})", re.ASCII)


def lease_name(index: int) -> str:
    """One for each index, whatever the count is: two shards of the same index never work at once."""
    return f"stoker-controller-{index}"


def shard_index(lease: Lease) -> int | None:
    """Whose Lease it is; None where it is nobody's of ours."""
    match = _NAME.fullmatch(lease.metadata.name)
    return int(match[1]) if match is not None else None


def shard_count(lease: Lease | None) -> int | None:
    """By which count it was held last; None where it never was. Before there were shards nobody said so."""
    if lease is None or lease.spec.holder_identity is None:
        return None
    said = (lease.metadata.annotations or {}).get(SHARDS, "1")
    return int(said) if re.fullmatch(r"[0-9]{1,3}", said, re.ASCII) and int(said) else 1


@dataclass(frozen=True, slots=True)
class _ShardClaim:
    """What another shard may still work on."""

    index: int
    count: int
    version: str
    """Empty: its Lease is gone."""
    until: float

    def covers(self, namespace: str) -> bool:
        return shard_of_namespace(namespace, self.count) == self.index


class ShardDivision:
    """How one term of one shard stands to all other shards."""

    def __init__(self, shard: Shard, found: Lease | None, duration: float) -> None:
        """`found` is our own Lease before we claimed it."""
        self._shard = shard
        self._before = shard_count(found)
        self._duration = duration
        self._claims: dict[int, _ShardClaim] | None = None
        self._looked_at = 0.0

    def saw(self, leases: Iterable[Lease], at: float) -> None:
        """All Leases there are, read after ours was won; `at` is the moment after the answer came."""
        seen = {index: lease for lease in leases if (index := shard_index(lease)) is not None}
        known = self._unseen(at) if self._claims is None else self._claims
        claims: dict[int, _ShardClaim] = {}
        for index in (known.keys() | seen.keys()) - {self._shard.index}:
            claim = self._claim(index, seen.get(index), known.get(index), at)
            if claim is not None:
                claims[index] = claim
        # What was waited out is remembered: forgotten, the same Lease would be waited for again and again.
        self._claims = claims
        self._looked_at = at

    def may(self, namespace: str) -> bool:
        """Whether it is ours, and nobody else's any more."""
        if not self._shard.has(namespace) or self._claims is None:
            return False
        return not any(claim.covers(namespace) for claim in self._standing())

    @property
    def settled(self) -> bool:
        """Nobody is left who divides in another way."""
        return self._claims is not None and not self._standing()

    @property
    def others(self) -> tuple[str, ...]:
        """The shards that are waited for."""
        return tuple(f"{one.index}/{one.count}" for one in self._standing())

    def _standing(self) -> list[_ShardClaim]:
        return [one for one in (self._claims or {}).values() if one.until > self._looked_at]

    def _unseen(self, at: float) -> dict[int, _ShardClaim]:
        """Those whose Leases may have gone before anybody looked."""
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
            # Deleted under its holder, who notices at the next renewal.
            return _ShardClaim(index, known.count, "", at + self._duration)
        count = shard_count(lease)
        if count is None or not lease.holder or count == self._shard.count:
            return None
        if known is not None and known.version == lease.version:
            return known
        # The longer of both: the holder may run on other terms, and somebody may have edited them by hand.
        stands = max(self._duration, float(lease.spec.lease_duration_seconds or 0))
        return _ShardClaim(index, count, lease.version, at + stands)
