"""`stoker pause` and `stoker resume`: hold one resource still, or all of them, and let go again.

One resource is held by its field `spec.paused`; all of them by the map that the controller
watches, the emergency stop. Either is what `kubectl` would write, in the name of whoever
runs the command. Exit codes: 0 done, 2 wrong input, 4 the cluster cannot be reached or does
not let us.
"""

from __future__ import annotations

from typing import Any

import click

from stoker.cli.common import in_cluster, options
from stoker.cli.common.help_sections import SentenceCommand, applied, option
from stoker.cli.common.output import show_lines, show_object
from stoker.cli.common.run import run, told
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
        help="The emergency stop: all resources that the operator in this namespace looks after.",
    ),
    *in_cluster.REACHING,
    options.OUTPUT,
)


@click.command("pause", cls=SentenceCommand, context_settings=_HELP)
@applied(_OPTIONS)
@click.pass_context
def pause_command(context: click.Context, /, **given: Any) -> None:
    """Hold a resource still: its gateways stay as they are."""
    _carry_out(context, "pause", paused=True, **given)


@click.command("resume", cls=SentenceCommand, context_settings=_HELP)
@applied(_OPTIONS)
@click.pass_context
def resume_command(context: click.Context, /, **given: Any) -> None:
    """Let a resource go on that was held still."""
    _carry_out(context, "resume", paused=False, **given)


def _carry_out(
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
            raise InvalidValue("say either --name, for one resource, or --everything")
        place = given.settled()
        message = run(_stop_all(place, paused=paused) if everything else _hold(place, paused=paused))
        show_object({"message": message}) if output == "json" else show_lines([message])
        return ExitCode.DONE

    told(context, verb, output, work)


async def _hold(place: in_cluster.ClusterResourceOptions, *, paused: bool) -> str:
    from stoker.fleet.pause import hold  # noqa: PLC0415 - --help needs none of it

    async with place.client() as client:
        return await hold(client, place.named, paused=paused)


async def _stop_all(place: in_cluster.ClusterResourceOptions, *, paused: bool) -> str:
    from stoker.fleet.pause import PAUSE_MAP, hold_everything, is_heeded  # noqa: PLC0415

    async with place.client() as client:
        done = await hold_everything(client, place.namespace, paused=paused, manager="stoker-cli")
        if not await is_heeded(client, place.namespace):
            raise InvalidValue(
                f"{PAUSE_MAP} was written, but no controller runs in namespace {place.namespace}, and nobody "
                "heeds it there: --namespace must name the operator's own"
            )
    return done
