"""The names of the maps that belong to a resource, and the labels that tell whose they are (C-005)."""

from __future__ import annotations

from stoker.domain.errors import InvalidValue
from stoker.domain.intent.intent import SyncResourceKind
from stoker.domain.protocol.changes import CHANGE_MAPS

CR_NAME_LABEL = "stoker.io/cr-name"
CR_KIND_LABEL = "stoker.io/cr-kind"

_PREFIXES = {SyncResourceKind.STOKER: "stoker", SyncResourceKind.IGNITION_SYNC: "ignition-sync"}


def metadata_map_name(door: SyncResourceKind, resource: str) -> str:
    """What the controller tells the agents of a resource."""
    return f"{_PREFIXES[door]}-metadata-{resource}"


def status_map_name(door: SyncResourceKind, resource: str, shard: int = 0) -> str:
    """What agents report; the first twenty in the main map, the rest in shards from 1 on.

    The number stands in the middle: at the end it would make the shard of one resource
    the main map of another, called `line-1`.
    """
    if shard < 0:
        raise InvalidValue(f"a status map has no shard {shard}")
    return (
        f"{_PREFIXES[door]}-statusshard-{shard}-{resource}"
        if shard
        else f"{_PREFIXES[door]}-status-{resource}"
    )


def changes_map_name(door: SyncResourceKind, resource: str, number: int) -> str:
    """What gateways changed by themselves and git shall get; there are eight, numbered in the middle too."""
    if not 0 <= number < CHANGE_MAPS:
        raise InvalidValue(f"there is no changes map {number}")
    return f"{_PREFIXES[door]}-changes-{number}-{resource}"


def resource_labels(door: SyncResourceKind, resource: str) -> dict[str, str]:
    return {CR_NAME_LABEL: resource, CR_KIND_LABEL: str(door)}
