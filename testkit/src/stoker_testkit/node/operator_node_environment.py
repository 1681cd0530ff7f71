"""A namespace whose gateways and agents are containers of a real node."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from stoker_testkit.environments.operator_environment import AGENT, DATA, GatewaySite
from stoker_testkit.gateway.simulated_gateway import KEY
from stoker_testkit.node import image_archives
from stoker_testkit.node.node_release import NodeRelease

GATEWAY_USER = 2003
"""The user id of the vendor's image; our image has no entry for it in /etc/passwd."""
_HOPELESS = ("ErrImageNeverPull", "InvalidImageName", "CreateContainerConfigError", "CreateContainerError")


@dataclass
class NodeSite(GatewaySite):
    """One namespace."""

    patience: ClassVar[float] = 180.0  # containers are started by programs that share two cores with them
    release: NodeRelease = field(kw_only=True)

    @classmethod
    def open(cls, release: NodeRelease, namespace: str, folder: Path) -> NodeSite:
        """Make the namespace with the key of its gateways."""
        release.node.plane.create_namespace(namespace)
        site = cls(release.node.plane, namespace, folder, release=release)
        site.secret("ignition-api-key", apiKey=KEY)
        return site

    def container(self) -> dict[str, Any]:
        """The simulated gateway: the product's image with this package in it."""
        return {
            **super().container(),
            "image": image_archives.TEST_GATEWAY,
            "imagePullPolicy": "Never",
            "args": ["testing", "gateway", "--port=8088", f"--data-dir={DATA}", "--key-file=/keys/apiKey"],
            "volumeMounts": [{"name": "data", "mountPath": DATA}, {"name": "keys", "mountPath": "/keys"}],
        }

    def volumes(self) -> list[dict[str, Any]]:
        return [{"name": "keys", "secret": {"secretName": "ignition-api-key"}}]

    def identity(self) -> dict[str, int]:
        return {"runAsUser": GATEWAY_USER, "runAsGroup": GATEWAY_USER, "fsGroup": GATEWAY_USER}

    def file(self, pod: str, path: str) -> str | None:
        """Read on the node, where the kubelet keeps the volume of the pod."""
        uid = str(self.get("Pod", pod).get("metadata", {}).get("uid", ""))
        volumes = self.release.node.folder / "kubelet" / "pods" / uid / "volumes"
        try:
            return (volumes / "kubernetes.io~empty-dir" / "data" / path).read_text()
        except (FileNotFoundError, NotADirectoryError):
            return None

    def crash(self, pod: str) -> None:
        container = str(self.agent(pod)["containerID"]).rpartition("/")[2]
        self.release.node.runtime.kill(container)

    def agent_log(self, pod: str) -> str:
        return self.cluster.kubectl(
            "-n", self.namespace, "logs", pod, f"--container={AGENT}", "--tail=12", check=False
        ).stdout

    def controller_log(self) -> str:
        return self.release.log_tail("controller")

    def check(self) -> None:
        for pod in self.listed("Pod"):
            status = pod.get("status", {})
            for one in (*status.get("initContainerStatuses", ()), *status.get("containerStatuses", ())):
                waiting = one["state"].get("waiting", {})
                name = f"{pod['metadata']['name']}/{one['name']}"
                assert waiting.get("reason") not in _HOPELESS, f"{name}: {waiting}"  # noqa: S101 - it would wait for ever
