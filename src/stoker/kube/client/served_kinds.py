"""What a server serves, as a value: every resource of every version, and what it could not tell.

`stoker.kube.client.discovery` makes it. A group whose server is down is named among the
`unavailable`; that a kind of such a group is missing says nothing about it, and
must never be read as its removal.
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
    """Of all versions that serve it, this is the one that the server prefers."""


@dataclass(frozen=True, slots=True)
class UnavailableGroupVersion:
    """A group and version that the server announces but cannot describe."""

    api_version: str
    why: str


@dataclass(frozen=True, slots=True)
class KindCatalog:
    """The answer to "which kinds are there"."""

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
        """What an object's own `kind` and `apiVersion` name."""
        return self._by_kind.get((kind, api_version))

    def preferred(self, group: str, plural: str) -> ServedResource | None:
        """A resource in the version in which to ask for it."""
        return self._preferred.get((group, plural))


def prefer_first(served: list[ServedResource]) -> list[ServedResource]:
    """Mark, of each resource, the first version; the server lists the versions it prefers first."""
    seen: set[tuple[str, str]] = set()
    marked: list[ServedResource] = []
    for each in served:
        name = (each.resource.group, each.resource.plural)
        marked.append(replace(each, preferred=name not in seen))
        seen.add(name)
    return marked
