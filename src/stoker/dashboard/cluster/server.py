"""The dashboard of a process in a cluster: its scene, its gate, its hands and its port, as one part.

The same in a controller and in a reverser, on every replica: none of it waits for a Lease, and none
of it writes with the process's own account. Whatever goes wrong with it is told in the log and tried
again: what the process is there for goes on.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from stoker.dashboard.cluster.actions import ClusterActions
from stoker.dashboard.cluster.authenticator import ClusterAuth
from stoker.dashboard.cluster.kinds import ALL, RESOURCES_WITH_RULES
from stoker.dashboard.cluster.view import ClusterViewSource
from stoker.dashboard.keep_serving import serve_with_retries
from stoker.dashboard.metrics import DashboardMetrics
from stoker.dashboard.server import DashboardOptions, DashboardServer
from stoker.dashboard.server_tls import server_tls_context
from stoker.domain.clock import Clock
from stoker.http_server.rate_limit import parse_networks
from stoker.kube.client.client import KubeClient
from stoker.telemetry.logs import get_logger
from stoker.telemetry.metrics import Metrics
from stoker.telemetry.probes import parse_address

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class ClusterDashboardOptions:
    """What a command line says about the dashboard of a process in a cluster, or Misconfigured."""

    address: str
    home: str
    """The operator's own namespace: the map that stops everything."""
    namespaces: Collection[str] = ()
    """Namespaces that are shown; none named means all."""
    cert_dir: Path | None = None
    """A folder with tls.crt and tls.key, which may be renewed; without it the port speaks plain HTTP."""
    trusted_proxies: tuple[str, ...] = ()
    rules: bool = False
    """Whether what is wrong with the rules of a destination is shown with it: the account reads them."""

    def __post_init__(self) -> None:
        parse_address(self.address)
        parse_networks(self.trusted_proxies)

    def is_in_the_clear(self) -> bool:
        """Whether tokens come over a wire as they are, unless somebody in front takes care of that."""
        address = parse_address(self.address)
        return self.cert_dir is None and address is not None and not _is_loopback(address.host)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return host == "localhost"


async def keep_serving(
    wanted: ClusterDashboardOptions, client: KubeClient, clock: Clock, metrics: Metrics | None = None
) -> NoReturn:
    """Show the cluster until cancelled, and try again where that fails."""
    if wanted.is_in_the_clear():
        log.warning(
            "dashboard.in_the_clear",
            address=wanted.address,
            why="tokens and pictures are not encrypted; let nobody come but through a proxy with TLS",
        )
    meter = DashboardMetrics(metrics)
    await serve_with_retries(lambda: serve_cluster(wanted, client, clock, meter), clock)


async def serve_cluster(
    wanted: ClusterDashboardOptions, client: KubeClient, clock: Clock, meter: DashboardMetrics | None = None
) -> None:
    """Show the cluster until cancelled; raises Misconfigured where nobody can listen at the address."""
    kinds = tuple(RESOURCES_WITH_RULES if wanted.rules else ALL)
    scene = ClusterViewSource(client, wanted.home, wanted.namespaces, clock, rules=wanted.rules)
    async with (
        server_tls_context(wanted.cert_dir, clock) as tls,
        DashboardServer(
            scene,
            ClusterActions(client.config, wanted.home, clock),
            ClusterAuth(client, scene, wanted.home, clock, kinds=kinds),
            settings=DashboardOptions(wanted.address, trusted_proxies=wanted.trusted_proxies),
            tls=tls,
            clock=clock,
            meter=meter,
        ),
    ):
        await scene.run()
