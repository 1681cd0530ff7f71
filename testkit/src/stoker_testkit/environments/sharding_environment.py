"""Several namespaces with resources, and controllers that divide them among themselves.

The controllers run as one account with the rights that the chart gives to so many shards:
Leases and the ConfigMap of the emergency stop are in `home`, the resources in the others.
"""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from stoker_testkit.chart.controller_rbac import CONTROLLER, controller_rules
from stoker_testkit.cluster.cluster_access import ClusterAccess
from stoker_testkit.environments.controller_environment import Site
from stoker_testkit.processes import Process, free_ports
from stoker_testkit.stoppable import Stoppable

PORTS = ("metrics-bind-address", "health-probe-bind-address", "receiver-bind-address")


@dataclass(frozen=True, slots=True)
class ShardProcess:
    """One replica of one shard."""

    process: Process
    ports: Mapping[str, int]

    def passes(self) -> Iterator[tuple[str, str]]:
        """When it ended a pass over a resource, and in which namespace."""
        for line in self.process.log.read_text(errors="replace").splitlines():
            event = json.loads(line) if line.startswith("{") and line.endswith("}") else {}
            if event.get("event") == "pass.ended" and event.get("controller") == "sync":
                yield event["timestamp"], event["key"].partition(" ")[2].partition("/")[0]

    def namespaces(self) -> set[str]:
        """The namespaces that it has reconciled."""
        return {namespace for _, namespace in self.passes()}

    def ask(self, port: str, path: str) -> str:
        address = f"http://127.0.0.1:{self.ports[port]}{path}"
        with urllib.request.urlopen(address, timeout=5) as answer:
            return str(answer.read().decode())

    def readings(self, name: str) -> dict[str, float]:
        """The series of a metric, by their labels."""
        page = self.ask("metrics-bind-address", "/metrics").splitlines()
        found = (line.removeprefix(name).rpartition(" ") for line in page if line.startswith(f"{name}{{"))
        return {labels: float(value) for labels, _, value in found}


@dataclass
class ShardedSite(Stoppable):
    """`home` and the sites of all other namespaces."""

    home: Site
    sites: Mapping[str, Site]

    @classmethod
    def prepare(
        cls, cluster: ClusterAccess, home: str, namespaces: Collection[str], folder: Path, *, shards: int
    ) -> ShardedSite:
        """Make the namespaces, the account with the chart's rights for so many shards, and their Leases."""
        site = Site(cluster, home, folder)
        meta = {"name": CONTROLLER, "namespace": home}
        site.post("/api/v1", "serviceaccounts", {"metadata": meta})
        rules = controller_rules(shards=shards)
        site.grant(CONTROLLER, CONTROLLER, rules.home)
        for index in range(shards):
            lease = {"metadata": {**meta, "name": f"stoker-controller-{index}"}}
            site.post("/apis/coordination.k8s.io/v1", "leases", lease)
        sites = {name: Site(cluster, name, folder) for name in namespaces}
        for name, each in sites.items():
            cluster.create_namespace(name)
            each.grant(CONTROLLER, CONTROLLER, rules.watched, home=home)
        return cls(site, sites)

    def start(self, shard: str, *flags: str) -> ShardProcess:
        ports = dict(zip(PORTS, free_ports(len(PORTS)), strict=True))
        listening = [f"--{name}=127.0.0.1:{port}" for name, port in ports.items()]
        watched = f"--watch-namespaces={','.join(self.sites)}"
        return ShardProcess(self.home.start(f"--shard={shard}", watched, *listening, *flags), ports)

    def stop(self) -> None:
        self.home.stop()
