"""`stoker plan`: shows what a sync would do, and writes nothing to disk.

Takes the options of `stoker sync`. With a NAME it shows the plans of a resource in a cluster instead: those
that its gateways have reported and that wait for approval. Exit codes as for `stoker sync`; with
`--exit-code` a plan with changes exits with 10, like `git diff --exit-code`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from stoker.cli.common import in_cluster, options
from stoker.cli.common.help_sections import SentenceCommand, combine_options, flags_given, option
from stoker.cli.common.options import WHAT, SharedOptionValues
from stoker.cli.common.output import show_lines, show_notices, show_object
from stoker.cli.common.run import exit_with_result, run
from stoker.cli.exit_codes import ExitCode
from stoker.domain.errors import InvalidValue

if TYPE_CHECKING:
    from stoker.agent.sync.sync_report import SyncReport
    from stoker.cli.sync.sync_request import SyncRequest


@click.command("plan", cls=SentenceCommand, context_settings={"help_option_names": ["-h", "--help"]})
@combine_options((*options.JOB, options.OUTPUT))
@option("--diff", "with_diff", section=WHAT, is_flag=True, help="Show the changes line by line.")
@option("--exit-code", "tell", section=WHAT, is_flag=True, help="Exit with code 10 if there are changes.")
@combine_options((in_cluster.NAME, *in_cluster.RESOURCE_OPTIONS))
@click.pass_context
def plan_command(
    context: click.Context,
    /,
    *,
    with_diff: bool,
    tell: bool,
    output: str,
    name: str | None,
    **rest: Any,
) -> None:
    """Show what a sync would change, without changing it."""
    given = SharedOptionValues.taken_from(rest)
    namespace = given.namespace if flags_given(context, {"namespace": "--namespace"}) else ""
    place = in_cluster.ClusterResourceOptions.taken_from(rest, namespace, name or "")

    def work() -> int:
        if place.name:
            return _show_waiting_plans(given, place, with_diff=with_diff, tell=tell, output=output)
        if with_diff and output == "json":
            raise InvalidValue("--diff prints text and cannot be combined with --output json")
        return _show_plan(given, with_diff=with_diff, tell=tell, output=output)

    exit_with_result(context, "plan", output, work)


def _show_waiting_plans(
    given: SharedOptionValues,
    place: in_cluster.ClusterResourceOptions,
    *,
    with_diff: bool,
    tell: bool,
    output: str,
) -> int:
    from stoker.cli.fleet.pending_plans import read_waiting_plans, waiting_plan_lines  # noqa: PLC0415 - --help needs none of it

    given.refuse_folder()
    if with_diff:
        raise InvalidValue("--diff applies to a folder, not to a resource in a cluster")
    waiting = run(read_waiting_plans(place.settled()))
    show_object(waiting.as_json()) if output == "json" else show_lines(waiting_plan_lines(waiting))
    return ExitCode.DIFFERENT if tell and (waiting.waits or waiting.gateways) else ExitCode.DONE


def _show_plan(given: SharedOptionValues, *, with_diff: bool, tell: bool, output: str) -> int:
    from stoker.cli.sync.sync import show_report  # noqa: PLC0415
    from stoker.cli.sync.sync_request import build_order  # noqa: PLC0415 - --help needs none of it

    order = build_order(given)
    show_notices("plan", order.notices)
    report = run(_compute_plan(order, walk=not given.trust_ledger, with_diff=with_diff))
    show_lines(report.diff)
    code = show_report(report, output)
    return ExitCode.DIFFERENT if tell and code == ExitCode.DONE and report.plan.actions else code


async def _compute_plan(order: SyncRequest, *, walk: bool, with_diff: bool) -> SyncReport:
    from stoker.cli.common.progress import ProgressBar  # noqa: PLC0415
    from stoker.cli.sync.sync_setup import ConfiguredSync  # noqa: PLC0415

    with ProgressBar() as bar:
        async with ConfiguredSync(order, progress=bar) as kept:
            report = await kept.sync(walk=walk, dry_run=True, diff=with_diff)
    kept.show_warnings("plan")
    return report
