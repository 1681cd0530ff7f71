"""REST addresses of our own kinds."""

from __future__ import annotations

from stoker.api.registry import CustomResourceKind
from stoker.kube.client.resources import ApiResource


def rest_resource(kind: CustomResourceKind) -> ApiResource:
    return ApiResource(kind.group, kind.version, kind.plural, kind.name, kind.namespaced)
