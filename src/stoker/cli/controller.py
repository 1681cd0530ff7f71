"""`stoker controller`: run the operator's controller until it is told to stop."""

from __future__ import annotations

from pathlib import Path

import click

from stoker.telemetry.logs import LEVELS


@click.command("controller")
@click.option(
    "--kubeconfig",
    type=click.Path(path_type=Path),
    help="Default: KUBECONFIG, the pod's account, ~/.kube/config.",
)
@click.option("--context", help="Context of the kubeconfig.")
@click.option(
    "--lease-namespace", help="Where replicas agree on a leader. Default: the namespace of the context."
)
@click.option(
    "--health-probe-bind-address", default=":8081", show_default=True, help="Health; 0 turns it off."
)
@click.option("--metrics-bind-address", default=":8080", show_default=True, help="Metrics; 0 turns them off.")
@click.option(
    "--watch-namespaces", default="", help="Namespaces to work on, with commas between. Default: all."
)
@click.option(
    "--workers", type=click.IntRange(1, 64), default=5, show_default=True, help="Resources worked on at once."
)
@click.option("--require-known-hosts", is_flag=True, help="Refuse ssh sources that come without known_hosts.")
@click.option("--log-level", type=click.Choice(list(LEVELS)), default="info", show_default=True)
@click.option(
    "--log-format", type=click.Choice(["auto", "json", "console"]), default="auto", show_default=True
)
def controller_command(
    kubeconfig: Path | None,
    context: str | None,
    lease_namespace: str | None,
    health_probe_bind_address: str,
    metrics_bind_address: str,
    watch_namespaces: str,
    workers: int,
    require_known_hosts: bool,
    log_level: str,
    log_format: str,
) -> None:
    """Resolve the ref of every resource and keep its status true.

    Several replicas may run; one of them works at a time.
    """
    from stoker.controller.operating import Operator, Settings  # noqa: PLC0415 - --help needs no HTTP stack
    from stoker.kube.config import load  # noqa: PLC0415
    from stoker.kube.running import run  # noqa: PLC0415
    from stoker.telemetry.logs import configure  # noqa: PLC0415

    configure(level=log_level, log_format=log_format)  # type: ignore[arg-type]  # click has checked it
    config = load(kubeconfig, context)
    settings = Settings(
        config=config,
        lease_namespace=lease_namespace or config.namespace,
        health_address=health_probe_bind_address,
        metrics_address=metrics_bind_address,
        namespaces=tuple(name.strip() for name in watch_namespaces.split(",") if name.strip()),
        workers=workers,
        require_known_hosts=require_known_hosts,
    )
    run(lambda: Operator(settings).run())
