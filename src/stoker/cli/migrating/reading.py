"""What is to be migrated, read from a cluster or from a file."""

from __future__ import annotations

from typing import Any

import msgspec

from stoker.api.loading import load_documents
from stoker.cli.in_cluster import Place
from stoker.cli.manifest_files import content_of
from stoker.cli.migrating.gateway_sync import from_gateway_sync
from stoker.cli.migrating.git_sync import from_git_sync
from stoker.cli.migrating.migrated import Migrated
from stoker.domain.errors import InvalidValue
from stoker.kube.resources import CONFIG_MAPS, Resource

GATEWAY_SYNCS = Resource("stoker.io", "v1alpha1", "gatewaysyncs", "GatewaySync", namespaced=True)


class _Map(msgspec.Struct, frozen=True):
    data: dict[str, str] = msgspec.field(default_factory=dict)


async def from_map(place: Place, name: str | None) -> Migrated:
    async with place.client() as client:
        found = await client.get(CONFIG_MAPS, place.name, place.namespace, into=_Map)
    return from_git_sync(found.data, name or place.name, place.namespace)


async def from_kind(place: Place) -> Migrated:
    async with place.client() as client:
        found = await client.get(GATEWAY_SYNCS, place.name, place.namespace, into=dict[str, Any])
    return from_gateway_sync(found)


def from_file(file: str, namespace: str, name: str | None) -> Migrated:
    """The first document that is a ConfigMap or a GatewaySync."""
    for document in load_documents(content_of(file)):
        if not isinstance(document, dict):
            continue
        if document.get("kind") == "GatewaySync":
            return from_gateway_sync(document)
        if document.get("kind") == "ConfigMap":
            return _of_map(document, namespace, name)
    raise InvalidValue(f"{file} holds neither a ConfigMap nor a GatewaySync")


def _of_map(document: dict[str, Any], namespace: str, name: str | None) -> Migrated:
    metadata, data = document.get("metadata") or {}, document.get("data") or {}
    if not isinstance(metadata, dict) or not isinstance(data, dict):
        raise InvalidValue("metadata or data of the ConfigMap is no object")
    settings = {str(key): str(value) for key, value in data.items()}
    called = name or str(metadata.get("name", ""))
    return from_git_sync(settings, called, str(metadata.get("namespace") or namespace))
