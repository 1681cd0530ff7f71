"""`stoker fetcher`: keeps the mirror of one resource on a shared volume until SIGTERM."""

from __future__ import annotations

from pathlib import Path

import click

from stoker.cli.run.options import egress_options, enforce_egress, server_options


@click.command("fetcher")
@click.option(
    "--health-address",
    default=":8082",
    show_default=True,
    help="Address of the health probes; 0 disables them.",
)
@click.option(
    "--metrics-address", default=":8083", show_default=True, help="Address of the metrics; 0 disables them."
)
@click.option(
    "--root",
    type=click.Path(path_type=Path),
    default=Path("/"),
    show_default=True,
    help="Prefix for all paths in the pod; for tests and demos.",
)
@egress_options
@server_options
def fetcher_command(
    health_address: str,
    metrics_address: str,
    root: Path,
    kubeconfig: Path | None,
    context: str | None,
    log_level: str,
    log_format: str,
    egress_allow: tuple[str, ...],
    egress_cluster_range: tuple[str, ...],
) -> None:
    """Keep a complete mirror of a resource's repository on the volume at /repo.

    The controller runs it for a resource with spec.storage and sets POD_NAME, POD_NAMESPACE,
    CR_NAME and CR_KIND; everything else comes from the cluster.
    """
    import os  # noqa: PLC0415 - --help needs nothing of what follows

    from stoker.agent.fetcher import FetcherOptions, FetcherProcess  # noqa: PLC0415
    from stoker.agent.identity import AgentIdentity, AgentPaths  # noqa: PLC0415
    from stoker.kube.config.config import load_config  # noqa: PLC0415
    from stoker.kube.runtime.process import run_process  # noqa: PLC0415
    from stoker.telemetry.logs import configure_logging  # noqa: PLC0415

    configure_logging(level=log_level, log_format=log_format)  # type: ignore[arg-type]  # click has checked it
    enforce_egress(egress_allow, egress_cluster_range, os.environ.get("POD_NAMESPACE", ""))
    os.umask(0o022)  # gateways run as other users, and all of them read the volume
    places = AgentPaths(root.absolute())
    settings = FetcherOptions(
        config=load_config(kubeconfig, context, account=places.account),
        identity=AgentIdentity.read(os.environ),
        places=places,
        health_address=health_address,
        metrics_address=metrics_address,
    )
    run_process(lambda: FetcherProcess(settings).run())
