"""`stoker controller`: runs the operator's controller until SIGTERM."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from stoker.cli.run.dashboard import dashboard_options
from stoker.cli.run.options import egress_options, enforce_egress, server_options


@click.command("controller")
@click.option(
    "--mode",
    type=click.Choice(["controller", "webhook"]),
    default="controller",
    show_default=True,
    expose_value=False,
    help="webhook: the same as `stoker webhook`, with its options.",
)
@click.option(
    "--lease-namespace", help="Namespace of the leader election Lease. Default: the namespace of the context."
)
@click.option(
    "--health-probe-bind-address",
    default=":8081",
    show_default=True,
    help="Address of the health probes; 0 disables them.",
)
@click.option(
    "--metrics-bind-address",
    default=":8080",
    show_default=True,
    help="Address of the metrics; 0 disables them.",
)
@click.option(
    "--leader-elect",
    type=click.BOOL,
    is_flag=False,
    flag_value="true",
    default=True,
    show_default=True,
    help="Use leader election. Without it only one replica may run.",
)
@click.option(
    "--shard",
    default="0/1",
    show_default=True,
    help="Shard I/N: controller I of N, counted from 0; shards divide the namespaces.",
)
@click.option(
    "--watch-namespaces", default="", help="Namespaces to watch, separated by commas. Default: all."
)
@click.option("--watch-label-selector", default="", help="Watch only resources with these labels.")
@click.option(
    "--no-finalizers",
    is_flag=True,
    help="Set no finalizers; for installations whose RBAC is deleted together with a watched namespace.",
)
@click.option(
    "--workers",
    "--max-concurrent-reconciles",
    type=click.IntRange(1, 64),
    default=5,
    show_default=True,
    help="Resources that are reconciled concurrently.",
)
@click.option(
    "--git-timeout",
    type=click.FloatRange(1, 3600),
    default=120.0,
    show_default=True,
    help="Timeout of git operations in seconds.",
)
@click.option("--require-known-hosts", is_flag=True, help="Refuse ssh repositories without known_hosts.")
@click.option("--cluster-name", default="", help="Value of {{.ClusterName}} in templates.")
@click.option(
    "--github-app-namespace",
    "--github-app-namespaces",
    multiple=True,
    help="Namespaces in which GitHub App tokens may be written as Secrets, separated by commas.",
)
@click.option("--shared-volumes", is_flag=True, help="Create shared volumes for resources with spec.storage.")
@click.option(
    "--fetcher-pull-secret",
    multiple=True,
    help="Image pull secret of the fetcher, in the resource's namespace.",
)
@click.option(
    "--defaults",
    type=click.Path(path_type=Path),
    help="File with defaults for fields that resources leave out.",
)
@click.option("--agent-image", default="", help="Image of agents; used to detect outdated agents.")
@click.option("--agent-image-repository", multiple=True, help="See stoker webhook.")
@click.option("--require-digest", is_flag=True, help="See stoker webhook.")
@click.option("--repo-size", default="2Gi", show_default=True, help="See stoker webhook.")
@click.option(
    "--metadata-key", default="", help="NAME/KEY of the Secret that signs the metadata ConfigMaps for agents."
)
@click.option("--agent-env", multiple=True, help="See stoker webhook.")
@click.option(
    "--pagerduty-url",
    default="https://events.pagerduty.com/v2/enqueue",
    show_default=True,
    help="Address of the PagerDuty events API; the EU region has its own.",
)
@click.option(
    "--audit-events", is_flag=True, help="Emit an Event on the resource for each sync of a gateway."
)
@click.option(
    "--forget-reports-after",
    type=click.FloatRange(0, 86400),
    default=30.0,
    show_default=True,
    help="Seconds to keep the report of a deleted pod.",
)
@click.option(
    "--receiver-bind-address",
    default=":8443",
    show_default=True,
    help="Address of the webhook receiver; 0 disables it.",
)
@click.option(
    "--receiver-cert-dir",
    type=click.Path(path_type=Path),
    help="Folder with tls.crt and tls.key. Default: plain HTTP.",
)
@click.option(
    "--receiver-key-file",
    type=click.Path(path_type=Path),
    help="File with a key that may request syncs of every resource.",
)
@click.option(
    "--receiver-trusted-proxy", multiple=True, help="Network of proxies whose X-Forwarded-For is trusted."
)
@click.option(
    "--remove-finalizers",
    is_flag=True,
    help="Remove the finalizers of all watched resources and exit; the chart runs this before an uninstall.",
)
@dashboard_options
@egress_options
@server_options
def controller_command(
    kubeconfig: Path | None,
    context: str | None,
    lease_namespace: str | None,
    log_level: str,
    log_format: str,
    remove_finalizers: bool,
    egress_allow: tuple[str, ...],
    egress_cluster_range: tuple[str, ...],
    **options: Any,
) -> None:
    """Keep gateways in sync with git: resolve refs, publish commits to agents, aggregate their reports.

    Several replicas may run; only the leader reconciles, and all of them serve webhooks.
    """
    from stoker.cli.run import controller_settings  # noqa: PLC0415 - --help needs no HTTP stack
    from stoker.controller.manager import ControllerProcess  # noqa: PLC0415
    from stoker.kube.config.config import load_config  # noqa: PLC0415
    from stoker.kube.runtime.process import run_process  # noqa: PLC0415
    from stoker.telemetry import tracing  # noqa: PLC0415
    from stoker.telemetry.logs import configure_logging  # noqa: PLC0415

    configure_logging(level=log_level, log_format=log_format)  # type: ignore[arg-type]  # click has checked it
    tracing.begin("stoker-controller")
    enforce_egress(egress_allow, egress_cluster_range)
    config = load_config(kubeconfig, context)
    settings = controller_settings.controller_settings(config, lease_namespace or config.namespace, options)
    if remove_finalizers:
        run_process(lambda: controller_settings.remove_finalizers(settings))
        return
    seams = controller_settings.controller_seams(settings, options)
    run_process(lambda: ControllerProcess(settings, seams).run())
