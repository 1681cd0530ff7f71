"""A release of the chart on a real node: pods that run our own image, reached by their Services."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlsplit

from stoker.domain.errors import StokerError
from stoker_testkit.chart.helm import Helm
from stoker_testkit.chart.process_release import HOME, NAME, webhook_is_asked
from stoker_testkit.node import cni_network, image_archives
from stoker_testkit.node.real_node import RealNode
from stoker_testkit.wait_until import eventually

PATIENCE = 300.0
COMPONENT = "app.kubernetes.io/component"
SCRAPER = "scrapes-stoker"
"""The label of namespaces whose pods may read metrics."""


def values(**more: object) -> dict[str, object]:
    """Those of a cluster that has our image and no registry."""
    repository, _, tag = image_archives.PRODUCT.partition(":")
    return {"image": {"repository": repository, "tag": tag, "pullPolicy": "Never"}, **more}


def narrow_network(node: RealNode) -> dict[str, object]:
    """Policies that name who is where, as narrow as values can say it."""
    api_server = {
        "cidrs": [f"{one}/32" for one in (cni_network.ADDRESS, cni_network.BRIDGE)],
        "ports": [443, urlsplit(node.plane.url).port],
    }
    metrics = {"namespaceSelector": {"matchLabels": {SCRAPER: "true"}}}
    return {"networkPolicy": {"enabled": True, "apiServer": api_server, "metrics": metrics}}


@dataclass
class NodeRelease:
    """The operator of a node; `install` it."""

    node: RealNode
    values: Mapping[str, object]

    @property
    def helm(self) -> Helm:
        return Helm(self.node.folder, self.node.plane)

    @property
    def receiver(self) -> str:
        """The address for webhooks of git servers."""
        service: Any = self._one("services", "receiver")
        return f"http://{service['spec']['clusterIP']}:{service['spec']['ports'][0]['port']}"

    def install(self) -> str:
        """Hand it to the cluster, which begins to run it; what helm says."""
        return self.helm.install(NAME, HOME, self.values, "--create-namespace")

    def upgrade(self, changed: Mapping[str, object]) -> None:
        """Change the release, and wait until all of it runs as it should."""
        self.values = {**self.values, **changed}
        self.helm.upgrade(NAME, HOME, self.values)
        self.until_running()

    def until_running(self) -> None:
        """Wait until every replica is ready."""
        eventually(
            self._all_ready, PATIENCE, lambda: f"all replicas are ready:\n{self.describe()}", interval=0.3
        )

    def until_asked(self) -> None:
        """Wait until the API server asks the webhook about pods, through its Service, and trusts it."""
        eventually(
            lambda: webhook_is_asked(self.node.plane),
            PATIENCE,
            lambda: f"asked:\n{self.describe()}",
            interval=0.3,
        )

    def pods(self, component: str) -> list[dict[str, Any]]:
        """The pods of a component that are there to stay."""
        selector = quote(f"{COMPONENT}={component}")
        found: Any = self.node.plane.request(
            "GET", f"/api/v1/namespaces/{HOME}/pods?labelSelector={selector}"
        ).json()
        return [one for one in found["items"] if "deletionTimestamp" not in one["metadata"]]

    def leader(self) -> str:
        """The pod of the controller that works."""
        lease: Any = self._one("leases", "controller", group="/apis/coordination.k8s.io/v1")
        holder = str(lease["spec"].get("holderIdentity") or "")
        names = [str(one["metadata"]["name"]) for one in self.pods("controller")]
        return next((name for name in names if holder.startswith(name)), "")

    def delete_pod(self, name: str, *, grace: int | None = None) -> None:
        """As `kubectl delete pod`; a grace of 0 is a node that lost power."""
        query = "" if grace is None else f"?gracePeriodSeconds={grace}"
        self.node.plane.request("DELETE", f"/api/v1/namespaces/{HOME}/pods/{name}{query}")

    def log_tail(self, component: str, lines: int = 15) -> str:
        return self.node.plane.kubectl(
            "-n",
            HOME,
            "logs",
            "--prefix",
            f"--tail={lines}",
            f"--selector={COMPONENT}={component}",
            check=False,
        ).stdout

    def describe(self) -> str:
        shown = self.node.plane.kubectl("-n", HOME, "get", "pods,events", "-o", "wide", check=False).stdout
        parts = [shown, *(self.log_tail(one) for one in ("controller", "webhook", "reverser"))]
        return "\n".join(parts)

    def _all_ready(self) -> bool:
        found: Any = self.node.plane.request("GET", f"/apis/apps/v1/namespaces/{HOME}/deployments").json()
        return all(_ready(one) for one in found["items"]) and bool(found["items"])

    def _one(self, plural: str, part: str, group: str = "/api/v1") -> dict[str, Any]:
        found: Any = self.node.plane.request("GET", f"{group}/namespaces/{HOME}/{plural}").json()
        for one in found["items"]:
            if part in one["metadata"]["name"]:
                return dict(one)
        names = [one["metadata"]["name"] for one in found["items"]]
        raise StokerError(f"none of the {plural} is called {part}: {names}")


def _ready(deployment: Mapping[str, Any]) -> bool:
    """All replicas of its newest form, and none of an older one."""
    wanted, status = deployment["spec"]["replicas"], deployment.get("status", {})
    seen = status.get("observedGeneration") == deployment["metadata"]["generation"]
    counts = (status.get(key, 0) for key in ("replicas", "updatedReplicas", "readyReplicas"))
    return seen and all(one == wanted for one in counts)
