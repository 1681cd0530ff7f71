"""`stoker migrate`: converts the configuration of git-sync or of the Go operator into our resources.

It changes nothing in the cluster: it reads one object, or a file, and writes manifests to a file or to
standard output, with a comment for each point that a person has to check. Exit codes: 0 done, 2 wrong input,
4 the cluster cannot be reached or denies access.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from stoker.cli.common import in_cluster
from stoker.cli.common.help_sections import SentenceCommand, combine_options, option
from stoker.cli.common.run import exit_with_result, run
from stoker.cli.exit_codes import ExitCode
from stoker.domain.errors import InvalidValue

_FROM = "From"
_TO = "To"


@click.command("migrate", cls=SentenceCommand, context_settings={"help_option_names": ["-h", "--help"]})
@option("--from-configmap", "config_map", section=_FROM, metavar="NAME", help="A git-sync ConfigMap.")
@option(
    "--from-gatewaysync",
    "gateway_sync",
    section=_FROM,
    metavar="NAME",
    help="A GatewaySync resource of the Go operator.",
)
@option(
    "--filename",
    "-f",
    "file",
    section=_FROM,
    metavar="FILE",
    help="A file with one of both, or - for standard input.",
)
@combine_options((in_cluster.NAMESPACE, *in_cluster.CONNECTION_OPTIONS))
@option(
    "--name",
    section=_TO,
    metavar="NAME",
    help="Name of the IgnitionSync. [default: the name of the ConfigMap]",
)
@option("--output", section=_TO, type=Path, metavar="FILE", help="[default: standard output]")
@click.pass_context
def migrate_command(
    context: click.Context,
    /,
    *,
    config_map: str | None,
    gateway_sync: str | None,
    file: str | None,
    namespace: str,
    name: str | None,
    output: Path | None,
    **rest: Any,
) -> None:
    """Convert the configuration of git-sync or of the Go operator into resources."""

    def work() -> int:
        if [config_map, gateway_sync, file].count(None) != 2:
            raise InvalidValue("give one of --from-configmap, --from-gatewaysync and --filename")
        if gateway_sync is not None and name is not None:
            raise InvalidValue("--name is for a ConfigMap of git-sync: a GatewaySync keeps its own")
        text = _migrated_manifests(config_map, gateway_sync, file, namespace, name, rest)
        if output is None:
            click.echo(text, nl=False)
        else:
            _write_new_file(output, text)
        return ExitCode.DONE

    exit_with_result(context, "migrate", "text", work)


def _migrated_manifests(
    config_map: str | None,
    gateway_sync: str | None,
    file: str | None,
    namespace: str,
    name: str | None,
    rest: dict[str, Any],
) -> str:
    """Return the manifests as the text of one file."""
    from stoker.cli.migrate import inputs  # noqa: PLC0415 - --help needs none of it

    if file is not None:
        return inputs.manifests_text(inputs.from_file(file, namespace or "default", name))
    given = in_cluster.ClusterResourceOptions(
        namespace, str(config_map or gateway_sync), None, rest["kubeconfig"], rest["cluster"]
    )
    where = given.settled()
    made = run(
        inputs.from_config_map(where, name)
        if config_map is not None
        else inputs.from_gateway_sync_kind(where)
    )
    return made.text()


def _write_new_file(place: Path, text: str) -> None:
    """Write a new file; an existing file belongs to the user and is never overwritten."""
    try:
        with place.open("x") as made:
            made.write(text)
    except FileExistsError:
        raise InvalidValue(f"{place} exists already; choose another --output") from None
