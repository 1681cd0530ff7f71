"""`stoker approve`: approves, in the user's own name, what a resource in a cluster waits with.

For a Stoker or an IgnitionSync that is a plan, for a GitDestination (`gitdestination/NAME`) the deletions
that the reverser holds. It writes the annotations that `kubectl annotate` would, bound to the plan. The API
server reports the user's name, and the admission webhook checks both. Exit codes: 0 done, 2 wrong input,
3 nothing waits for approval or another plan does, 4 the cluster cannot be reached or denies access.
"""

from __future__ import annotations

from typing import Any

import click

from stoker.cli.common import in_cluster, options
from stoker.cli.common.help_sections import SentenceCommand, combine_options, option
from stoker.cli.common.output import show_lines, show_object
from stoker.cli.common.run import exit_with_result, run
from stoker.cli.exit_codes import ExitCode
from stoker.domain.errors import InvalidValue
from stoker.fleet.resource_name import KINDS

_DESTINATION = "GitDestination"
_KINDS = (*KINDS, _DESTINATION)
_KIND = option(
    "--kind",
    section=in_cluster.SECTION,
    type=click.Choice(_KINDS),
    help="Kind of the resource. [default: the Stoker or IgnitionSync of that name]",
)


@click.command("approve", cls=SentenceCommand, context_settings={"help_option_names": ["-h", "--help"]})
@combine_options(
    (in_cluster.NAME, in_cluster.NAMESPACE, _KIND, *in_cluster.CONNECTION_OPTIONS, options.OUTPUT)
)
@option(
    "--digest",
    section=in_cluster.SECTION,
    metavar="DIGEST",
    help="Digest of the plan to approve; a different pending plan is not approved.",
)
@click.pass_context
def approve_command(
    context: click.Context,
    /,
    *,
    name: str | None,
    namespace: str,
    digest: str | None,
    output: str,
    **rest: Any,
) -> None:
    """Approve the pending plan of a resource."""

    def work() -> int:
        if not name:
            raise InvalidValue("name the resource, as in stoker approve line-1")
        place = in_cluster.ClusterResourceOptions.taken_from(rest, namespace, name)
        message = run(_approve(place.settled(_KINDS), digest))
        show_object({"message": message}) if output == "json" else show_lines([message])
        return ExitCode.DONE

    exit_with_result(context, "approve", output, work)


async def _approve(place: in_cluster.ClusterResourceOptions, digest: str | None) -> str:
    from stoker.fleet.approve import approve_plan  # noqa: PLC0415 - --help needs none of it
    from stoker.fleet.approve_deletions import approve_deletions  # noqa: PLC0415

    async with place.client() as client:
        if place.kind == _DESTINATION:
            return await approve_deletions(client, place.named, digest)
        return await approve_plan(client, place.named, digest)
