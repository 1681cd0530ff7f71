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
    "--lease-namespace", help="Where replicas agree on a leader. Default: the namespace of the context."
)
@click.option(
    "--health-probe-bind-address", default=":8081", show_default=True, help="Health; 0 turns it off."
)
@click.option("--metrics-bind-address", default=":8080", show_default=True, help="Metrics; 0 turns them off.")
@click.option(
    "--leader-elect",
    type=click.BOOL,
    is_flag=False,
    flag_value="true",
    default=True,
    show_default=True,
    help="Agree with other replicas on who works. Without it only one may run.",
)
@click.option(
    "--shard",
    default="0/1",
    show_default=True,
    help="I/N: the Ith of N controllers, counted from 0, that divide the namespaces among themselves.",
)
@click.option(
    "--watch-namespaces", default="", help="Namespaces to work on, with commas between. Default: all."
)
@click.option("--watch-label-selector", default="", help="Labels that a resource must have to be worked on.")
@click.option(
    "--no-finalizers",
    is_flag=True,
    help="Put no finalizer on resources: for rights that are deleted together with a watched namespace.",
)
@click.option(
    "--workers",
    "--max-concurrent-reconciles",
    type=click.IntRange(1, 64),
    default=5,
    show_default=True,
    help="Resources worked on at once.",
)
@click.option(
    "--git-timeout",
    type=click.FloatRange(1, 3600),
    default=120.0,
    show_default=True,
    help="Seconds that a repository has to answer.",
)
@click.option("--require-known-hosts", is_flag=True, help="Refuse ssh sources that come without known_hosts.")
@click.option("--cluster-name", default="", help="What templates know as {{.ClusterName}}.")
@click.option(
    "--github-app-namespace",
    "--github-app-namespaces",
    multiple=True,
    help="Namespace in which tokens of GitHub Apps may be written as Secrets; commas are fine.",
)
@click.option("--shared-volumes", is_flag=True, help="Make volumes for resources that ask for one.")
@click.option(
    "--fetcher-pull-secret",
    multiple=True,
    help="Secret of a resource's namespace with which the fetcher of its volume is pulled.",
)
@click.option(
    "--defaults",
    type=click.Path(path_type=Path),
    help="File with what resources leave out; the chart's defaults.",
)
@click.option("--agent-image", default="", help="Image of agents, to tell which of them are outdated.")
@click.option("--agent-image-repository", multiple=True, help="As for the webhook.")
@click.option("--require-digest", is_flag=True, help="As for the webhook.")
@click.option("--repo-size", default="2Gi", show_default=True, help="As for the webhook.")
@click.option("--metadata-key", default="", help="NAME/KEY of a Secret that signs the metadata for agents.")
@click.option("--agent-env", multiple=True, help="As for the webhook.")
@click.option(
    "--pagerduty-url",
    default="https://events.pagerduty.com/v2/enqueue",
    show_default=True,
    help="Where PagerDuty takes events; the EU has another address.",
)
@click.option("--audit-events", is_flag=True, help="Tell each sync of a gateway as an Event on its resource.")
@click.option(
    "--forget-reports-after",
    type=click.FloatRange(0, 86400),
    default=30.0,
    show_default=True,
    help="Seconds for which the report of a pod that is gone is kept.",
)
@click.option(
    "--receiver-bind-address", default=":8443", show_default=True, help="Webhooks; 0 turns the receiver off."
)
@click.option(
    "--receiver-cert-dir",
    type=click.Path(path_type=Path),
    help="Folder with tls.crt and tls.key. Default: plain HTTP.",
)
@click.option(
    "--receiver-key-file",
    type=click.Path(path_type=Path),
    help="File with a key that may ask for every resource.",
)
@click.option(
    "--receiver-trusted-proxy", multiple=True, help="Network whose X-Forwarded-For is taken at its word."
)
@click.option(
    "--let-go",
    is_flag=True,
    help="Take the finalizers off all resources that fit and end: what the chart does before an uninstall.",
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
    let_go: bool,
    egress_allow: tuple[str, ...],
    egress_cluster_range: tuple[str, ...],
    **options: Any,
) -> None:
    """Keep gateways in step with git: find commits, tell agents, gather what they report.

    Several replicas may run; one of them works at a time, and each of them answers webhooks.
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
    if let_go:
        run_process(lambda: controller_settings.remove_finalizers(settings))
        return
    seams = controller_settings.controller_seams(settings, options)
    run_process(lambda: ControllerProcess(settings, seams).run())
