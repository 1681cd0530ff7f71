"""The entry point: finds the verb, and turns an error into one sentence and an exit code.

A verb's module is imported when the verb is called, so that `stoker --version`
does not pay for an HTTP stack that only the controller needs.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import NamedTuple

import click

from stoker import __version__
from stoker.cli.exits import exit_code
from stoker.domain.errors import StokerError


class Verb(NamedTuple):
    module: str
    command: str
    summary: str


VERBS = {
    "sync": Verb("stoker.cli.sync", "sync_command", "Bring a folder to a commit, once, without a cluster."),
    "controller": Verb("stoker.cli.controller", "controller_command", "Run the operator's controller."),
    "demo": Verb("stoker.cli.demo", "demo_command", "See the main job done for real on this machine."),
}


class Verbs(click.Group):
    """A group that knows its verbs by name and imports one only to run it."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        verb = VERBS.get(cmd_name)
        if verb is None:
            return None
        command = getattr(import_module(verb.module), verb.command)
        assert isinstance(command, click.Command)  # noqa: S101 - a wrong entry in VERBS is our own mistake
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, verb.summary) for name, verb in VERBS.items()])


@click.group(cls=Verbs, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="stoker %(version)s")
def cli() -> None:
    """Configuration that flows both ways between Git and what runs."""


def main() -> None:
    """Run the command line; never shows a traceback for an error that was foreseen."""
    try:
        cli()
    except StokerError as error:
        click.echo(f"stoker: {error.message}", err=True)
        sys.exit(exit_code(error))
