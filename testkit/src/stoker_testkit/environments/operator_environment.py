"""A namespace in a cluster with the whole operator: gateways as users write them, and what is seen.

Who runs the pods, and how a test looks into them, is the business of those who derive from it:
`operator_process_environment` with processes, `operator_node_environment` with containers.
"""

from __future__ import annotations

import json
import os
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

from stoker.domain.protocol import GatewayReport
from stoker.domain.refs import CommitId
from stoker_testkit.environments.controller_environment import Site
from stoker_testkit.wait_until import eventually

IGNITION = "inductiveautomation/ignition:8.3"
DATA = "/usr/local/bin/ignition/data"
API_KEY = {"apiKeySecretRef": {"name": "ignition-api-key", "key": "apiKey"}}
GATEWAY: dict[str, object] = {"port": 8088, "tls": False, **API_KEY}
"""The gateway block of a resource whose gateways are test gateways."""
AGENT = "stoker-agent"
PATIENCE = 60.0


@dataclass
class GatewaySite(Site):
    """One namespace; `start` and `stop` of the base are the release's business here."""

    patience: ClassVar[float] = PATIENCE
    """Seconds that something may take."""

    @abstractmethod
    def file(self, pod: str, path: str) -> str | None:
        """The content of a file of a gateway."""

    @abstractmethod
    def crash(self, pod: str) -> None:
        """End the agent of a pod as a crash would."""

    @abstractmethod
    def agent_log(self, pod: str) -> str:
        """The end of what its agent has logged."""

    @abstractmethod
    def controller_log(self) -> str:
        """The end of what the controllers have logged."""

    @abstractmethod
    def check(self) -> None:
        """Raise where a pod cannot run: a test that waits for it would time out."""

    def container(self) -> dict[str, Any]:
        """The container in place of a gateway in its pod."""
        return {
            "name": "gateway",
            "image": IGNITION,
            "ports": [{"name": "http", "containerPort": 8088}],
            "volumeMounts": [{"name": "data", "mountPath": DATA}],
        }

    def identity(self) -> dict[str, int]:
        """The user of a gateway."""
        return {"runAsUser": os.geteuid(), "runAsGroup": os.getegid()}

    def volumes(self) -> list[dict[str, Any]]:
        """The mounts of its pod besides the data."""
        return []

    def agent(self, pod: str) -> dict[str, Any]:
        """The status of a pod's agent, as its node tells it; nothing where there is none."""
        for one in self.get("Pod", pod).get("status", {}).get("initContainerStatuses", ()):
            if one["name"] == AGENT:
                return dict(one)
        return {}

    def kill_agent(self, pod: str) -> None:
        """Let the agent of a pod crash, and wait until it works again."""
        before = self.agent(pod)["restartCount"]
        self.crash(pod)
        eventually(
            lambda: (seen := self.agent(pod))["restartCount"] > before and seen["ready"],
            self.patience,
            lambda: f"the agent of {pod} comes back: {self.agent(pod)}",
            interval=0.1,
        )

    def gateway_pod(self, name: str, **annotations: str) -> None:
        """A gateway's pod that asks for an agent."""
        eventually(self._has_account, self.patience, "the namespace has its account")
        self.post(
            "/api/v1", "pods", {"metadata": {"name": name, **_head({}, annotations)}, "spec": self._spec()}
        )

    def stateful_set(self, name: str, **annotations: str) -> None:
        """The same as the gateway's chart makes it: its data outlives the pod."""
        self._workload("StatefulSet", name, annotations, {"serviceName": name}, claim=True)

    def deployment(self, name: str, replicas: int, **annotations: str) -> None:
        self._workload("Deployment", name, annotations, {"replicas": replicas}, claim=False)

    def scale(self, deployment: str, replicas: int) -> None:
        place = f"/apis/apps/v1/namespaces/{self.namespace}/deployments/{deployment}"
        self.patch(place, {"spec": {"replicas": replicas}})

    def annotate_pod(self, name: str, **annotations: str | None) -> None:
        agent_log = {f"stoker.io/{key.replace('_', '-')}": value for key, value in annotations.items()}
        self.patch(self.path_of("Pod", name), {"metadata": {"annotations": agent_log}})

    def change_secret(self, name: str, **data: str) -> None:
        self.patch(self.path_of("Secret", name), {"stringData": data})

    def delete_pod(self, name: str) -> None:
        """Delete a pod and wait until its node has let it go."""
        self.delete("Pod", name)
        eventually(lambda: not self.get("Pod", name), self.patience, f"pod {name} is gone", interval=0.1)

    def pods(self) -> list[str]:
        """The pods of the namespace that are there to stay."""
        found: Any = self.cluster.request("GET", self.path_of("Pod")).json()
        heads = [one["metadata"] for one in found["items"]]
        return sorted(one["name"] for one in heads if "deletionTimestamp" not in one)

    def until_file(self, pod: str, path: str, content: str) -> None:
        """Wait until a gateway runs and has a file with this content."""
        eventually(
            lambda: self.file(pod, path) == content,
            self.patience,
            lambda: f"{path} of {pod}; it is {self.file(pod, path)!r}\n{self.agent_log(pod)}",
        )

    def reports(self, kind: str, name: str) -> dict[str, GatewayReport]:
        prefix = "ignition-sync" if kind == "IgnitionSync" else "stoker"
        data = self.get("ConfigMap", f"{prefix}-status-{name}").get("data") or {}
        return {key: GatewayReport.parse(text) for key, text in data.items()}

    def until_synced(self, kind: str, name: str, commit: CommitId, count: int) -> None:
        """Wait until the resource says that all of so many gateways have the commit, and have shown it."""
        wanted = f"{count} of {count} gateways synced"

        def done() -> bool:
            self.check()
            status = self.status(kind, name)
            return (
                status.get("lastSyncCommit") == commit
                and self.condition(kind, name, "AllGatewaysSynced")[2] == wanted
                and self.condition(kind, name, "Verified")[0] == "True"
            )

        eventually(
            done,
            self.patience,
            lambda: f"{wanted} to {commit[:8]}:\n{self.describe(kind, name)}",
            interval=0.1,
        )

    def describe(self, kind: str, name: str) -> str:
        """All that may say why something does not come."""
        parts = [
            json.dumps(self.status(kind, name).get("conditions"), indent=1),
            *(f"{key}: {one}" for key, one in self.reports(kind, name).items()),
            *(f"{pod}: {self.agent_log(pod)}" for pod in self.pods()),
            self.controller_log(),
        ]
        return "\n".join(parts)

    def _has_account(self) -> bool:
        return (
            self.cluster.request("GET", f"/api/v1/namespaces/{self.namespace}/serviceaccounts/default").status
            == 200
        )

    def _workload(
        self, kind: str, name: str, annotations: dict[str, str], more: dict[str, object], *, claim: bool
    ) -> None:
        labels = {"app": name}
        spec: dict[str, Any] = {
            "selector": {"matchLabels": labels},
            "template": {"metadata": _head(labels, annotations), "spec": self._spec(claim=claim)},
            **more,
        }
        if claim:
            size = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
            spec["volumeClaimTemplates"] = [{"metadata": {"name": "data"}, "spec": size}]
        self.post("/apis/apps/v1", f"{kind.lower()}s", {"metadata": {"name": name}, "spec": spec})

    def _spec(self, *, claim: bool = False) -> dict[str, Any]:
        spec: dict[str, Any] = {
            "automountServiceAccountToken": False,
            "terminationGracePeriodSeconds": 20,
            "securityContext": self.identity(),
            "containers": [self.container()],
            "volumes": self.volumes(),
        }
        if not claim:
            spec["volumes"].append({"name": "data", "emptyDir": {}})
        return spec


def _head(labels: dict[str, str], annotations: dict[str, str]) -> dict[str, Any]:
    agent_log = {"inject": "true", **{key.replace("_", "-"): value for key, value in annotations.items()}}
    return {
        "labels": labels,
        "annotations": {key if "/" in key else f"stoker.io/{key}": value for key, value in agent_log.items()},
    }
