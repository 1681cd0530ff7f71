"""Two mappings that own one destination. Pure.

Mappings lie over each other in their order, so this is no error: where both have a
file, the later one wins. It is seldom meant, though, and nobody sees it from outside;
what is meant as an overlay is said with `deploymentMode`.
"""

from __future__ import annotations

from collections.abc import Iterator

from stoker.api.kinds.stoker import SyncProfile
from stoker.domain.errors import InvalidValue
from stoker.domain.paths import RelPath


def mapping_conflicts(profile: SyncProfile) -> Iterator[str]:
    """A sentence for each pair, by the places of the mappings in their list."""
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
    """One spelling for one place; a template is compared as it is written."""
    try:
        return str(RelPath.clean(destination))
    except InvalidValue:
        return destination.strip("/")
