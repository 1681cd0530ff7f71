"""The objects in the namespace `plant` of an environment: a resource, its profile, and two gateways."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stoker_testkit.environments.operator_environment import DATA, GATEWAY, IGNITION

NAMESPACE, RESOURCE, PROFILE = "plant", "line-1", "line"
GATEWAYS = ("filler", "packer")
VERSION = "stoker.io/v1alpha1"


def stoker(address: str) -> dict[str, Any]:
    """The spec of the resource; a push arrives within a second, which no reader could wait for."""
    login = {"token": {"secretRef": {"name": "git-credentials", "key": "token"}}}
    source = {"repo": address, "ref": "main", "auth": login}
    return {"git": source, "gateway": GATEWAY, "polling": {"interval": "1s"}}


def objects(address: str) -> dict[str, Any]:
    """The manifests of the quick start, with the address of the repository."""
    mapping = {"source": "services/{{.GatewayName}}/projects", "destination": "projects", "required": True}
    items = [
        _object(VERSION, "Stoker", RESOURCE, stoker(address)),
        _object(VERSION, "SyncProfile", PROFILE, {"mappings": [mapping]}),
        *(_pod(name) for name in GATEWAYS),
    ]
    return {"apiVersion": "v1", "kind": "List", "items": items}


def _pod(name: str) -> dict[str, Any]:
    container = {
        "name": "gateway",
        "image": IGNITION,
        "ports": [{"name": "http", "containerPort": 8088}],
        "volumeMounts": [{"name": "data", "mountPath": DATA}],
    }
    volumes = [{"name": "data", "emptyDir": {}}]
    pod = _object("v1", "Pod", name, {"containers": [container], "volumes": volumes})
    annotations = {"inject": "true", "cr-name": RESOURCE, "sync-profile": PROFILE}
    pod["metadata"]["annotations"] = {f"stoker.io/{key}": value for key, value in annotations.items()}
    return pod


def _object(version: str, kind: str, name: str, spec: Mapping[str, object]) -> dict[str, Any]:
    head = {"name": name, "namespace": NAMESPACE}
    return {"apiVersion": version, "kind": kind, "metadata": head, "spec": dict(spec)}
