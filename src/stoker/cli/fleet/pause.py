"""`stoker pause` and `stoker resume`: pause and resume one resource, or all of them.

One resource is paused by its field `spec.paused`; all of them by the pause ConfigMap that the controller
watches (the emergency stop). The command writes what `kubectl` would, as the user of the kubeconfig. Exit
codes: 0 done, 2 wrong input, 4 the cluster cannot be reached or denies access.
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

_HELP = {"help_option_names": ["-h", "--help"]}
_OPTIONS = (
    in_cluster.NAME,
    in_cluster.NAMESPACE,
    option(
        "--everything",
        section=in_cluster.SECTION,
        is_flag=True,
        help="Emergency stop: all resources of the operator in this namespace.",
    ),
    *in_cluster.RESOURCE_OPTIONS,
    options.OUTPUT,
)


@click.command("pause", cls=SentenceCommand, context_settings=_HELP)
@combine_options(_OPTIONS)
@click.pass_context
def pause_command(context: click.Context, /, **given: Any) -> None:
    """Pause a resource: nothing is synced to its gateways."""
    _run_pause(context, "pause", paused=True, **given)


@click.command("resume", cls=SentenceCommand, context_settings=_HELP)
@combine_options(_OPTIONS)
@click.pass_context
def resume_command(context: click.Context, /, **given: Any) -> None:
    """Resume a paused resource."""
    _run_pause(context, "resume", paused=False, **given)


def _run_pause(
    context: click.Context,
    verb: str,
    *,
    paused: bool,
    name: str | None,
    namespace: str,
    everything: bool,
    output: str,
    **rest: Any,
) -> None:
    given = in_cluster.ClusterResourceOptions.taken_from(rest, namespace, name or "")

    def work() -> int:
        if bool(name) == everything:
            raise InvalidValue("name one resource, or give --everything; not both")
        place = given.settled()
        message = run(
            _pause_installation(place, paused=paused) if everything else _pause_resource(place, paused=paused)
        )
        show_object({"message": message}) if output == "json" else show_lines([message])
        return ExitCode.DONE

    exit_with_result(context, verb, output, work)


async def _pause_resource(place: in_cluster.ClusterResourceOptions, *, paused: bool) -> str:
    from stoker.fleet.pause import pause_resource  # noqa: PLC0415 - --help needs none of it

    async with place.client() as client:
        return await pause_resource(client, place.named, paused=paused)


async def _pause_installation(place: in_cluster.ClusterResourceOptions, *, paused: bool) -> str:
    from stoker.fleet.pause import PAUSE_MAP, has_live_controller, pause_installation  # noqa: PLC0415

    async with place.client() as client:
        done = await pause_installation(client, place.namespace, paused=paused, manager="stoker-cli")
        if not await has_live_controller(client, place.namespace):
            raise InvalidValue(
                f"{PAUSE_MAP} was written, but no controller runs in namespace {place.namespace}, so it has "
                "no effect: --namespace must be the operator's namespace"
            )
    return done
