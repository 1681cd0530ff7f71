"""Finds pairs of mappings of a SyncProfile with the same destination. Pure.

Mappings are applied in their order, so this is not an error: where both have a file, the later mapping wins.
It is seldom intended, though, and not visible from outside. An intended overlay is expressed with
`deploymentMode`.
"""

from __future__ import annotations

from collections.abc import Iterator

from stoker.api.kinds.stoker import SyncProfile
from stoker.domain.errors import InvalidValue
from stoker.domain.paths import RelPath


def mapping_conflicts(profile: SyncProfile) -> Iterator[str]:
    """Yield a sentence for each pair, with the indexes of the mappings in their list."""
    owners: dict[str, int] = {}
    for index, mapping in enumerate(profile.spec.mappings):
        place = _normalize_destination(mapping.destination)
        first = owners.setdefault(place, index)
        if first != index:
            shown = place or "the data folder itself"
            yield (
                f"mappings[{first}] ({profile.spec.mappings[first].source}) and mappings[{index}] "
                f"({mapping.source}) both own {shown}: where both have a file, the later one wins"
            )


def _normalize_destination(destination: str) -> str:
    """Return the same text for equal destinations; a template is compared as written."""
    try:
        return str(RelPath.clean(destination))
    except InvalidValue:
        return destination.strip("/")
