"""The kinds that a server serves, as a value, and the groups that it could not describe.

`stoker.kube.client.discovery` creates it. A group whose server is down is listed in `unavailable`. A missing
kind of such a group must never be treated as removed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from stoker.kube.client.resources import ApiResource


@dataclass(frozen=True, slots=True)
class ServedResource:
    """One resource in one version."""

    resource: ApiResource
    verbs: frozenset[str]
    subresources: frozenset[str] = frozenset()
    short_names: tuple[str, ...] = ()
    singular: str = ""
    categories: tuple[str, ...] = ()
    preferred: bool = False
    """Whether this is the version that the server prefers for the resource."""


@dataclass(frozen=True, slots=True)
class UnavailableGroupVersion:
    """A group and version that the server announces but cannot describe."""

    api_version: str
    why: str


@dataclass(frozen=True, slots=True)
class KindCatalog:
    """All served resources, with lookups by kind and by preferred version."""

    served: tuple[ServedResource, ...] = ()
    unavailable: tuple[UnavailableGroupVersion, ...] = ()
    _by_kind: Mapping[tuple[str, str], ServedResource] = field(init=False, repr=False, compare=False)
    _preferred: Mapping[tuple[str, str], ServedResource] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        by_kind: dict[tuple[str, str], ServedResource] = {}
        for each in self.served:
            # A kind may be served under several names; the first one is its own (as in `kubectl`).
            by_kind.setdefault((each.resource.kind, each.resource.api_version), each)
        preferred = {(s.resource.group, s.resource.plural): s for s in self.served if s.preferred}
        object.__setattr__(self, "_by_kind", by_kind)
        object.__setattr__(self, "_preferred", preferred)

    def find(self, kind: str, api_version: str) -> ServedResource | None:
        """Return the resource for an object's `kind` and `apiVersion`."""
        return self._by_kind.get((kind, api_version))

    def preferred(self, group: str, plural: str) -> ServedResource | None:
        """Return a resource in the version to use for requests."""
        return self._preferred.get((group, plural))


def prefer_first(served: list[ServedResource]) -> list[ServedResource]:
    """Mark the first version of each resource; the server lists preferred versions first."""
    seen: set[tuple[str, str]] = set()
    marked: list[ServedResource] = []
    for each in served:
        name = (each.resource.group, each.resource.plural)
        marked.append(replace(each, preferred=name not in seen))
        seen.add(name)
    return marked
