"""Assignment of namespaces to controllers (shards).

A shard is one of `count` controllers that divide the namespaces among themselves. The
assignment depends only on the name and the count, so every process of every version
computes the same. It uses rendezvous hashing: each shard has a weight for a namespace and
the highest weight wins. If a shard is added, namespaces move only to the new shard; if the
last shard is removed, only its own namespaces move.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Self

from stoker.domain.errors import InvalidValue

MAX_SHARDS: Final = 16
"""Every shard holds a Lease and caches all resources for its webhooks, so more shards only add cost."""


@dataclass(frozen=True, slots=True)
class Shard:
    """Shard number `index` of `count`, counted from 0."""

    index: int = 0
    count: int = 1

    def __post_init__(self) -> None:
        if not 1 <= self.count <= MAX_SHARDS:
            raise InvalidValue(f"shard {self}: there can be from 1 to {MAX_SHARDS} shards")
        if not 0 <= self.index < self.count:
            last = f"{self.count - 1}/{self.count}"
            raise InvalidValue(
                f"shard {self}: shards are counted from 0, so the last of {self.count} is {last}"
            )

    @classmethod
    def parse(cls, text: str) -> Self:
        match = re.fullmatch(r"([0-9]{1,3})/([0-9]{1,3})", text, re.ASCII)
        if match is None:
            raise InvalidValue(
                f"shard {text[:40]!r} is not of the form I/N, such as 0/2 for the first of two"
            )
        return cls(int(match[1]), int(match[2]))

    def __str__(self) -> str:
        return f"{self.index}/{self.count}"

    def has(self, namespace: str) -> bool:
        return self.count == 1 or shard_of_namespace(namespace, self.count) == self.index


SINGLE_SHARD: Final = Shard()
"""The shard of an installation that is not divided."""


@lru_cache(maxsize=16384)
def shard_of_namespace(namespace: str, count: int) -> int:
    """Return the index of the shard that a namespace belongs to, of `count` shards."""
    return max(range(count), key=lambda index: _shard_weight(namespace, index))


def _shard_weight(namespace: str, index: int) -> bytes:
    return hashlib.sha256(f"{index}/{namespace}".encode()).digest()
