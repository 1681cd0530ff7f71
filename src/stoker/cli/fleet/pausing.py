"""`stoker pause` and `stoker resume`: hold one resource still, or all of them, and let go again.

One resource is held by its field `spec.paused`; all of them by the map that the controller
watches, the emergency stop. Either is what `kubectl` would write, in the name of whoever
runs the command. Exit codes: 0 done, 2 wrong input, 4 the cluster cannot be reached or does
not let us.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import click

from stoker.cli import in_cluster, options
from stoker.cli.exits import Exit
from stoker.cli.running import run, told
from stoker.cli.sections import SentenceCommand, applied, option
from stoker.cli.showing import show_lines, show_object
from stoker.domain.errors import InvalidValue

if TYPE_CHECKING:
    from stoker.kube.client import Client

STALE_SECONDS = 60.0
"""A Lease that was not renewed for so long has no living holder, whatever the clocks say."""
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
    place = in_cluster.Place.taken_from(rest, namespace, name or "")

    def work() -> int:
        if bool(name) == everything:
            raise InvalidValue("say either --name, for one resource, or --everything")
        message = run(_stop_all(place, paused=paused) if everything else _hold(place, paused=paused))
        show_object({"message": message}) if output == "json" else show_lines([message])
        return Exit.DONE

    told(context, verb, output, work)


async def _hold(place: in_cluster.Place, *, paused: bool) -> str:
    from stoker.cli.named_resources import RESOURCES, look  # noqa: PLC0415 - --help needs none of it
    from stoker.kube.objects import Header  # noqa: PLC0415

    async with place.client() as client:
        kind = (await look(client, place)).kind
        body = {"spec": {"paused": paused}}
        await client.patch(RESOURCES[kind], body, place.name, place.namespace, into=Header)
    return f"{kind} {place.namespace}/{place.name} {'is held still' if paused else 'goes on'}"


async def _stop_all(place: in_cluster.Place, *, paused: bool) -> str:
    from stoker.controller.seeing.observing import PAUSE_MAP  # noqa: PLC0415
    from stoker.kube.objects import Header  # noqa: PLC0415
    from stoker.kube.resources import CONFIG_MAPS  # noqa: PLC0415

    body = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": PAUSE_MAP, "namespace": place.namespace},
        "data": {"paused": "true" if paused else "false"},
    }
    async with place.client() as client:
        # In an emergency the writing comes first, and the question whether it is heard after it.
        await client.apply(CONFIG_MAPS, body, PAUSE_MAP, place.namespace, manager="stoker-cli", into=Header)
        if not await _somebody_leads(client, place.namespace):
            raise InvalidValue(
                f"{PAUSE_MAP} was written, but no controller runs in namespace {place.namespace}, and nobody "
                "heeds it there: --namespace must name the operator's own"
            )
    where = f"by {PAUSE_MAP} in namespace {place.namespace}"
    return f"everything is held still {where}" if paused else f"everything goes on, {where}"


async def _somebody_leads(client: Client, namespace: str) -> bool:
    """Whether a controller lives there; who may not see that is believed."""
    from stoker.controller.sharding.dividing import index_of  # noqa: PLC0415
    from stoker.domain.clock import SystemClock  # noqa: PLC0415
    from stoker.kube.errors import Forbidden  # noqa: PLC0415
    from stoker.kube.lease import Lease  # noqa: PLC0415
    from stoker.kube.resources import LEASES  # noqa: PLC0415

    try:
        leases = await client.list(LEASES, namespace, into=Lease)
    except Forbidden:
        return True
    oldest = SystemClock().now() - timedelta(seconds=STALE_SECONDS)
    return any(
        index_of(one) is not None and one.spec.holder_identity and _renewed(one.spec.renew_time) >= oldest
        for one in leases
    )


def _renewed(text: str | None) -> datetime:
    """When a Lease was last renewed: who was killed or uninstalled is its holder for ever."""
    from stoker.domain.clock import parse_rfc3339  # noqa: PLC0415

    try:
        return parse_rfc3339(text or "")
    except ValueError:
        return datetime.min.replace(tzinfo=UTC)
