"""`stoker status`: shows the status of resources in a cluster, or of the gateways of one resource.

Exit codes: 0 done (also if a resource is not ready, unless `--exit-code` asks for 10), 2 wrong input,
4 the cluster cannot be reached or denies access.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from stoker.cli.common import in_cluster, options
from stoker.cli.common.help_sections import SentenceCommand, combine_options, option
from stoker.cli.common.output import print_to_stderr, show_lines, show_object
from stoker.cli.common.run import exit_with_result, run
from stoker.cli.exit_codes import ExitCode
from stoker.domain.errors import InvalidValue, Retry

if TYPE_CHECKING:
    from stoker.fleet.status import ResourceScope, ResourceStatus

POLL_SECONDS = 2.0
_CLEAR_SCREEN = "\x1b[H\x1b[2J"


@click.command("status", cls=SentenceCommand, context_settings={"help_option_names": ["-h", "--help"]})
@combine_options((in_cluster.NAME, in_cluster.NAMESPACE))
@option(
    "-A", "--all-namespaces", "everywhere", section=in_cluster.SECTION, is_flag=True, help="All namespaces."
)
@combine_options((*in_cluster.RESOURCE_OPTIONS, options.OUTPUT))
@option(
    "--watch", "-w", "stay", section="Options", is_flag=True, help="Print the status again on every change."
)
@option(
    "--exit-code",
    "tell",
    section="Options",
    is_flag=True,
    help="Exit with code 10 if a resource is not ready.",
)
@click.pass_context
def status_command(
    context: click.Context,
    /,
    *,
    name: str | None,
    namespace: str,
    everywhere: bool,
    stay: bool,
    tell: bool,
    output: str,
    **rest: Any,
) -> None:
    """Show the status of resources and their gateways."""
    given = in_cluster.ClusterResourceOptions.taken_from(rest, namespace, name or "")

    def work() -> int:
        if everywhere and name:
            raise InvalidValue(
                "--all-namespaces cannot be combined with a name: a name belongs to one namespace"
            )
        from stoker.fleet.status import ResourceScope  # noqa: PLC0415 - --help needs none of it

        place = given.settled()
        scope = ResourceScope(None if everywhere else place.namespace, place.name, place.kind)
        standings = run(_poll_status(place, scope, stay=stay, output=output))
        ready = all(one.verdict()[0] == "True" for one in standings)
        return ExitCode.DIFFERENT if tell and not ready else ExitCode.DONE

    exit_with_result(context, "status", output, work)


async def _poll_status(
    place: in_cluster.ClusterResourceOptions, scope: ResourceScope, *, stay: bool, output: str
) -> list[ResourceStatus]:
    """Print the statuses once, or with `stay` again at each change; return those read last.

    With `stay` an unreachable cluster is reported once and polling continues, because it may come back.
    """
    import asyncio  # noqa: PLC0415 - --help needs none of it

    from stoker.fleet.status import read_statuses  # noqa: PLC0415

    shown: list[ResourceStatus] | None = None
    away = False
    async with place.client() as client:
        while True:
            try:
                seen = await read_statuses(client, scope)
            except Retry as error:
                if shown is None:
                    raise
                if not away:
                    print_to_stderr(f"stoker status: {error.reason}: {error.message}; retrying")
                away = True
                await asyncio.sleep(POLL_SECONDS)
                continue
            if away:
                print_to_stderr("stoker status: the cluster answers again")
                away = False
            if seen != shown:
                _show_status(seen, scope, output=output, again=shown is not None)
                shown = seen
            if not stay:
                return seen
            await asyncio.sleep(POLL_SECONDS)


def _show_status(standings: list[ResourceStatus], scope: ResourceScope, *, output: str, again: bool) -> None:
    from stoker.cli.fleet.status_table import fleet_lines, resource_lines  # noqa: PLC0415
    from stoker.domain.clock import SystemClock  # noqa: PLC0415

    if output == "json":
        show_object({"resources": [one.as_json() for one in standings]})
        return
    if again:
        click.echo(_CLEAR_SCREEN if sys.stdout.isatty() else "\n", nl=False)
    now = SystemClock().now()
    if scope.name:
        for one in standings:
            show_lines(resource_lines(one, now))
    else:
        show_lines(fleet_lines(standings, now))
