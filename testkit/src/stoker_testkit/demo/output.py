"""Output of the demo: titles, lines prefixed with their subject, and commands that are really run."""

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
    """Begin a step; steps that do something have numbers."""
    click.echo()
    click.secho(f"{number}. {text}" if number else text, bold=True)


def say(text: str, *, about: str = "") -> None:
    """Print lines, each prefixed with its subject; long lines are wrapped."""
    for line in text.splitlines():
        if not line.strip():
            continue
        wrapped = "\n".join(_WRAPPED.wrap(f"{about}{': ' if about else ''}{line.rstrip()}"))
        if about:
            name = click.style(about, fg=_COLOURS.get(about, _GATEWAY_COLOUR))
            wrapped = wrapped.replace(about, name, 1)
        click.echo(wrapped)


def show_command(words: Sequence[str], folder: Path) -> None:
    """Print a command as a user would type it, over several lines, paths relative to the demo's folder."""
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
    """Run this program in another process; return its output if it ended with the expected code."""
    done = subprocess.run(
        [*program(), *arguments], capture_output=True, text=True, check=False, timeout=COMMAND_SECONDS
    )
    if done.returncode != ends:
        printed = done.stderr.strip() or done.stdout.strip()
        raise Stalled(f"stoker {arguments[0]} ended with {done.returncode} instead of {ends}: {printed}")
    return done.stdout


def program() -> list[str]:
    return [sys.executable, "-m", "stoker"]
