"""`stoker agent`: runs the sidecar beside one gateway until SIGTERM."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from stoker.cli.run.options import egress_options, enforce_egress, server_options
from stoker.domain.errors import StokerError

if TYPE_CHECKING:
    from stoker.telemetry.log_shipper import LogShipper


@click.command("agent")
@click.option(
    "--health-address",
    default=":8082",
    show_default=True,
    help="Address of the health probes; 0 disables them.",
)
@click.option(
    "--metrics-address", default=":8083", show_default=True, help="Address of the metrics; 0 disables them."
)
@click.option("--initial-sync", is_flag=True, help="Exit after the first sync; for an init container.")
@click.option(
    "--audit-syslog",
    default="",
    envvar="STOKER_AUDIT_SYSLOG",
    help="Send audit records to unix:/PATH, or udp, tcp or tls://HOST:PORT. Default: STOKER_AUDIT_SYSLOG.",
)
@click.option(
    "--audit-syslog-facility",
    default="audit",
    envvar="STOKER_AUDIT_SYSLOG_FACILITY",
    show_default=True,
    help="Syslog facility, such as local3.",
)
@click.option(
    "--audit-syslog-ca",
    default="",
    envvar="STOKER_AUDIT_SYSLOG_CA",
    help="CA certificates of a tls:// server in addition to the system's: a file, or the PEM text itself.",
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
def agent_command(
    health_address: str,
    metrics_address: str,
    initial_sync: bool,
    audit_syslog: str,
    audit_syslog_facility: str,
    audit_syslog_ca: str,
    root: Path,
    kubeconfig: Path | None,
    context: str | None,
    log_level: str,
    log_format: str,
    egress_allow: tuple[str, ...],
    egress_cluster_range: tuple[str, ...],
) -> None:
    """Keep the gateway of this pod in sync with the commit that the controller selects.

    The injector sets POD_NAME, POD_NAMESPACE, CR_NAME, CR_KIND and GATEWAY_NAME; everything
    else comes from the pod's annotations and from the cluster.
    """
    import os  # noqa: PLC0415 - --help needs nothing of what follows

    from stoker.agent.sidecar.memory_release import import_aiohttp_lean  # noqa: PLC0415

    import_aiohttp_lean()

    from stoker.agent.identity import AgentIdentity, AgentPaths  # noqa: PLC0415
    from stoker.agent.sidecar.process import AgentOptions, AgentProcess  # noqa: PLC0415
    from stoker.kube.config.config import load_config  # noqa: PLC0415
    from stoker.kube.runtime.process import run_process  # noqa: PLC0415
    from stoker.telemetry import tracing  # noqa: PLC0415
    from stoker.telemetry.logs import configure_logging  # noqa: PLC0415

    configure_logging(level=log_level, log_format=log_format)  # type: ignore[arg-type]  # click has checked it
    tracing.begin("stoker-agent")
    enforce_egress(egress_allow, egress_cluster_range, os.environ.get("POD_NAMESPACE", ""))
    places = AgentPaths(root.absolute())
    settings = AgentOptions(
        config=load_config(kubeconfig, context, account=places.account),
        identity=AgentIdentity.read(os.environ),
        places=places,
        health_address=health_address,
        metrics_address=metrics_address,
        shipper=_shipper(audit_syslog, audit_syslog_facility, audit_syslog_ca),
        only_initial=initial_sync,
    )
    run_process(lambda: AgentProcess(settings).run(), lean=True)


def _shipper(address: str, facility: str, authority: str) -> LogShipper | None:
    if not address:
        return None
    from stoker.agent.audit import audit_export  # noqa: PLC0415 - most agents send nothing
    from stoker.telemetry.logs import get_logger  # noqa: PLC0415

    given = {
        audit_export.SYSLOG_ADDRESS_VARIABLE: address,
        audit_export.FACILITY: facility,
        audit_export.SYSLOG_CA_VARIABLE: authority,
    }
    try:
        return audit_export.shipper_for(given)
    except StokerError as error:
        # Audit records are also in the log and in the file; a typo here must not stop the gateway's sync.
        get_logger(__name__).error("audit.unavailable", error=error.message)
        return None
