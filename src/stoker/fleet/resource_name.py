"""The name of a resource in a cluster, as a user gives it on the command line or the dashboard."""

from __future__ import annotations

from typing import NamedTuple

KINDS = ("Stoker", "IgnitionSync")
"""The kinds that sync gateways."""


class ResourceName(NamedTuple):
    """Which resource is meant; without a kind, the resource of either kind that has the name."""

    namespace: str
    name: str
    kind: str | None = None

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"
