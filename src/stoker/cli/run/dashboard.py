"""The dashboard's options for processes in a cluster, and the process part that serves it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from stoker.dashboard.cluster.shared_cache import SharedInformers
    from stoker.domain.clock import Clock
    from stoker.kube.client.client import KubeClient
    from stoker.kube.runtime.process import ProcessPart
    from stoker.telemetry.metrics import Metrics

F = TypeVar("F", bound=Callable[..., object])

_OPTIONS = (
    click.option(
        "--dashboard-bind-address",
        default="0",
        show_default=True,
        help="Address of the dashboard; 0 disables it.",
    ),
    click.option(
        "--dashboard-cert-dir",
        type=click.Path(path_type=Path),
        help="Folder with tls.crt and tls.key of the dashboard. Default: plain HTTP.",
    ),
    click.option(
        "--dashboard-trusted-proxy",
        multiple=True,
        metavar="NETWORK",
        help="Network of proxies whose X-Forwarded-For is trusted; repeatable.",
    ),
)


def dashboard_options(command: F) -> F:
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def dashboard_parts(
    options: Mapping[str, Any], home: str, namespaces: Collection[str], *, rules: bool = False
) -> Callable[[KubeClient, Clock, Metrics, SharedInformers], Sequence[ProcessPart]]:
    """Return what builds the part that serves the dashboard; it builds none if the dashboard is off.

    The dashboard reads the informers that the process shares and watches all other kinds.
    """
    from stoker.telemetry.probes import parse_address  # noqa: PLC0415 - loads an HTTP stack

    if parse_address(options["dashboard_bind_address"]) is None:
        return lambda client, clock, metrics, shared: ()
    from stoker.dashboard.cluster.server import ClusterDashboardOptions, keep_serving  # noqa: PLC0415
    from stoker.kube.runtime.process import ProcessPart  # noqa: PLC0415

    wanted = ClusterDashboardOptions(
        options["dashboard_bind_address"],
        home,
        namespaces,
        options["dashboard_cert_dir"],
        tuple(options["dashboard_trusted_proxy"]),
        rules=rules,
    )
    return lambda client, clock, metrics, shared: [
        ProcessPart("dashboard", lambda: keep_serving(wanted, client, clock, metrics, shared))
    ]
