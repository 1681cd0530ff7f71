"""`stoker webhook` as a test's API server meets it: real processes, real configurations, a role of its own.

Reviews reach the processes on this machine by address; their configurations and roles are
in `stoker_testkit.admission.webhook_manifests`.
"""

from __future__ import annotations

import json
import sys
import uuid
from dataclasses import dataclass, field
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

from stoker_testkit.admission.webhook_manifests import SECRET, mutating, roles, validating
from stoker_testkit.cluster.cluster_access import ClusterAccess
from stoker_testkit.processes import Process, free_ports
from stoker_testkit.stoppable import Stoppable
from stoker_testkit.wait_until import eventually

PATIENCE = 60.0
IMAGE = "registry.test/stoker:1.0"


@dataclass
class Admission(Stoppable):
    """Replicas of the webhook, working for one namespace."""

    cluster: ClusterAccess
    namespace: str
    folder: Path
    replicas: list[Process] = field(default_factory=list)
    ports: list[int] = field(default_factory=list)
    probes: list[int] = field(default_factory=list)

    @property
    def configuration(self) -> str:
        return f"stoker-{self.namespace}"

    def prepare(self) -> None:
        """The account and its roles."""
        self.apply(*roles(self.namespace, self.configuration))

    def start(self, *flags: str, replicas: int = 1, env: dict[str, str] | None = None) -> None:
        """Start replicas together; `configure` tells the API server of them."""
        ports = free_ports(2 * replicas)
        account = self.cluster.service_account_kubeconfig(self.namespace, "stoker-webhook")
        for number in range(replicas):
            port, health = ports[2 * number : 2 * number + 2]
            argv = [
                sys.executable,
                "-m",
                "stoker",
                "webhook",
                f"--kubeconfig={account}",
                f"--namespace={self.namespace}",
                "--webhook-host=127.0.0.1",
                f"--webhook-port={port}",
                f"--health-probe-bind-address=127.0.0.1:{health}",
                f"--metrics-bind-address=127.0.0.1:{health}",
                f"--cert-secret={SECRET}",
                "--cert-name=127.0.0.1",
                f"--mutating-configuration={self.configuration}",
                f"--validating-configuration={self.configuration}",
                f"--agent-image={IMAGE}",
                "--drain-seconds=0",
                "--log-format=json",
                *flags,
            ]
            log = self.folder / f"webhook-{uuid.uuid4().hex[:6]}.log"
            self.replicas.append(Process.start("stoker webhook", argv, log=log, env=env))
            self.ports.append(port)
            self.probes.append(health)

    def configure(self, *, policy: str = "Fail", validate: bool = True) -> None:
        """Name every replica as a webhook of its own: a pod goes through all of them."""
        self.apply(mutating(self.configuration, self.namespace, self.ports, policy))
        if validate:
            self.apply(validating(self.configuration, self.namespace, self.ports, policy))

    def until_trusted(self) -> None:
        """Wait until all replicas serve, and the API server uses the new configurations and trusts them."""
        for port in self.probes:
            eventually(lambda port=port: self._ready(port), PATIENCE, self.tail)  # type: ignore[misc]
        for kind in ("mutating", "validating"):
            eventually(lambda kind=kind: all(self.bundles(kind)), PATIENCE, self.tail)  # type: ignore[misc]
        probe = {
            "apiVersion": "stoker.io/v1alpha1",
            "kind": "Stoker",
            "metadata": {"name": "probe"},
            "spec": {"git": {"repo": "https://git.example.net/probe.git", "ref": "main"}},
        }
        stokers = "apis/stoker.io/v1alpha1/stokers"
        eventually(lambda: self.create(stokers, probe, dry_run=True)[0] == 201, PATIENCE, self.tail)

    def bundles(self, kind: str) -> list[str]:
        path = f"/apis/admissionregistration.k8s.io/v1/{kind}webhookconfigurations/{self.configuration}"
        found: Any = self.cluster.request("GET", path).json()
        return [one["clientConfig"].get("caBundle", "") for one in found["webhooks"]]

    def apply(self, *manifests: object) -> None:
        for manifest in manifests:
            self.cluster.kubectl(
                "apply", "--server-side", "--force-conflicts", "-f", "-", stdin=json.dumps(manifest)
            )

    def create(
        self, resource: str, body: object, *, dry_run: bool = False, user: str = "admin"
    ) -> tuple[int, dict[str, Any]]:
        """POST; `resource` is a path such as `api/v1/pods` without its namespace."""
        head, _, plural = resource.rpartition("/")
        path = f"/{head}/namespaces/{self.namespace}/{plural}" + ("?dryRun=All" if dry_run else "")
        answer = self.cluster.request("POST", path, body, user=user)
        found: Any = answer.json()
        return answer.status, found

    def logged(self, event: str) -> list[dict[str, Any]]:
        """Log lines of all replicas."""
        lines = [line for one in self.replicas for line in one.log.read_text().splitlines()]
        return [found for line in lines if (found := _line(line)).get("event") == event]

    def ask(self, path: str, replica: int = 0) -> tuple[int, str]:
        """The response to a probe or a scrape."""
        connection = HTTPConnection("127.0.0.1", self.probes[replica], timeout=PATIENCE)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def _ready(self, port: int) -> bool:
        try:
            return self.ask("/readyz", self.probes.index(port))[0] == 200
        except OSError:
            return False

    def tail(self) -> str:
        return "\n".join(one.tail() for one in self.replicas)

    def stop(self) -> None:
        for kind in ("mutating", "validating"):
            path = f"/apis/admissionregistration.k8s.io/v1/{kind}webhookconfigurations/{self.configuration}"
            self.cluster.request("DELETE", path)
        for kind in ("clusterroles", "clusterrolebindings"):
            self.cluster.request("DELETE", f"/apis/rbac.authorization.k8s.io/v1/{kind}/{self.configuration}")
        while self.replicas:
            self.replicas.pop().stop()


def _line(text: str) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(text)
    except ValueError:
        return {}
    return found
