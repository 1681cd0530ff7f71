"""`stoker history` and `stoker diff`: the past syncs of gateways, as the status reports them.

The status holds the last ten syncs of each gateway and the first twenty paths of each sync.
Exit codes: 0 done, 2 wrong input, 4 the cluster cannot be reached or denies access.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from stoker.cli.common import in_cluster, options
from stoker.cli.common.help_sections import SentenceCommand, combine_options, option
from stoker.cli.common.output import show_lines, show_object
from stoker.cli.common.run import exit_with_result, run
from stoker.cli.exit_codes import ExitCode
from stoker.domain.errors import InvalidValue

if TYPE_CHECKING:
    from stoker.fleet.status import ResourceStatus

_HELP = {"help_option_names": ["-h", "--help"]}
_RESOURCE = (in_cluster.NAME, in_cluster.NAMESPACE, *in_cluster.RESOURCE_OPTIONS, options.OUTPUT)


@click.command("history", cls=SentenceCommand, context_settings=_HELP)
@option("--gateway", section=in_cluster.SECTION, metavar="NAME", help="[default: all gateways]")
@combine_options(_RESOURCE)
@click.pass_context
def history_command(
    context: click.Context,
    /,
    *,
    gateway: str | None,
    name: str | None,
    namespace: str,
    output: str,
    **rest: Any,
) -> None:
    """List the last syncs of a resource's gateways."""

    def work() -> int:
        from stoker.cli.fleet.history_table import history_lines  # noqa: PLC0415 - --help needs none of it
        from stoker.domain.clock import SystemClock  # noqa: PLC0415
        from stoker.fleet.history import sync_history  # noqa: PLC0415

        found = sync_history(run(_read_resource_state(rest, namespace, name)), gateway)
        if output == "json":
            show_object({"syncs": [one.as_json() for one in found]})
        else:
            show_lines(history_lines(found, SystemClock().now()))
        return ExitCode.DONE

    exit_with_result(context, "history", output, work)


@click.command("diff", cls=SentenceCommand, context_settings=_HELP)
@option(
    "--gateway",
    section=in_cluster.SECTION,
    metavar="NAME",
    help="Gateway of the sync. [default: the only one]",
)
@option(
    "--sync",
    "number",
    section=in_cluster.SECTION,
    type=click.IntRange(1, 10),
    default=1,
    show_default=True,
    help="Number of the sync in `stoker history`; 1 is the newest.",
)
@combine_options(_RESOURCE)
@click.pass_context
def diff_command(
    context: click.Context,
    /,
    *,
    gateway: str | None,
    number: int,
    name: str | None,
    namespace: str,
    output: str,
    **rest: Any,
) -> None:
    """Show what a sync of a gateway changed."""

    def work() -> int:
        from stoker.cli.fleet.history_table import diff_lines  # noqa: PLC0415
        from stoker.fleet.history import choose_sync, sync_history  # noqa: PLC0415

        standing = run(_read_resource_state(rest, namespace, name))
        if gateway is None and len(standing.gateways) > 1:
            raise InvalidValue(
                f"{standing.namespace}/{name} has {len(standing.gateways)} gateways: choose one with "
                "--gateway"
            )
        past = choose_sync(sync_history(standing, gateway), number)
        show_object(past.as_json()) if output == "json" else show_lines(diff_lines(past))
        return ExitCode.DONE

    exit_with_result(context, "diff", output, work)


async def _read_resource_state(rest: dict[str, Any], namespace: str, name: str | None) -> ResourceStatus:
    from stoker.fleet.status import ResourceScope, read_statuses  # noqa: PLC0415

    if not name:
        raise InvalidValue("name the resource, as in stoker history line-1")
    place = in_cluster.ClusterResourceOptions.taken_from(rest, namespace, name).settled()
    async with place.client() as client:
        found = await read_statuses(client, ResourceScope(place.namespace, place.name, place.kind))
    if len(found) > 1:
        both = f"stoker/{place.name} or ignitionsync/{place.name}"
        raise InvalidValue(f"{place.named} is a Stoker and an IgnitionSync: choose one with {both}")
    return found[0]
