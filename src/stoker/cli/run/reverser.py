"""`stoker reverser`: writes the state of the cluster to git as it changes, until SIGTERM."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from stoker.cli.run.dashboard import dashboard_options
from stoker.cli.run.options import egress_options, enforce_egress, server_options
from stoker.cli.run.reverser_authors import author_options, author_seams


@click.command("reverser")
@click.option(
    "--namespace",
    help="The reverser's own namespace, for its Leases. Default: the namespace of the context.",
)
@click.option(
    "--watch-namespaces",
    default="",
    help="Namespaces whose destinations and rules are used, separated by commas. Default: all.",
)
@click.option(
    "--enable-watch-ingestion",
    type=click.BOOL,
    is_flag=False,
    flag_value="true",
    default=True,
    show_default=True,
    help="Watch objects and write them. If false, nothing is written, and every status reports it.",
)
@click.option("--watch-all", is_flag=True, help="Allow * in rules, meaning all kinds that are not excluded.")
@click.option(
    "--exclude",
    multiple=True,
    help="Kinds that are never written, in addition to the built-in ones, separated by commas.",
)
@click.option(
    "--include-secrets",
    type=click.BOOL,
    is_flag=False,
    flag_value="true",
    default=False,
    show_default=True,
    help="Read and write Secrets; spec.secretPolicy of each destination decides how.",
)
@click.option(
    "--max-kinds",
    type=click.IntRange(1, 5000),
    default=300,
    show_default=True,
    help="Maximum number of watched kinds.",
)
@click.option(
    "--max-concurrent-watches",
    type=click.IntRange(1, 1000),
    default=50,
    show_default=True,
    help="Maximum number of concurrent lists.",
)
@click.option(
    "--qps",
    type=click.FloatRange(0.1, 1000),
    default=5.0,
    show_default=True,
    help="Lists and discovery requests per second. Further pages, watches and writes are not limited.",
)
@click.option(
    "--burst",
    type=click.IntRange(1, 1000),
    default=10,
    show_default=True,
    help="Burst of --qps.",
)
@click.option("--discovery-refresh", default="5m", show_default=True, help="Interval of API discovery.")
@click.option(
    "--branch-refresh",
    default="5m",
    show_default=True,
    help="Interval at which branches are checked for changes by others.",
)
@click.option(
    "--batch-max-files",
    type=click.IntRange(1, 100_000),
    default=200,
    show_default=True,
    help="Maximum files in one commit, for destinations without spec.batch.",
)
@click.option(
    "--batch-max-bytes",
    default="10Mi",
    show_default=True,
    help="Maximum content of one commit, for destinations without spec.batch.",
)
@click.option(
    "--batch-max-wait",
    default="20s",
    show_default=True,
    help="Longest wait of a change for its commit, for destinations without spec.batch; 0: none.",
)
@click.option(
    "--max-workers",
    type=click.IntRange(1, 1000),
    default=24,
    show_default=True,
    help="Branches that are written concurrently.",
)
@click.option(
    "--max-workers-per-repo",
    type=click.IntRange(1, 1000),
    default=5,
    show_default=True,
    help="Branches of one repository that are written concurrently.",
)
@click.option("--lease-duration", default="24s", show_default=True, help="Duration of the Lease of a branch.")
@click.option("--lease-renew", default="8s", show_default=True, help="Renewal interval of the Lease.")
@click.option(
    "--work-dir",
    type=click.Path(path_type=Path),
    default=Path("/var/cache/gitops-reverser"),
    show_default=True,
    help="Folder for git mirrors (a cache).",
)
@click.option("--require-known-hosts", is_flag=True, help="Refuse ssh repositories without known_hosts.")
@click.option("--identity", default="", help="Name of this replica. Default: the name of the host.")
@click.option(
    "--health-port", default=":8081", show_default=True, help="Port or address of the probes; 0: none."
)
@click.option(
    "--metrics-port", default=":8080", show_default=True, help="Port or address of metrics; 0: none."
)
@click.option("--metrics-prefix", default="", help="Prefix of every metric name.")
@dashboard_options
@click.option(
    "--dashboard-stop-namespace",
    default="",
    help=(
        "Namespace of the controller that the dashboard's emergency stop applies to. Default: the reverser's "
        "own."
    ),
)
@egress_options
@server_options
@author_options
def reverser_command(
    kubeconfig: Path | None,
    context: str | None,
    namespace: str | None,
    log_level: str,
    log_format: str,
    egress_allow: tuple[str, ...],
    egress_cluster_range: tuple[str, ...],
    **options: Any,
) -> None:
    """Write selected objects of the cluster to git, with the author and time of each change.

    Several replicas may run; each branch is written by one of them.
    """
    from stoker.cli.run.reverser_settings import reverser_settings, with_dashboard  # noqa: PLC0415 - --help needs no HTTP stack
    from stoker.kube.config.config import load_config  # noqa: PLC0415
    from stoker.kube.runtime.process import run_process  # noqa: PLC0415
    from stoker.reverser.process import ReverserProcess  # noqa: PLC0415
    from stoker.telemetry import tracing  # noqa: PLC0415
    from stoker.telemetry.logs import configure_logging  # noqa: PLC0415

    configure_logging(level=log_level, log_format=log_format)  # type: ignore[arg-type]  # click has checked it
    tracing.begin("gitops-reverser")
    enforce_egress(egress_allow, egress_cluster_range)
    config = load_config(kubeconfig, context)
    home = namespace or config.namespace
    settings = reverser_settings(config, home, options)
    seams = with_dashboard(author_seams(options, home), settings, options)
    run_process(lambda: ReverserProcess(settings, seams).run())
