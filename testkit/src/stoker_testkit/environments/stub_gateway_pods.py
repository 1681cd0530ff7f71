"""Gateways' pods that are objects and nothing more: a test plays their kubelet and their agent.

The manifests are what the injector leaves; a report is applied as the real agent applies
it, under its own field manager.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from stoker.agent.config_maps import manager_for
from stoker.api.to_intent.pod_facts import PodFacts, gateway_name, status_key
from stoker.domain.intent.intent import SyncResourceKind
from stoker.domain.protocol import (
    AgentMetadata,
    GatewayReport,
    StatusKeyMode,
    SyncState,
    metadata_map_name,
    resource_labels,
    status_map_name,
)
from stoker_testkit.cluster.namespace_objects import PlainObjects, require

AGENT = "stoker-agent"


def gateway_pod(
    name: str,
    namespace: str,
    resource: str,
    *,
    kind: SyncResourceKind = SyncResourceKind.STOKER,
    gateway: str = "",
    account: str = "default",
    injected: bool = True,
    profile: str = "",
    annotations: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """A gateway's pod as the injector leaves it, or as it comes without one."""
    fields = {
        "inject": "true",
        "cr-name": resource,
        "cr-kind": str(kind),
        **({"gateway-name": gateway} if gateway else {}),
        **({"sync-profile": profile} if profile else {"service-path": "services/site"}),
        **(annotations or {}),
    }
    body: dict[str, Any] = {
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": resource_labels(kind, resource) if injected else {},
            "annotations": {f"stoker.io/{key}": value for key, value in fields.items()},
        },
        "spec": {
            "serviceAccountName": account,
            "automountServiceAccountToken": False,
            "containers": [{"name": "gateway", "image": "gateway"}],
        },
    }
    if injected:
        body["spec"]["initContainers"] = [{"name": AGENT, "image": "stoker", "restartPolicy": "Always"}]
    return body


def agent_is(ready: bool, *, started: bool = True) -> dict[str, Any]:
    """The status of a pod, as far as its kubelet tells of the agent's container."""
    agent = {
        "name": AGENT,
        "ready": ready,
        "started": started,
        "restartCount": 0,
        "image": "stoker",
        "imageID": "",
    }
    return {"status": {"phase": "Running" if ready else "Pending", "initContainerStatuses": [agent]}}


def report_map(kind: SyncResourceKind, resource: str, namespace: str, name: str, key: str, text: str) -> Any:
    """An agent's apply: its own key of a status ConfigMap."""
    meta = {"name": name, "namespace": namespace, "labels": resource_labels(kind, resource)}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {key: text}}


@dataclass
class StubGatewayPod:
    """One gateway's pod."""

    objects: PlainObjects
    name: str
    resource: str
    kind: SyncResourceKind
    gateway: str
    labels: dict[str, str]

    def is_ready(self, ready: bool, *, started: bool = True) -> None:
        """The kubelet's status of the agent's container."""
        path = f"{self.objects.path_of('Pod', self.name)}/status"
        self.objects.patch(path, agent_is(ready, started=started))

    def report(self, commit: str = "", status: SyncState = SyncState.SYNCED, **more: Any) -> None:
        """Its agent's apply: to the ConfigMap and under the key that its metadata names."""
        metadata = self._metadata()
        by_pod = metadata is not None and metadata.status_key_mode is StatusKeyMode.POD
        facts = PodFacts(
            self.name, self.objects.namespace, self.labels, {"stoker.io/gateway-name": self.gateway}
        )
        key = status_key(self.name if by_pod else gateway_name(facts))
        shard = metadata.status_shards.get(key, 0) if metadata is not None else 0
        fields: dict[str, Any] = {
            "ref": str(metadata.ref) if metadata is not None and metadata.ref else "",
            "commit": commit,
            "synced_commit": commit if status is SyncState.SYNCED else "",
            "synced_ref": str(metadata.ref) if metadata is not None and metadata.ref else "",
            "files_changed": 3,
            **more,
        }
        report = GatewayReport(
            gateway=self.gateway,
            pod_name=self.name,
            namespace=self.objects.namespace,
            sync_status=status,
            **fields,
        )
        self.apply(status_map_name(self.kind, self.resource, shard), key, report.json())

    def apply(self, name: str, key: str, text: str) -> None:
        """Write a key of a map, whatever it holds."""
        body = report_map(self.kind, self.resource, self.objects.namespace, name, key, text)
        manager = f"fieldManager={manager_for(self.name)}&force=true"
        answer = self.objects.cluster.request(
            "PATCH",
            f"{self.objects.path_of('ConfigMap', name)}?{manager}",
            body,
            content_type="application/apply-patch+yaml",
        )
        require(answer, 200, 201)

    def delete(self) -> None:
        path = f"{self.objects.path_of('Pod', self.name)}?gracePeriodSeconds=0"
        require(self.objects.cluster.request("DELETE", path), 200)

    def _metadata(self) -> AgentMetadata | None:
        data = self.objects.get("ConfigMap", metadata_map_name(self.kind, self.resource)).get("data")
        return None if data is None else AgentMetadata.parse(data)
