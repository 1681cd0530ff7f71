"""`stoker sync`: syncs a data folder to a ref of a repository, once or continuously (`--watch`).

Exit codes: 0 done, 1 done in part, 2 wrong input, 3 held back by a guard, 4 the source or the gateway cannot
be reached or refuses the login, and nothing was written, 5 files written but not verified by the gateway. The
report goes to standard output, errors to standard error; with `--output json` both are one JSON object on
standard output.
"""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from stoker.cli.common import options
from stoker.cli.common.help_sections import (
    SentenceCommand,
    combine_options,
    flags_given,
    option,
    repeatable_option,
)
from stoker.cli.common.options import WHAT, SharedOptionValues
from stoker.cli.common.output import print_to_stderr, show_lines, show_notices, show_object
from stoker.cli.common.run import exit_with_result, run
from stoker.cli.exit_codes import EXIT_BY_RESULT
from stoker.domain.errors import InvalidValue, Stalled
from stoker.domain.reasons import Reason

if TYPE_CHECKING:
    from stoker.agent.sync.sync_report import SyncReport
    from stoker.cli.sync.sync_request import SyncRequest

_WATCH = "With --watch"
WATCH_FLAGS = {
    "interval": "--interval",
    "drift": "--drift",
    "drift_interval": "--drift-interval",
    "webhook_address": "--webhook-address",
    "webhook_secret_file": "--webhook-secret-file",
    "health_address": "--health-address",
    "metrics_address": "--metrics-address",
    "dashboard_address": "--dashboard-address",
    "dashboard_token_file": "--dashboard-token-file",
    "dashboard_cert_dir": "--dashboard-cert-dir",
    "dashboard_host": "--dashboard-host",
    "log_level": "--log-level",
    "log_format": "--log-format",
}
WATCH_OPTIONS = (
    option(
        "--interval",
        section=_WATCH,
        metavar="TIME",
        help="Polling interval of the ref. [default: 30s; with -f spec.polling]",
    ),
    option(
        "--drift",
        section=_WATCH,
        type=click.Choice(["off", "report", "restore"]),
        help="What happens to files changed on disk. [default: restore; with -f spec.drift]",
    ),
    option(
        "--drift-interval",
        section=_WATCH,
        metavar="TIME",
        help="Interval of drift checks. [default: 5m]",
    ),
    option(
        "--webhook-secret-file",
        section=_WATCH,
        type=Path,
        metavar="FILE",
        help="Serve POST /webhook, authenticated by this secret.",
    ),
    option(
        "--webhook-address",
        section=_WATCH,
        metavar="HOST:PORT",
        help="Address of the webhook. [default: 127.0.0.1:8443; with -f the port of spec.webhook]",
    ),
    option(
        "--health-address",
        section=_WATCH,
        default="127.0.0.1:8082",
        show_default=True,
        metavar="HOST:PORT",
        help="Address of /healthz, /readyz and /startupz; 0 disables them.",
    ),
    option(
        "--metrics-address",
        section=_WATCH,
        default="127.0.0.1:8083",
        show_default=True,
        metavar="HOST:PORT",
        help="Address of /metrics; 0 disables it.",
    ),
    option(
        "--dashboard-address",
        section=_WATCH,
        metavar="HOST:PORT",
        help="Address of the dashboard; 0 disables it. [default: 127.0.0.1:8090, if the port is free]",
    ),
    option(
        "--dashboard-token-file",
        section=_WATCH,
        type=Path,
        metavar="FILE",
        help=(
            "File with the login token of the dashboard. [default: created at each start, in "
            ".sync-state/dashboard-token]"
        ),
    ),
    option(
        "--dashboard-cert-dir",
        section=_WATCH,
        type=Path,
        metavar="DIR",
        help="Folder with tls.crt and tls.key of the dashboard. [default: plain HTTP]",
    ),
    repeatable_option(
        "--dashboard-host",
        section=_WATCH,
        metavar="NAME",
        help="Host name of the dashboard, in addition to localhost and IP addresses.",
    ),
    option(
        "--log-level",
        section=_WATCH,
        default="info",
        show_default=True,
        help="debug, info, warning or error.",
    ),
    option(
        "--log-format",
        section=_WATCH,
        default="auto",
        show_default=True,
        help="json, console, or auto: console if standard error is a terminal.",
    ),
)


