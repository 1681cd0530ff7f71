"""Reads the objects to migrate from a cluster or from a file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from stoker.api.manifests.yaml import load_documents
from stoker.cli.common.in_cluster import ClusterResourceOptions
from stoker.cli.common.manifest_files import read_bounded
from stoker.cli.migrate.gateway_sync import from_gateway_sync
from stoker.cli.migrate.git_sync import from_git_sync, is_git_sync
from stoker.cli.migrate.result import MigrationResult
from stoker.domain.errors import InvalidValue
from stoker.kube.client.resources import CONFIG_MAPS, ApiResource

GATEWAY_SYNCS = ApiResource("stoker.io", "v1alpha1", "gatewaysyncs", "GatewaySync", namespaced=True)


class _InputConfigMap(msgspec.Struct, frozen=True):
    data: dict[str, str] = msgspec.field(default_factory=dict)


async def from_config_map(place: ClusterResourceOptions, name: str | None) -> MigrationResult:
    async with place.client() as client:
        found = await client.get(CONFIG_MAPS, place.name, place.namespace, into=_InputConfigMap)
    return from_git_sync(found.data, name or place.name, place.namespace)


async def from_gateway_sync_kind(place: ClusterResourceOptions) -> MigrationResult:
    async with place.client() as client:
        found = await client.get(GATEWAY_SYNCS, place.name, place.namespace, into=dict[str, Any])
    return from_gateway_sync(found)


def from_file(file: str, namespace: str, name: str | None) -> list[MigrationResult]:
    """Migrate all ConfigMaps of git-sync and all GatewaySyncs of a file; other objects are ignored."""
    found = [one for document in load_documents(read_bounded(file)) for one in _objects(document)]
    syncs = [one for one in found if one.get("kind") == "GatewaySync"]
    maps = [one for one in found if one.get("kind") == "ConfigMap"]
    of_git_sync = [one for one in maps if is_git_sync(_config_map_settings(one))]
    if not syncs and not maps:
        raise InvalidValue(f"{file} holds neither a ConfigMap nor a GatewaySync")
    if name is not None and (syncs or len(of_git_sync) > 1):
        raise InvalidValue("--name applies to one ConfigMap of git-sync, but the file has several resources")
    chosen = of_git_sync or ([] if syncs else maps[:1])  # converting it raises with what it lacks
    return [from_gateway_sync(one) for one in syncs] + [
        _migrate_config_map(one, namespace, name) for one in chosen
    ]


def manifests_text(made: Sequence[MigrationResult]) -> str:
    """One file, with the remarks on each result in front of it."""
    return "---\n".join(one.text() for one in made)


def _objects(document: object) -> Iterator[dict[str, Any]]:
    """The object, or the items of a list, which is what `kubectl get` prints for several objects."""
    if not isinstance(document, dict):
        return
    items = document.get("items")
    if str(document.get("kind", "")).endswith("List") and isinstance(items, list):
        for one in items:
            yield from _objects(one)
    else:
        yield document


def _config_map_settings(document: dict[str, Any]) -> dict[str, str]:
    data = document.get("data") or {}
    if not isinstance(data, dict):
        raise InvalidValue("data of the ConfigMap is not an object")
    return {str(key): str(value) for key, value in data.items()}


def _migrate_config_map(document: dict[str, Any], namespace: str, name: str | None) -> MigrationResult:
    metadata = document.get("metadata") or {}
    if not isinstance(metadata, dict):
        raise InvalidValue("metadata of the ConfigMap is not an object")
    called = name or str(metadata.get("name", ""))
    return from_git_sync(_config_map_settings(document), called, str(metadata.get("namespace") or namespace))
