"""Compare files in git with rendered objects by their parsed values, and identify the object of a file. Pure.

The writer calls it before it overwrites or deletes a file that this process did not write. People add
comments and reorder keys; the blob id then differs although the values are equal. A file comes from a
repository that other people can write, so the bounded loader reads it: a file that is too large, too deep,
expands itself through aliases or holds several documents is not a manifest of the reverser.
"""

from __future__ import annotations

from typing import Any

from stoker.api.manifests.yaml import load_documents
from stoker.domain.errors import InvalidValue
from stoker.reverser.manifest.path import ManifestKey
from stoker.reverser.manifest.render import render_object


def has_same_values(theirs: bytes, ours: bytes) -> bool:
    """Return whether a file holds the values that `render_object` wrote, whatever its comments and layout."""
    try:
        values = _only_document(theirs)
        return values is not None and render_object(values) == _strip_comments(ours)
    except InvalidValue:
        return False


def describes(content: bytes, key: ManifestKey, kind: str = "") -> bool:
    """Return whether a file is a manifest of this object; `kind` is compared if it is known."""
    try:
        values = _only_document(content)
    except InvalidValue:
        return False
    if values is None or values.get("apiVersion") != key.api_version:
        return False
    named, metadata = values.get("kind"), values.get("metadata")
    if not isinstance(named, str) or not named or (kind and named != kind):
        return False
    if not isinstance(metadata, dict):
        return False
    return metadata.get("name") == key.name and (metadata.get("namespace") or "") == key.namespace


def _only_document(content: bytes) -> dict[str, Any] | None:
    """Return the document of a file that holds exactly one mapping; None for any other file."""
    documents = load_documents(content)
    first = next(documents, None)
    return first if isinstance(first, dict) and next(documents, None) is None else None


def _strip_comments(ours: bytes) -> bytes:
    """Return the content without the comments that `render_object` puts above an object."""
    while ours.startswith(b"#"):
        ours = ours.partition(b"\n")[2]
    return ours
