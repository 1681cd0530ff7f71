"""Runs the dashboard inside a controller or a reverser: view source, auth, actions and HTTP server.

It runs on every replica: it does not wait for a Lease and never writes with the process's own service
account. A failure of the dashboard is logged and retried, and never stops the process's actual work.
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
from stoker.dashboard.cluster.shared_cache import SharedInformers
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
    """The command-line options of the dashboard in a cluster; raises Misconfigured if they are wrong."""

    address: str
    home: str
    """The operator's own namespace, with the ConfigMap of the emergency stop."""
    namespaces: Collection[str] = ()
    """Namespaces to show; empty means all."""
    cert_dir: Path | None = None
    """A folder with tls.crt and tls.key, reloaded when renewed; without it the port serves plain HTTP."""
    trusted_proxies: tuple[str, ...] = ()
    rules: bool = False
    """Whether to show problems of a destination's rules; the service account must be able to read them."""

    def __post_init__(self) -> None:
        parse_address(self.address)
        parse_networks(self.trusted_proxies)

    def is_in_the_clear(self) -> bool:
        """Return whether tokens cross the network unencrypted, unless a proxy in front adds TLS."""
        address = parse_address(self.address)
        return self.cert_dir is None and address is not None and not _is_loopback(address.host)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return host == "localhost"


async def keep_serving(
    wanted: ClusterDashboardOptions,
    client: KubeClient,
    clock: Clock,
    metrics: Metrics | None = None,
    shared: SharedInformers | None = None,
) -> NoReturn:
    """Serve the dashboard until cancelled, and retry after failures."""
    if wanted.is_in_the_clear():
        log.warning(
            "dashboard.in_the_clear",
            address=wanted.address,
            why="tokens and data are not encrypted; allow access only through a proxy with TLS",
        )
    meter = DashboardMetrics(metrics)
    await serve_with_retries(lambda: serve_cluster(wanted, client, clock, meter, shared), clock)


async def serve_cluster(
    wanted: ClusterDashboardOptions,
    client: KubeClient,
    clock: Clock,
    meter: DashboardMetrics | None = None,
    shared: SharedInformers | None = None,
) -> None:
    """Serve the dashboard until cancelled; raises Misconfigured if the address cannot be bound."""
    kinds = tuple(RESOURCES_WITH_RULES if wanted.rules else ALL)
    scene = ClusterViewSource(
        client, wanted.home, wanted.namespaces, clock, rules=wanted.rules, shared=shared
    )
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
