"""`stoker completion SHELL`: prints the script that makes a shell complete verbs and options.

The script calls the command at every Tab, so it never goes stale.
"""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from stoker.cli.common.help_sections import SentenceCommand

SHELLS = ("bash", "zsh", "fish")


@click.command("completion", cls=SentenceCommand, context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def completion_command(context: click.Context, /, *, shell: str) -> None:
    """Print a completion script for a shell.

    \b
    bash: source <(stoker completion bash)
    zsh:  source <(stoker completion zsh)
    fish: stoker completion fish | source
    """
    kind = get_completion_class(shell)
    assert kind is not None  # noqa: S101 - click knows every shell of the choice
    root = context.find_root()
    click.echo(kind(root.command, {}, "stoker", "_STOKER_COMPLETE").source())
