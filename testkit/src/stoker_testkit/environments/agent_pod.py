"""A gateway's pod without a node: its folders below a root, its agent as a real process.

Files are laid out and changed as the kubelet does it, by moving a link, so that the
agent sees exactly what it would see in a cluster. `ResourceMaps` takes the place of the
controller on the other side of the ConfigMaps.
"""

from __future__ import annotations

import json
import os
import sys
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

from stoker.domain.clock import parse_rfc3339, rfc3339
from stoker.domain.errors import StokerError
from stoker.domain.intent.intent import SyncResourceKind
from stoker.domain.protocol import (
    AgentMetadata,
    GatewayReport,
    metadata_map_name,
    resource_labels,
    status_map_name,
)
from stoker_testkit.cluster.cluster_access import ClusterAccess
from stoker_testkit.kubelet.atomic_writer import podinfo, swap
from stoker_testkit.processes import Process
from stoker_testkit.stoppable import Stoppable
from stoker_testkit.wait_until import eventually

PATIENCE = 30.0


@dataclass
class AgentPod(Stoppable):
    """One pod; `start` and `stop` its agent as often as the story needs."""

    root: Path
    name: str
    namespace: str
    resource: str
    kind: SyncResourceKind = SyncResourceKind.STOKER
    gateway: str = ""
    annotations: dict[str, str] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    process: Process | None = None

    @classmethod
    def create(
        cls,
        root: Path,
        namespace: str,
        *,
        name: str = "gateway-0",
        resource: str = "plant",
        kind: SyncResourceKind = SyncResourceKind.STOKER,
        gateway: str = "filler",
        annotations: Mapping[str, str] | None = None,
        labels: Mapping[str, str] | None = None,
    ) -> AgentPod:
        """Make the folders of a pod that was injected for the resource; bare annotations are ours."""
        for folder in ("repo", "ignition-data", "tmp", "etc/stoker/secrets"):
            (root / folder).mkdir(parents=True, exist_ok=True)
        pod = cls(root, name, namespace, resource, kind, gateway)
        pod.labels = {**resource_labels(kind, resource), **(labels or {})}
        swap(root / "etc/podinfo", pod._podinfo())
        pod.annotate({"cr-name": resource, "gateway-name": gateway, **(annotations or {})})
        return pod

    @property
    def data_dir(self) -> Path:
        return self.root / "ignition-data"

    def annotate(self, changes: Mapping[str, str | None]) -> None:
        """Set annotations, or remove them with None, and let the kubelet bring them into the pod."""
        for key, value in changes.items():
            full = key if "/" in key else f"stoker.io/{key}"
            self.annotations.pop(full, None)
            if value is not None:
                self.annotations[full] = value
        swap(self.root / "etc/podinfo", self._podinfo())

    def rewrite_podinfo(self, files: Mapping[str, str]) -> None:
        """Put any text into the pod's files, for what no kubelet would write."""
        swap(self.root / "etc/podinfo", {**self._podinfo(), **files})

    def mount(self, place: str, content: Mapping[str, str]) -> None:
        """Mount a Secret: `git-credentials`, `api-key`, `metadata-key` or `secrets/NAME`."""
        swap(self.root / "etc/stoker" / place, content)

    def start_in_cluster(self, cluster: ClusterAccess, env: Mapping[str, str] | None = None) -> Process:
        """The agent as its pod starts it: with an account that is mounted, and no kubeconfig."""
        account = {"token": cluster.token("admin"), "namespace": self.namespace}
        account["ca.crt"] = cluster.ca_file.read_text()
        swap(self.root / "var/run/secrets/kubernetes.io/serviceaccount", account)
        host, _, port = cluster.url.removeprefix("https://").rpartition(":")
        where = {"KUBECONFIG": "", "KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port}
        return self.start(None, env={**where, **(env or {})})

    def start(
        self,
        kubeconfig: Path | None,
        *flags: str,
        env: Mapping[str, str] | None = None,
        command: Sequence[str] = (),
    ) -> Process:
        """The agent as a process of its own, with the injector's variables; `env` changes them."""
        log = self.root / f"agent-{uuid.uuid4().hex[:8]}.log"
        identity = {
            "POD_NAME": self.name,
            "POD_NAMESPACE": self.namespace,
            "CR_NAME": self.resource,
            "CR_KIND": str(self.kind),
            "GATEWAY_NAME": self.gateway,
            "TMPDIR": str(self.root / "tmp"),
        }
        argv = [
            *(command or (sys.executable, "-m", "stoker")),
            "agent",
            f"--root={self.root}",
            *([f"--kubeconfig={kubeconfig}"] if kubeconfig is not None else []),
            "--health-address=127.0.0.1:0",
            "--metrics-address=127.0.0.1:0",
            "--log-format=json",
            *flags,
        ]
        self.process = Process.start(self.name, argv, log=log, env={**os.environ, **identity, **(env or {})})
        return self.process

    def stop(self, grace: float = 40.0) -> None:
        if self.process is not None:
            self.process.stop(grace)

    def kill(self) -> None:
        """End it as the kernel does: now, and without a word."""
        if self.process is not None:
            self.process.kill()

    def lines(self) -> list[dict[str, Any]]:
        """The log lines of the agent."""
        if self.process is None:
            return []
        found = []
        for line in self.process.log.read_text(errors="replace").splitlines():
            try:
                found.append(json.loads(line))
            except ValueError:
                found.append({"event": line})
        return found

    def logged(self, event: str) -> list[dict[str, Any]]:
        return [line for line in self.lines() if line.get("event") == event]

    def ask(self, path: str) -> tuple[int, str]:
        """The response to a probe or a scrape; waits until the agent listens."""
        port = eventually(lambda: self._port(path), PATIENCE, lambda: f"the agent listens: {self.tail()}")
        connection = HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def tail(self) -> str:
        return "" if self.process is None else self.process.tail()

    def file(self, path: str) -> str | None:
        """The content of a file of the gateway; None if it is not there."""
        try:
            return (self.data_dir / path).read_text()
        except FileNotFoundError:
            return None

    def until_file(self, path: str, content: str | None, patience: float = PATIENCE) -> None:
        eventually(
            lambda: self.file(path) == content,
            patience,
            lambda: f"{path} becomes {content!r}; it is {self.file(path)!r}; its log:\n{self.tail()}",
        )

    def _port(self, path: str) -> int:
        for line in self.logged("probe.listening"):
            if path in line["paths"]:
                return int(line["port"])
        if self.process is not None:
            self.process.check()
        return 0

    def _podinfo(self) -> dict[str, str]:
        return {"annotations": podinfo(self.annotations), "labels": podinfo(self.labels), "name": self.name}


@dataclass(frozen=True, slots=True)
class ResourceMaps:
    """The maps of one resource, as its controller would keep them."""

    cluster: ClusterAccess
    namespace: str
    resource: str = "plant"
    kind: SyncResourceKind = SyncResourceKind.STOKER

    def publish(self, metadata: AgentMetadata | Mapping[str, str]) -> None:
        """Write the metadata map, new or over what is there."""
        data = metadata.data() if isinstance(metadata, AgentMetadata) else dict(metadata)
        self._write(metadata_map_name(self.kind, self.resource), data)

    def withdraw(self) -> None:
        """Delete the metadata map."""
        _require(self.cluster.request("DELETE", self._path(metadata_map_name(self.kind, self.resource))), 200)

    def withdraw_status(self) -> None:
        """Delete the status map."""
        _require(self.cluster.request("DELETE", self._path(status_map_name(self.kind, self.resource))), 200)

    def status_owners(self) -> dict[str, set[str]]:
        """The writer of each key of the status ConfigMap."""
        name = self._path(status_map_name(self.kind, self.resource))
        found: Any = _require(self.cluster.request("GET", name), 200)
        owners: dict[str, set[str]] = {}
        for entry in found["metadata"]["managedFields"]:
            for key in entry["fieldsV1"].get("f:data", {}):
                owners.setdefault(key.removeprefix("f:"), set()).add(entry["manager"])
        return owners

    def prepare_status(self, shard: int = 0) -> None:
        """Make the empty status map, as the controller does before any agent reports."""
        self._write(status_map_name(self.kind, self.resource, shard), {})

    def status(self, shard: int = 0) -> dict[str, str] | None:
        """The data of the status map; None if there is no such map."""
        answer = self.cluster.request("GET", self._path(status_map_name(self.kind, self.resource, shard)))
        if answer.status == 404:
            return None
        found: Any = _require(answer, 200)
        data: dict[str, str] = found.get("data") or {}
        return data

    def report(self, key: str = "filler", shard: int = 0) -> GatewayReport | None:
        text = (self.status(shard) or {}).get(key)
        return None if text is None else GatewayReport.parse(text)

    def age(self, seconds: float, key: str = "filler") -> None:
        """Make a report that much older, as if its agent had not renewed it since."""
        data = self.status() or {}
        report = GatewayReport.parse(data[key])
        then = parse_rfc3339(report.heartbeat_at) - timedelta(seconds=seconds)
        aged = replace(report, heartbeat_at=rfc3339(then)).json()
        self._write(status_map_name(self.kind, self.resource), {**data, key: aged})

    def until_report(
        self,
        key: str = "filler",
        *,
        patience: float = PATIENCE,
        shard: int = 0,
        pod: AgentPod | None = None,
        **wanted: object,
    ) -> GatewayReport:
        """Wait until the report of a gateway has these values; a function as a value is asked."""

        def fitting() -> list[GatewayReport]:
            report = self.report(key, shard)
            return [report] if report and all(_fits(report, *one) for one in wanted.items()) else []

        return eventually(
            fitting,
            patience,
            lambda: f"{key} reports {wanted}; it is {self.report(key, shard)}\n{pod.tail() if pod else ''}",
            interval=0.05,
        )[0]

    def _write(self, name: str, data: Mapping[str, str]) -> None:
        meta = {
            "name": name,
            "namespace": self.namespace,
            "labels": resource_labels(self.kind, self.resource),
        }
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": dict(data)}
        answer = self.cluster.request("PUT", self._path(name), body)
        if answer.status == 404:
            answer = self.cluster.request("POST", self._path(), body)
        _require(answer, 200, 201)

    def _path(self, name: str = "") -> str:
        return f"/api/v1/namespaces/{self.namespace}/configmaps{'/' if name else ''}{name}"


def _fits(report: GatewayReport, name: str, wanted: object) -> bool:
    found = getattr(report, name)
    return bool(wanted(found)) if callable(wanted) else found == wanted


def _require(answer: Any, *allowed: int) -> object:
    if answer.status not in allowed:
        raise StokerError(
            f"the API server answered {answer.status}: {answer.body.decode(errors='replace')[:500]}"
        )
    return answer.json()