@click.command("sync", cls=SentenceCommand, context_settings={"help_option_names": ["-h", "--help"]})
@combine_options((*options.JOB, options.OUTPUT))
@option("--once", section=WHAT, is_flag=True, help="Sync once and exit; the default.")
@option("--watch", section=WHAT, is_flag=True, help="Keep running and follow the ref.")
@option("--dry-run", section=WHAT, is_flag=True, help="Show what would change, without changing it.")
@combine_options(WATCH_OPTIONS)
@click.pass_context
def sync_command(
    context: click.Context, /, *, once: bool, watch: bool, dry_run: bool, output: str, **rest: Any
) -> None:
    """Sync a gateway's data folder with a ref of a repository.

    The files come from flags (--repo, --ref, --map) or from a resource (-f).
    """
    given = SharedOptionValues.taken_from(rest)

    def work() -> int:
        if once and watch:
            raise InvalidValue("--once and --watch contradict each other")
        if not watch:
            useless = flags_given(context, WATCH_FLAGS)
            if useless:
                raise InvalidValue(f"{useless[0]} has no effect without --watch")
            return sync_once(given, dry_run=dry_run, output=output)
        if dry_run:
            raise InvalidValue("--dry-run cannot be combined with --watch; use it alone, or use stoker plan")
        from stoker.cli.watch.watch import watch_order  # noqa: PLC0415 - loads an HTTP stack

        return watch_order(given, rest, output)

    exit_with_result(context, "sync", output, work)


def sync_once(given: SharedOptionValues, *, dry_run: bool, output: str) -> int:
    from stoker.cli.sync.sync_request import build_order  # noqa: PLC0415 - --help needs none of it

    order = build_order(given)
    show_notices("sync", order.notices)
    if order.paused and not dry_run:
        raise Stalled(
            f"{order.resource} is paused: nothing is synced until spec.paused is false",
            reason=Reason.PAUSED,
        )
    if order.dry_run and not dry_run:
        print_to_stderr(f"stoker sync: warning: gateway {order.gateway} is set to dryRun: nothing is written")
    report = run(_run_sync(order, walk=not given.trust_ledger, dry_run=dry_run or order.dry_run))
    return show_report(report, output, files_only=order.files_only)


async def _run_sync(order: SyncRequest, *, walk: bool, dry_run: bool) -> SyncReport:
    from stoker.cli.common.progress import ProgressBar  # noqa: PLC0415
    from stoker.cli.sync.sync_setup import ConfiguredSync, claim_data_folder  # noqa: PLC0415

    with ProgressBar() as bar, nullcontext() if dry_run else claim_data_folder(order, "stoker sync"):
        async with ConfiguredSync(order, progress=bar) as kept:
            report = await kept.sync(walk=walk, dry_run=dry_run)
    kept.show_warnings("sync")
    return report


def show_report(report: SyncReport, output: str, where: str = "", files_only: str = "") -> int:
    """Print the report and return its exit code.

    `where` names the folder's position if it is not at its ref; `files_only` is the option or field that kept
    the gateway from being asked.
    """
    if output == "json":
        show_object(report.as_json())
    else:
        show_lines(report.lines(where, files_only))
        if report.stalled is not None:
            show_lines([f"would stall: {report.stalled.reason}: {report.stalled.message}"])
        if report.waits is not None:
            show_lines([f"waits: {report.waits.reason}: {report.waits.message}"])
    return EXIT_BY_RESULT[report.result]
