"""Files in git as parsed values: whether one says the same as ours, and which object it describes. Pure.

Asked before a file is overwritten or deleted that this process did not write. People add comments and
reorder keys; the blob id then differs and the values do not. A file comes from a repository that others
can write, so it is read by the bounded loader: what is too large, too deep, repeats itself through aliases
or holds several documents is no manifest of ours.
"""

from __future__ import annotations

from typing import Any

from stoker.api.manifests.yaml import load_documents
from stoker.domain.errors import InvalidValue
from stoker.reverser.manifest.path import ManifestKey
from stoker.reverser.manifest.render import render_object


def has_same_values(theirs: bytes, ours: bytes) -> bool:
    """Whether a file holds the values of one that `render_object` made, whatever its comments and layout."""
    try:
        values = _only_document(theirs)
        return values is not None and render_object(values) == _strip_comments(ours)
    except InvalidValue:
        return False


def describes(content: bytes, key: ManifestKey, kind: str = "") -> bool:
    """Whether a file is a manifest of this object; `kind` is compared where it is known."""
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
    """The only document of a file, if it is a map."""
    documents = load_documents(content)
    first = next(documents, None)
    return first if isinstance(first, dict) and next(documents, None) is None else None


def _strip_comments(ours: bytes) -> bytes:
    """Without the comments that `render_object` puts above an object."""
    while ours.startswith(b"#"):
        ours = ours.partition(b"\n")[2]
    return ours
