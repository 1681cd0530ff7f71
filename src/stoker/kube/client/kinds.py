"""Where the API server keeps objects of our own kinds."""

from __future__ import annotations

from stoker.api.registry import Kind
from stoker.kube.client.resources import Resource


def rest(kind: Kind) -> Resource:
    return Resource(kind.group, kind.version, kind.plural, kind.name, kind.namespaced)
