"""Reduce an object to its desired state: remove the fields that the API server maintains.

The first step after an object was read. It removes listed fields and never picks fields to keep: tools that
pick lose `immutable`, `aggregationRule` or `clusterIP: None`. Every field that is not in the lists below is
written, whatever the kind. The given object is not modified; the result shares its inner values and must not
be modified either.
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
        "ownerReferences",  # with a dead owner's uid the garbage collector deletes the re-created object
    }
)
# The annotation holds the whole object as it was last applied, including the plain data of a Secret.
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def sanitize(obj: dict[str, Any]) -> dict[str, Any]:
    """Return the object without its status and without the fields that only this cluster assigned."""
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
