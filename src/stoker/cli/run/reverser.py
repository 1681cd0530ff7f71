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
    help="Namespaces whose destinations and rules are served, with commas between. Default: all.",
)
@click.option(
    "--enable-watch-ingestion",
    type=click.BOOL,
    is_flag=False,
    flag_value="true",
    default=True,
    show_default=True,
    help="Watch and write. Without it nothing is written, and every status says so.",
)
@click.option("--watch-all", is_flag=True, help="Let * in a rule mean all kinds that are not excluded.")
@click.option(
    "--exclude",
    multiple=True,
    help="Kind that is never written besides the built-in ones, such as secrets; commas are fine.",
)
@click.option(
    "--include-secrets",
    type=click.BOOL,
    is_flag=False,
    flag_value="true",
    default=False,
    show_default=True,
    help="Whether Secrets are read and written at all; each destination says how.",
)
@click.option(
    "--max-kinds",
    type=click.IntRange(1, 5000),
    default=300,
    show_default=True,
    help="Kinds that are watched.",
)
@click.option(
    "--max-concurrent-watches",
    type=click.IntRange(1, 1000),
    default=50,
    show_default=True,
    help="Lists that are read at the same time.",
)
@click.option(
    "--qps",
    type=click.FloatRange(0.1, 1000),
    default=5.0,
    show_default=True,
    help="Lists and discoveries begun in a second. Further pages, watches and writes are not held back.",
)
@click.option(
    "--burst",
    type=click.IntRange(1, 1000),
    default=10,
    show_default=True,
    help="How many at once after a pause.",
)
@click.option(
    "--discovery-refresh", default="5m", show_default=True, help="How often the kinds are asked for."
)
@click.option(
    "--branch-refresh",
    default="5m",
    show_default=True,
    help="How often a branch is looked at for foreign changes.",
)
@click.option(
    "--batch-max-files",
    type=click.IntRange(1, 100_000),
    default=200,
    show_default=True,
    help="Most files in one commit, for destinations that do not say so.",
)
@click.option("--batch-max-bytes", default="10Mi", show_default=True, help="The same for their content.")
@click.option(
    "--batch-max-wait", default="20s", show_default=True, help="The same for how long a change waits; 0: not."
)
@click.option(
    "--max-workers",
    type=click.IntRange(1, 1000),
    default=24,
    show_default=True,
    help="Branches written at the same time.",
)
@click.option(
    "--max-workers-per-repo",
    type=click.IntRange(1, 1000),
    default=5,
    show_default=True,
    help="The same, of one repository.",
)
@click.option(
    "--lease-duration", default="24s", show_default=True, help="How long a branch stays a dead replica's."
)
@click.option(
    "--lease-renew", default="8s", show_default=True, help="How often a replica says that it lives."
)
@click.option(
    "--work-dir",
    type=click.Path(path_type=Path),
    default=Path("/var/cache/gitops-reverser"),
    show_default=True,
    help="Folder for mirrors; it is a cache.",
)
@click.option(
    "--require-known-hosts", is_flag=True, help="Refuse ssh repositories that come without known_hosts."
)
@click.option("--identity", default="", help="Name of this replica. Default: the name of the host.")
@click.option(
    "--health-port", default=":8081", show_default=True, help="Port or address of the probes; 0: none."
)
@click.option(
    "--metrics-port", default=":8080", show_default=True, help="Port or address of metrics; 0: none."
)
@click.option("--metrics-prefix", default="", help="Put before the name of every metric.")
@dashboard_options
@click.option(
    "--dashboard-stop-namespace",
    default="",
    help="Namespace of the controller that its emergency stop is for. Default: the reverser's own.",
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
    """Write selected objects of the cluster to git, with who changed them and when.

    Several replicas may run; they share the branches among them.
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
