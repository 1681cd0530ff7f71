"""What the demo shows itself with: titles, lines, and commands that run for real."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from stoker.domain.errors import Stalled

COMMAND_SECONDS = 120.0
WIDTH = 100


def act(title: str) -> None:
    """Begin a step."""
    click.echo()
    click.secho(title, bold=True)


def say(text: str, *, by: str = "") -> None:
    """Show lines, each with who says it."""
    for line in text.strip("\n").splitlines():
        click.echo(f"  {by}{': ' if by else ''}{line}".rstrip())


def show_command(words: Sequence[str], folder: Path) -> None:
    """A command as one would type it, over several lines, without the demo's own folder before each path."""
    plain = shlex.join(word.removeprefix(f"{folder}/") for word in words)
    line, *options = plain.split(" --")
    for option in options:
        if len(line) + len(option) > WIDTH:
            say(f"{line} \\" if line.startswith(" ") else f"$ {line} \\")
            line = "   "
        line = f"{line} --{option}"
    say(line)


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
