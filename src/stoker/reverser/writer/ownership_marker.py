"""The ownership marker of a destination: which installation owns a folder.

    clusters/prod/.configbutler/owner.yaml

The first commit of a destination writes the marker; another installation's marker is never overwritten. A
cluster is identified by the uid of its namespace kube-system, an installation in it by namespace and name.
The replica that wrote the marker is recorded for people and decides nothing.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from stoker.reverser.manifest.render import render_object
from stoker.reverser.writer.commit_message import CommitOrigin

MARKER = ".configbutler/owner.yaml"
MAX_BYTES = 16 << 10

_FIELDS = ("clusterUID", "controllerNS", "controllerName", "instanceID")


class FolderOwnership(Enum):
    """The owner of a folder."""

    FREE = "free"
    OURS = "ours"
    THEIRS = "theirs"


class OwnershipMarker(NamedTuple):
    """The owner in a marker, and a description of it if it is another installation."""

    standing: FolderOwnership
    owner: str = ""


def marker_path(base: str) -> str:
    return f"{base}/{MARKER}" if base else MARKER


def marker_content(origin: CommitOrigin) -> bytes:
    """Return the content of this installation's marker."""
    return render_object(dict(zip(_FIELDS, origin, strict=True)))


def check_marker(content: bytes | None, origin: CommitOrigin) -> OwnershipMarker:
    """Return the owner of a marker; an unreadable marker belongs to another installation."""
    if content is None:
        return OwnershipMarker(FolderOwnership.FREE)
    said = _marker_fields(content)
    if said is None:
        return OwnershipMarker(FolderOwnership.THEIRS, "an owner whose marker cannot be read")
    if said[:3] == origin[:3]:
        return OwnershipMarker(FolderOwnership.OURS)
    cluster, namespace, name = (text or "unknown" for text in said[:3])
    return OwnershipMarker(FolderOwnership.THEIRS, f"installation {namespace}/{name} of cluster {cluster}")


def marker_cluster(content: bytes) -> str | None:
    """Return the cluster uid in a marker; None if the marker cannot be read."""
    said = _marker_fields(content)
    return said[0] if said is not None else None


def _marker_fields(content: bytes) -> tuple[str, ...] | None:
    """Parse a marker line by line, because every marker is written that way; None if it does not parse."""
    if len(content) > MAX_BYTES:
        return None
    try:
        lines = content.decode().splitlines()
    except UnicodeDecodeError:
        return None
    values: dict[str, str] = {}
    for line in lines:
        if not line.strip() or line.startswith(("#", "---")):
            continue
        key, colon, value = line.partition(":")
        if not colon or key != key.strip():
            return None
        values[key] = value.strip().strip("\"'")[:256]
    return tuple(values.get(field, "") for field in _FIELDS) if "clusterUID" in values else None
