"""A resource in a cluster, as somebody names it."""

from __future__ import annotations

from typing import NamedTuple

KINDS = ("Stoker", "IgnitionSync")
"""What keeps gateways in step, by its kinds."""


class ResourceName(NamedTuple):
    """Which resource is meant; without a kind it is whichever of them has the name."""

    namespace: str
    name: str
    kind: str | None = None

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"
