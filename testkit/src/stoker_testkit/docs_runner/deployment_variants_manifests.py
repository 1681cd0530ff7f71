"""Manifests of `deployment_variants_environment`: gateways as StatefulSets, their resource, and a volume."""

from __future__ import annotations

from typing import Any

from stoker_testkit.docs_runner.cluster_manifests import (
    GATEWAYS,
    NAMESPACE,
    PROFILE,
    RESOURCE,
    VERSION,
    stoker,
)
from stoker_testkit.environments.operator_environment import DATA, GATEWAY, IGNITION

BOTTLING, CLASS = "bottling", "nfs-client"
CELLAR = "cellar"
"""A namespace that belongs to another shard of two than `plant`."""


def shared_storage(address: str) -> dict[str, Any]:
    """A storage class with one volume, and a resource whose gateways are StatefulSets."""
    login = {"token": {"secretRef": {"name": "git-credentials", "key": "token"}}}
    items = [
        _object("storage.k8s.io/v1", "StorageClass", CLASS, "", provisioner="plant.example/nfs"),
        _object("v1", "PersistentVolume", "share", "", spec=_volume()),
        bottling({"repo": address, "ref": "main", "auth": login}),
        *(stateful_set(name, {"service-path": f"services/{name}"}) for name in GATEWAYS),
    ]
    return _list(items)


def bottling(git: dict[str, Any], **more: object) -> dict[str, Any]:
    """The resource of the stages with an IgnitionSync; a push arrives within a second."""
    spec = {"git": git, "gateway": GATEWAY, "polling": {"interval": "1s"}, **more}
    return _object("sync.ignition.io/v1alpha1", "IgnitionSync", BOTTLING, NAMESPACE, spec=spec)


def second_site(address: str) -> dict[str, Any]:
    """A resource in the namespace of another shard."""
    return _object(VERSION, "Stoker", RESOURCE, CELLAR, spec=stoker(address))


def registry_gateways() -> dict[str, Any]:
    """Gateways that join a resource which another user has made."""
    annotations = {"cr-name": RESOURCE, "sync-profile": PROFILE}
    return _list([stateful_set(name, {**annotations, "gateway-name": name}) for name in GATEWAYS])


def stateful_set(name: str, annotations: dict[str, str]) -> dict[str, Any]:
    """A gateway as its chart makes it: its data outlives the pod."""
    labels = {"app": name}
    chosen = {"inject": "true", **annotations}
    container = {
        "name": "gateway",
        "image": IGNITION,
        "ports": [{"name": "http", "containerPort": 8088}],
        "volumeMounts": [{"name": "data", "mountPath": DATA}],
    }
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    spec = {
        "serviceName": name,
        "selector": {"matchLabels": labels},
        "template": {
            "metadata": {"labels": labels, "annotations": {f"stoker.io/{k}": v for k, v in chosen.items()}},
            "spec": {"terminationGracePeriodSeconds": 20, "containers": [container]},
        },
        "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": claim}],
    }
    return _object("apps/v1", "StatefulSet", name, NAMESPACE, spec=spec)


def _volume() -> dict[str, Any]:
    return {
        "storageClassName": CLASS,
        "capacity": {"storage": "5Gi"},
        "accessModes": ["ReadWriteMany"],
        "persistentVolumeReclaimPolicy": "Retain",
        "nfs": {"server": "nfs.plant.example", "path": "/share"},
    }


def _list(items: list[dict[str, Any]]) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "List", "items": items}


def _object(version: str, kind: str, name: str, namespace: str, **fields: object) -> dict[str, Any]:
    head = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": version, "kind": kind, "metadata": head, **fields}
