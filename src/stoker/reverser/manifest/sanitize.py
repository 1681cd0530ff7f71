"""What of an object is its desired state: everything but a named list of what the server keeps in it.

The first step after an object was read. It removes and never picks (PEERS: who
picks loses `immutable`, `aggregationRule`, `clusterIP: None`): what is not in the
lists below is written, whatever kind it stands in. The object handed in stays as
it is; what comes out shares its inner values and must not be changed either.
"""

from __future__ import annotations

from typing import Any

_SERVER_FIELDS = frozenset(
    {
        "managedFields",
        "resourceVersion",
        "uid",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "generation",
        "selfLink",
        "ownerReferences",  # a dead owner's uid gets the re-created object collected
    }
)
# It holds all of the object as it was once applied, the data of a Secret in clear among it.
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def sanitize(obj: dict[str, Any]) -> dict[str, Any]:
    """The object without status and without what only this cluster gave it."""
    kept = {key: value for key, value in obj.items() if key != "status"}
    metadata = kept.get("metadata")
    if isinstance(metadata, dict):
        kept["metadata"] = _sanitized_metadata(metadata)
    return kept


def _sanitized_metadata(metadata: dict[str, Any]) -> dict[str, Any]:
    kept = {key: value for key, value in metadata.items() if key not in _SERVER_FIELDS}
    annotations = kept.get("annotations")
    if isinstance(annotations, dict) and LAST_APPLIED in annotations:
        rest = {key: value for key, value in annotations.items() if key != LAST_APPLIED}
        if rest:
            kept["annotations"] = rest
        else:
            del kept["annotations"]
    return kept
