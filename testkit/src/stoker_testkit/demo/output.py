"""Output of the demo: titles, lines with the name of what they are about, and commands that really run."""

from __future__ import annotations

import shlex
import subprocess
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path

import click

from stoker.domain.errors import Stalled

COMMAND_SECONDS = 120.0
WIDTH = 100
_MARGIN = 8
"""Columns before and after a line of a command."""
_WRAPPED = textwrap.TextWrapper(
    WIDTH,
    initial_indent="  ",
    subsequent_indent="      ",
    replace_whitespace=False,
    break_long_words=False,
    break_on_hyphens=False,
)
_COLOURS = {"git": "yellow", "dashboard": "magenta"}
_GATEWAY_COLOUR = "cyan"


def title(text: str, number: int = 0) -> None:
    """Begin a step; the steps that do something have numbers."""
    click.echo()
    click.secho(f"{number}. {text}" if number else text, bold=True)


def say(text: str, *, about: str = "") -> None:
    """Show lines, each with the name of what it is about; long ones are wrapped."""
    for line in text.splitlines():
        if not line.strip():
            continue
        wrapped = "\n".join(_WRAPPED.wrap(f"{about}{': ' if about else ''}{line.rstrip()}"))
        if about:
            name = click.style(about, fg=_COLOURS.get(about, _GATEWAY_COLOUR))
            wrapped = wrapped.replace(about, name, 1)
        click.echo(wrapped)


def show_command(words: Sequence[str], folder: Path) -> None:
    """A command as one would type it, over several lines, without the demo's own folder before each path."""
    plain = shlex.join(word.removeprefix(f"{folder}/") for word in words)
    line, *options = plain.split(" --")
    lines = [f"$ {line}"]
    for option in options:
        if len(lines[-1]) + len(option) > WIDTH - _MARGIN:
            lines[-1] += " \\"
            lines.append("   ")
        lines[-1] += f" --{option}"
    say("\n".join(lines))


def stoker(*arguments: str, ends: int = 0) -> str:
    """Run this very program as another process; return what it printed if it ended as expected."""
    done = subprocess.run(
        [*program(), *arguments], capture_output=True, text=True, check=False, timeout=COMMAND_SECONDS
    )
    if done.returncode != ends:
        printed = done.stderr.strip() or done.stdout.strip()
        raise Stalled(f"stoker {arguments[0]} ended with {done.returncode} instead of {ends}: {printed}")
    return done.stdout


def program() -> list[str]:
    return [sys.executable, "-m", "stoker"]
