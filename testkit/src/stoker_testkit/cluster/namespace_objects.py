"""The objects of one namespace, asked for and changed by plain requests of the administrator.

Past every client of ours: what a test sees here is what the API server has.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from stoker.domain.errors import StokerError
from stoker_testkit.cluster.cluster_access import ApiAnswer, ClusterAccess

_PLACES = {
    "Stoker": ("/apis/stoker.io/v1alpha1", "stokers"),
    "SyncProfile": ("/apis/stoker.io/v1alpha1", "syncprofiles"),
    "IgnitionSync": ("/apis/sync.ignition.io/v1alpha1", "ignitionsyncs"),
    "IgnitionSyncBase": ("/apis/sync.ignition.io/v1alpha1", "ignitionsyncbases"),
    "ConfigMap": ("/api/v1", "configmaps"),
    "Secret": ("/api/v1", "secrets"),
    "Pod": ("/api/v1", "pods"),
    "Event": ("/api/v1", "events"),
    "ServiceAccount": ("/api/v1", "serviceaccounts"),
    "PersistentVolumeClaim": ("/api/v1", "persistentvolumeclaims"),
    "Deployment": ("/apis/apps/v1", "deployments"),
    "Role": ("/apis/rbac.authorization.k8s.io/v1", "roles"),
    "RoleBinding": ("/apis/rbac.authorization.k8s.io/v1", "rolebindings"),
    "Lease": ("/apis/coordination.k8s.io/v1", "leases"),
}
_WRITTEN = (
    "Stoker",
    "IgnitionSync",
    "SyncProfile",
    "ConfigMap",
    "Role",
    "RoleBinding",
    "Secret",
    "Pod",
    "Event",
    "PersistentVolumeClaim",
)


@dataclass
class PlainObjects:
    """One namespace."""

    cluster: ClusterAccess
    namespace: str

    def get(self, kind: str, name: str) -> dict[str, Any]:
        """An object; nothing where there is none."""
        answer = self.cluster.request("GET", self.path_of(kind, name))
        return {} if answer.status == 404 else require(answer, 200)

    def listed(self, kind: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = require(self.cluster.request("GET", self.path_of(kind)), 200)["items"]
        return found

    def delete(self, kind: str, name: str) -> None:
        require(self.cluster.request("DELETE", self.path_of(kind, name)), 200, 202)

    def secret(self, name: str, **data: str) -> None:
        body = {"metadata": {"name": name, "namespace": self.namespace}, "stringData": data}
        self.post("/api/v1", "secrets", body)

    def events(self) -> list[tuple[str, str, str]]:
        """Type, reason and message of all Events."""
        return [(one["type"], one["reason"], one["message"]) for one in self.listed("Event")]

    def versions(self) -> dict[str, str]:
        """The resourceVersion of everything in the namespace that a controller could write."""
        return {
            f"{kind}/{one['metadata']['name']}": one["metadata"]["resourceVersion"]
            for kind in _WRITTEN
            for one in self.listed(kind)
        }

    def path_of(self, kind: str, name: str = "") -> str:
        group, plural = _PLACES[kind]
        return f"{group}/namespaces/{self.namespace}/{plural}" + (f"/{name}" if name else "")

    def post(self, group: str, plural: str, body: object) -> dict[str, Any]:
        return require(
            self.cluster.request("POST", f"{group}/namespaces/{self.namespace}/{plural}", body), 201
        )

    def patch(self, path: str, body: object) -> dict[str, Any]:
        kind = "application/merge-patch+json"
        return require(self.cluster.request("PATCH", path, body, content_type=kind), 200)


def condition_in(status: Mapping[str, Any], type_: str) -> tuple[str, str, str]:
    """Status, reason and message of a condition; empty where there is none of that type."""
    for one in status.get("conditions", []):
        if one["type"] == type_:
            return one["status"], one["reason"], one["message"]
    return "", "", ""


def require(answer: ApiAnswer, *allowed: int) -> dict[str, Any]:
    """The response, if it has one of these status codes."""
    if answer.status not in allowed:
        raise StokerError(
            f"the API server answered {answer.status}: {answer.body.decode(errors='replace')[:500]}"
        )
    found: Any = answer.json()
    return dict(found)
