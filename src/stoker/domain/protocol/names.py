"""The names of the ConfigMaps of a resource, and the labels that name their resource."""

from __future__ import annotations

from stoker.domain.errors import InvalidValue
from stoker.domain.intent.intent import SyncResourceKind
from stoker.domain.protocol.changes import CHANGE_MAPS

CR_NAME_LABEL = "stoker.io/cr-name"
CR_KIND_LABEL = "stoker.io/cr-kind"

_PREFIXES = {SyncResourceKind.STOKER: "stoker", SyncResourceKind.IGNITION_SYNC: "ignition-sync"}


def metadata_map_name(door: SyncResourceKind, resource: str) -> str:
    """Return the name of the ConfigMap with the controller's instructions to the agents of a resource."""
    return f"{_PREFIXES[door]}-metadata-{resource}"


def status_map_name(door: SyncResourceKind, resource: str, shard: int = 0) -> str:
    """Return the name of a status ConfigMap.

    The first twenty agents report to the main ConfigMap (shard 0), the others to shards from 1 on.

    The number is in the middle of the name: at the end, the shard of one resource could have
    the name of the main ConfigMap of another resource, such as `line-1`.
    """
    if shard < 0:
        raise InvalidValue(f"a status map has no shard {shard}")
    return (
        f"{_PREFIXES[door]}-statusshard-{shard}-{resource}"
        if shard
        else f"{_PREFIXES[door]}-status-{resource}"
    )


def changes_map_name(door: SyncResourceKind, resource: str, number: int) -> str:
    """Return the name of a ConfigMap with change sets; there are eight, numbered in the middle too."""
    if not 0 <= number < CHANGE_MAPS:
        raise InvalidValue(f"there is no changes map {number}")
    return f"{_PREFIXES[door]}-changes-{number}-{resource}"


def resource_labels(door: SyncResourceKind, resource: str) -> dict[str, str]:
    return {CR_NAME_LABEL: resource, CR_KIND_LABEL: str(door)}
