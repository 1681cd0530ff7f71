"""The ownership marker of a destination: who says that a folder is theirs, and whether that is us.

    clusters/prod/.configbutler/owner.yaml

It is written together with the first commit of a destination and never over another's.
A cluster is known by the uid of its namespace kube-system, an installation in it by
its namespace and name. Which replica wrote it is told for people and decides nothing.
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
    """Whose the folder is."""

    FREE = "free"
    OURS = "ours"
    THEIRS = "theirs"


class OwnershipMarker(NamedTuple):
    """What the marker says, and the words in which a person is told about another's."""

    standing: FolderOwnership
    owner: str = ""


def marker_path(base: str) -> str:
    return f"{base}/{MARKER}" if base else MARKER


def marker_content(origin: CommitOrigin) -> bytes:
    """The content of our own marker."""
    return render_object(dict(zip(_FIELDS, origin, strict=True)))


def check_marker(content: bytes | None, origin: CommitOrigin) -> OwnershipMarker:
    """Whose marker it is; what cannot be read is somebody else's."""
    if content is None:
        return OwnershipMarker(FolderOwnership.FREE)
    said = _marker_fields(content)
    if said is None:
        return OwnershipMarker(FolderOwnership.THEIRS, "somebody whose marker cannot be read")
    if said[:3] == origin[:3]:
        return OwnershipMarker(FolderOwnership.OURS)
    cluster, namespace, name = (text or "unknown" for text in said[:3])
    return OwnershipMarker(FolderOwnership.THEIRS, f"installation {namespace}/{name} of cluster {cluster}")


def marker_cluster(content: bytes) -> str | None:
    """The uid of the cluster that a marker names; None where it cannot be read."""
    said = _marker_fields(content)
    return said[0] if said is not None else None


def _marker_fields(content: bytes) -> tuple[str, ...] | None:
    """The values of a marker; it is read line by line, because that is how every marker is written."""
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
