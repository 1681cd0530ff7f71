"""What the demo shows itself with: titles, lines, and commands that run for real."""

from __future__ import annotations

import subprocess
import sys

import click

from stoker.domain.errors import Stalled

COMMAND_SECONDS = 120.0


def act(title: str) -> None:
    """Begin a step."""
    click.echo()
    click.secho(title, bold=True)


def say(text: str, *, by: str = "") -> None:
    """Show lines, each with who says it."""
    for line in text.strip("\n").splitlines():
        click.echo(f"  {by}{': ' if by else ''}{line}".rstrip())


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
