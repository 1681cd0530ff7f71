"""One object of every kind of the preset, with fields that a careless mirror loses, and what must hold.

    trip = PresetTrip(cluster, namespace)
    trip.make()                                      all of them exist
    …                                                the writer under test writes
    trip.check_at_rest(folder)                       nothing of what was written would change the cluster
    trip.check_return(folder)                        deleted, applied from the files: what it was before

Kinds outside namespaces get names with the namespace in them, so that tests can share a
control plane.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from stoker.reverser.manifest.sanitize import sanitize
from stoker.reverser.selection.preset import PRESET
from stoker_testkit.cluster.cluster_access import ClusterAccess
from stoker_testkit.wait_until import eventually

SECONDS = 30.0
_LABELS = {"app": "web", "on": "yes", "number": "12"}
_TEXT = "first: line\n  second\n\nlast without end"


def preset_objects(namespace: str) -> list[dict[str, Any]]:
    """Valid manifests of all twenty kinds."""
    return [
        *_workloads(namespace),
        *_around(namespace),
        *_configuration(namespace),
        *_cluster_wide(namespace),
    ]


def _object(api: str, kind: str, namespace: str, name: str, **fields: Any) -> dict[str, Any]:
    metadata: dict[str, Any] = {
        "name": name,
        "labels": _LABELS,
        "annotations": {"note": _TEXT, "example.test/empty": ""},
    }
    if namespace:
        metadata["namespace"] = namespace
    return {"apiVersion": api, "kind": kind, "metadata": metadata, **fields}


def _pods() -> dict[str, Any]:
    container = {
        "name": "web",
        "image": "registry.test/web:1.0",
        "args": ["--flag=no", "y", "0o14", "1e3"],
        "env": [
            {"name": "PLAIN", "value": "true"},
            {"name": "FROM", "valueFrom": {"secretKeyRef": {"name": "login", "key": "password"}}},
        ],
        "ports": [{"containerPort": 8080, "name": "http"}],
        "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"memory": "128Mi"}},
        "readinessProbe": {"httpGet": {"path": "/ready", "port": "http"}, "periodSeconds": 3},
        "volumeMounts": [{"name": "settings", "mountPath": "/etc/web"}],
    }
    spec = {
        "containers": [container],
        "serviceAccountName": "web",
        "volumes": [{"name": "settings", "configMap": {"name": "settings", "defaultMode": 288}}],
        "nodeSelector": {"kubernetes.io/os": "linux"},
        "tolerations": [{"key": "edge", "operator": "Exists", "effect": "NoSchedule"}],
    }
    return {"metadata": {"labels": {"app": "web"}}, "spec": spec}


def _workloads(namespace: str) -> list[dict[str, Any]]:
    selector = {"matchLabels": {"app": "web"}}
    claim = {
        "metadata": {"name": "data"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "volumeMode": "Filesystem",
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }
    rolling = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": 0}}
    return [
        _object(
            "apps/v1", "Deployment", namespace, "web",
            spec={"replicas": 0, "selector": selector, "template": _pods(), "strategy": rolling},
        ),
        _object(
            "apps/v1", "StatefulSet", namespace, "db",
            spec={
                "serviceName": "db", "selector": selector, "template": _pods(),
                "volumeClaimTemplates": [claim], "podManagementPolicy": "Parallel",
            },
        ),
        _object("apps/v1", "DaemonSet", namespace, "probe", spec={"selector": selector, "template": _pods()}),
        _object(
            "policy/v1", "PodDisruptionBudget", namespace, "web",
            spec={"maxUnavailable": "50%", "selector": selector, "unhealthyPodEvictionPolicy": "AlwaysAllow"},
        ),
    ]  # fmt: skip


def _around(namespace: str) -> list[dict[str, Any]]:
    backend = {"service": {"name": "web", "port": {"name": "http"}}}
    paths = [{"path": "/", "pathType": "Prefix", "backend": backend}]
    return [
        _object(
            "v1", "Service", namespace, "web",
            spec={
                "selector": {"app": "web"}, "sessionAffinity": "ClientIP", "internalTrafficPolicy": "Local",
                "ports": [{"name": "http", "port": 80, "targetPort": "http"}],
            },
        ),
        _object("v1", "Service", namespace, "db", spec={"clusterIP": "None", "selector": {"app": "db"}}),
        _object(
            "networking.k8s.io/v1", "Ingress", namespace, "web",
            spec={"ingressClassName": "edge", "rules": [{"host": "a.test", "http": {"paths": paths}}]},
        ),
        _object(
            "networking.k8s.io/v1", "NetworkPolicy", namespace, "web",
            spec={"podSelector": {}, "policyTypes": ["Ingress", "Egress"], "ingress": [{}]},
        ),
    ]  # fmt: skip


def _configuration(namespace: str) -> list[dict[str, Any]]:
    role = [
        {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["on"], "verbs": ["get", "list"]}
    ]
    rbac = "rbac.authorization.k8s.io/v1"
    return [
        _object(rbac, "Role", namespace, "reader", rules=role),
        _object(
            rbac, "RoleBinding", namespace, "readers:all",
            roleRef={"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"},
            subjects=[{"kind": "User", "name": "alice", "apiGroup": "rbac.authorization.k8s.io"}],
        ),
        _object(
            "v1", "ConfigMap", namespace, "settings", immutable=True,
            data={"a.yaml": _TEXT, "no": "no", "time": "12:30:45", "null": "null", "empty": ""},
            binaryData={"raw": "AAECAwQ="},
        ),
        _object(
            "v1", "Secret", namespace, "login", type="kubernetes.io/basic-auth", immutable=True,
            data={"username": "YWRtaW4=", "password": "aHVudGVyMg=="},
        ),
        _object(
            "v1", "ServiceAccount", namespace, "web",
            automountServiceAccountToken=False, imagePullSecrets=[{"name": "registry"}],
        ),
        _object(
            "v1", "ResourceQuota", namespace, "small", spec={"hard": {"requests.cpu": "20", "pods": "1k"}}
        ),
        _object(
            "v1", "LimitRange", namespace, "small",
            spec={"limits": [{"type": "Container", "default": {"memory": "256Mi"}, "max": {"cpu": "2"}}]},
        ),
    ]  # fmt: skip


def _cluster_wide(namespace: str) -> list[dict[str, Any]]:
    rbac = "rbac.authorization.k8s.io/v1"
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": f"{namespace}:all"}
    group = f"{namespace}.example.test"
    schema = {
        "type": "object",
        "properties": {"spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
    }
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "additionalPrinterColumns": [{"name": "On", "type": "string", "jsonPath": ".spec.on"}],
    }
    names = {"kind": "Widget", "plural": "widgets", "singular": "widget", "listKind": "WidgetList"}
    return [
        _object(
            rbac, "ClusterRole", "", f"{namespace}:all",
            aggregationRule={"clusterRoleSelectors": [{"matchLabels": {"aggregate": namespace}}]}, rules=None,
        ),
        _object(
            rbac, "ClusterRoleBinding", "", f"{namespace}:all",
            roleRef=role,
            subjects=[{"kind": "ServiceAccount", "name": "web", "namespace": namespace}],
        ),
        _object(
            "scheduling.k8s.io/v1", "PriorityClass", "", f"{namespace}-high",
            value=1000, preemptionPolicy="Never", description="for the few", globalDefault=False,
        ),
        _object(
            "apiextensions.k8s.io/v1", "CustomResourceDefinition", "", f"widgets.{group}",
            spec={"group": group, "scope": "Namespaced", "names": names, "versions": [version]},
        ),
        _object(
            "apiregistration.k8s.io/v1", "APIService", "", f"v1.local.{group}",
            spec={
                "group": f"local.{group}", "version": "v1", "groupPriorityMinimum": 10, "versionPriority": 10,
            },
        ),
        _object(
            "storage.k8s.io/v1", "StorageClass", "", f"{namespace}-fast",
            provisioner="disk.example.test", parameters={"type": "ssd"}, reclaimPolicy="Retain",
            volumeBindingMode="WaitForFirstConsumer", allowVolumeExpansion=True, mountOptions=["discard"],
        ),
    ]  # fmt: skip


@dataclass
class PresetTrip:
    """The objects in a real cluster, and the ways that they must survive."""

    cluster: ClusterAccess
    namespace: str
    before: dict[str, dict[str, Any]] = field(default_factory=dict)
    """The state of each object when all had been made, by its path in the API."""

    def make(self) -> None:
        """Create them all.

        Not by `kubectl apply` as of old: where it has left its annotation last-applied, kubectl writes
        that one anew whenever something is applied, and the generation of a Deployment counts annotations.
        """
        objects = preset_objects(self.namespace)
        manifests = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
        self.cluster.kubectl("create", "-f", "-", stdin=manifests)
        for path in map(path_of, objects):
            eventually(partial(self._is_settled, path), SECONDS, f"{path} settled")
            self.before[path] = self.get(path)

    def check_at_rest(self, folder: Path) -> None:
        """`kubectl diff` finds nothing, and a server-side apply leaves every generation as it was."""
        done = self.cluster.kubectl("diff", "--recursive", "-f", str(folder), check=False)
        if done.returncode:
            raise AssertionError(f"what was written differs from the cluster:\n{done.stdout}{done.stderr}")
        self.apply(folder)
        generations = {path: _generation(self.get(path)) for path in self.before}
        moved = [path for path, before in self.before.items() if generations[path] != _generation(before)]
        if moved:
            raise AssertionError(f"applying what was written changes {moved}")

    def check_return(self, folder: Path) -> None:
        """Deleted from the cluster and applied from the files, each is what it was."""
        for path in self.before:
            self._ask("DELETE", path, 200)
        for path in self.before:
            eventually(partial(self._is_gone, path), SECONDS, f"{path} gone")
        self.apply(folder)
        for path in self.before:
            eventually(partial(self._is_as_before, path), SECONDS, f"{path} as it was")

    def apply(self, folder: Path) -> None:
        self.cluster.kubectl("apply", "--server-side", "--force-conflicts", "--recursive", "-f", str(folder))

    def get(self, path: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self._ask("GET", path, 200))
        return found

    def _is_settled(self, path: str) -> bool:
        """Whether the server's own controllers have had their hands on it."""
        conditions = (self.get(path).get("status") or {}).get("conditions") or ()
        wanted = {"CustomResourceDefinition": "Established", "APIService": "Available"}
        kind = self.get(path)["kind"]
        return kind not in wanted or any(
            (each["type"], each["status"]) == (wanted[kind], "True") for each in conditions
        )

    def _is_gone(self, path: str) -> bool:
        return self.cluster.request("GET", path).status == 404

    def _is_as_before(self, path: str) -> bool:
        return sanitize(self.get(path)) == sanitize(self.before[path])

    def _ask(self, method: str, path: str, status: int) -> bytes:
        answer = self.cluster.request(method, path)
        if answer.status != status:
            raise AssertionError(f"{method} {path}: {answer.status} {answer.body.decode(errors='replace')}")
        return answer.body


def path_of(obj: Mapping[str, Any]) -> str:
    """Its path in the API."""
    api, head = str(obj["apiVersion"]), obj["metadata"]
    group = api.rpartition("/")[0]
    root = f"/apis/{api}" if group else f"/api/{api}"
    within = f"/namespaces/{head['namespace']}" if "namespace" in head else ""
    return f"{root}{within}/{_plural(group, str(obj['kind']).lower())}/{head['name']}"


def _plural(group: str, kind: str) -> str:
    for each in PRESET:
        if each.group == group and each.resource in (f"{kind}s", f"{kind}es", f"{kind[:-1]}ies"):
            return each.resource
    raise AssertionError(f"{kind} of group {group!r} is no kind of the preset")


def _generation(obj: Mapping[str, Any]) -> int | None:
    generation: int | None = obj["metadata"].get("generation")
    return generation
