"""What the demo shows itself with: titles, lines, and commands that run for real."""

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
_ROOM = 8
"""For what stands before and after a line of a command."""
_WRAPPED = textwrap.TextWrapper(
    WIDTH,
    initial_indent="  ",
    subsequent_indent="      ",
    replace_whitespace=False,
    break_long_words=False,
    break_on_hyphens=False,
)


def act(title: str, number: int = 0) -> None:
    """Begin a step; those of the story have numbers."""
    click.echo()
    click.secho(f"{number}. {title}" if number else title, bold=True)


def say(text: str, *, by: str = "") -> None:
    """Show lines, each with who says it; long ones go on in the next line."""
    for line in text.splitlines():
        if line.strip():
            click.echo("\n".join(_WRAPPED.wrap(f"{by}{': ' if by else ''}{line.rstrip()}")))


def show_command(words: Sequence[str], folder: Path) -> None:
    """A command as one would type it, over several lines, without the demo's own folder before each path."""
    plain = shlex.join(word.removeprefix(f"{folder}/") for word in words)
    line, *options = plain.split(" --")
    lines = [f"$ {line}"]
    for option in options:
        if len(lines[-1]) + len(option) > WIDTH - _ROOM:
            lines[-1] += " \\"
            lines.append("   ")
        lines[-1] += f" --{option}"
    say("\n".join(lines))


def stoker(*arguments: str, ends: int = 0) -> str:
    """Run this very program as another process; what it prints, if it ends as it should."""
    done = subprocess.run(
        [*program(), *arguments], capture_output=True, text=True, check=False, timeout=COMMAND_SECONDS
    )
    if done.returncode != ends:
        said = done.stderr.strip() or done.stdout.strip()
        raise Stalled(f"stoker {arguments[0]} ended with {done.returncode} in place of {ends}: {said}")
    return done.stdout


def program() -> list[str]:
    return [sys.executable, "-m", "stoker"]
