"""A cluster of one real node: control plane, scheduler, containerd, kubelet and kube-proxy.

Pods are containers here, Services have addresses that work, NetworkPolicies are heeded, limits are
kept by cgroups. To be started inside `stoker_testkit.node.unshare`, which takes away what a node
leaves behind.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from stoker_testkit.assets import ensure_binaries as assets
from stoker_testkit.cluster.control_plane import ControlPlane
from stoker_testkit.node import cni_network, image_archives, network_policy_enforcer
from stoker_testkit.node.containerd import Containerd
from stoker_testkit.processes import Process, free_ports
from stoker_testkit.stoppable import Stoppable
from stoker_testkit.wait_until import eventually

NAME = "node"
READY_SECONDS = 120.0


class RealNode(Stoppable):
    """A running node and its control plane."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.plane: ControlPlane
        self.runtime: Containerd
        self._binaries = assets.node()
        self._running: list[Stoppable] = []

    @classmethod
    def start(cls, folder: Path, archives: Sequence[Path] = ()) -> RealNode:
        """Start one, with the images of these archives on it, and return when it takes pods."""
        node = cls(folder)
        try:
            node._start(archives)
        except BaseException:
            node.stop()
            raise
        return node

    def stop(self) -> None:
        while self._running:
            self._running.pop().stop()

    def address(self, service: str, namespace: str) -> str:
        """The address of a Service, which the node's own processes reach as pods do."""
        found: Any = self.plane.request("GET", f"/api/v1/namespaces/{namespace}/services/{service}").json()
        return str(found["spec"]["clusterIP"])

    def _start(self, archives: Sequence[Path]) -> None:
        cni_network.prepare()
        self.plane = ControlPlane.start(
            self.folder / "plane", controller_manager=True, address=cni_network.ADDRESS
        )
        self._running.append(self.plane)
        self.runtime = Containerd.start(self.folder / "runtime", self._binaries)
        self._running.append(self.runtime)
        pause = self.folder / "pause.tar"
        image_archives.write_pause(pause)
        for archive in (pause, *archives):
            self.runtime.load(archive)
        self._start_proxy()
        self._running.append(network_policy_enforcer.enforce(self.plane, NAME, self._binaries, self.folder))
        self._start_scheduler()
        self._start_kubelet()
        eventually(self._is_ready, READY_SECONDS, self._describe, interval=0.2)

    def _start_kubelet(self) -> None:
        folder = self.folder / "kubelet"
        folder.mkdir()
        user = f"system:node:{NAME}"
        pair = self.plane.authority.client(user, ["system:nodes"]).save(folder, "client")
        config = folder / "config.json"
        config.write_text(json.dumps(_kubelet_config(self, folder)))
        self._run(
            "kubelet",
            f"--config={config}",
            f"--kubeconfig={self.plane.certificate_kubeconfig(NAME, pair)}",
            f"--root-dir={folder}",
            f"--cert-dir={folder / 'certificates'}",
            f"--hostname-override={NAME}",
            f"--node-ip={cni_network.ADDRESS}",
        )

    def _start_proxy(self) -> None:
        # What it would ask of the kernel's table of connections, a guest may not do.
        self._run(
            "kube-proxy",
            f"--kubeconfig={self.plane.kubeconfig('system:kube-proxy')}",
            f"--hostname-override={NAME}",
            f"--cluster-cidr={cni_network.PODS}",
            "--proxy-mode=iptables",
            "--conntrack-max-per-core=0",
            "--conntrack-tcp-timeout-established=0",
            "--conntrack-tcp-timeout-close-wait=0",
            "--oom-score-adj=0",
            "--healthz-bind-address=127.0.0.1",
        )

    def _start_scheduler(self) -> None:
        (port,) = free_ports(1)
        self._run(
            "kube-scheduler",
            f"--kubeconfig={self.plane.kubeconfig('system:kube-scheduler')}",
            f"--tls-cert-file={self.plane.folder / 'apiserver.crt'}",
            f"--tls-private-key-file={self.plane.folder / 'apiserver.key'}",
            "--bind-address=127.0.0.1",
            f"--secure-port={port}",
            "--leader-elect=false",
        )

    def _run(self, name: str, *flags: str) -> None:
        log = self.folder / f"{name}.log"
        self._running.append(Process.start(name, [self._binaries / name, *flags], log=log, cwd=self.folder))

    def _is_ready(self) -> bool:
        for one in self._running:
            if isinstance(one, Process):
                one.check()
        answer = self.plane.request("GET", f"/api/v1/nodes/{NAME}")
        found: Any = answer.json() if answer.status == 200 else {}
        conditions = found.get("status", {}).get("conditions", [])
        return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)

    def _describe(self) -> str:
        logs = (one.tail() for one in self._running if isinstance(one, Process))
        return "the node is ready:\n" + "\n".join(logs)


def _kubelet_config(node: RealNode, folder: Path) -> dict[str, Any]:
    resolver = folder / "resolv.conf"
    resolver.write_text("")  # there is no name server in here
    port, _ = free_ports(2)
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": cni_network.ADDRESS,
        "port": port,
        "readOnlyPort": 0,
        "healthzPort": 0,
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(node.plane.ca_file)},
        },
        "authorization": {"mode": "Webhook"},
        "containerRuntimeEndpoint": f"unix://{node.runtime.socket}",
        "cgroupDriver": "cgroupfs",
        "cgroupsPerQOS": False,
        "enforceNodeAllocatable": [],
        "failCgroupV1": False,
        "failSwapOn": False,
        "oomScoreAdj": 0,
        "evictionHard": {"imagefs.available": "0%", "memory.available": "0%", "nodefs.available": "0%"},
        "imageGCHighThresholdPercent": 100,
        "podLogsDir": str(folder / "logs"),
        "volumePluginDir": str(folder / "volume-plugins"),
        "resolvConf": str(resolver),
        "nodeStatusUpdateFrequency": "5s",
        "serializeImagePulls": False,
    }
