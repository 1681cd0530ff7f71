"""Output of a verb: the report on standard output, everything else on standard error.

With `--output json` standard output holds exactly one object, also when a command fails; warnings never
appear there. Characters that are not printable are escaped, so that text from outside cannot send control
sequences to a terminal.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import click

from stoker.domain.errors import StokerError
from stoker.domain.text import escape_unprintable

if TYPE_CHECKING:
    from stoker.domain.intent.intent import Notice


def show_object(value: Mapping[str, object]) -> None:
    """Print one JSON object on one line."""
    click.echo(json.dumps(value, ensure_ascii=False))


def show_lines(lines: Iterable[str]) -> None:
    for line in lines:
        click.echo(escape_unprintable(line, keep="\t"))


def show_error(verb: str, error: StokerError, output: str) -> None:
    """Print one sentence with the reason to look up in docs/troubleshooting.md."""
    if output == "json":
        show_object({"reason": error.reason.value, "message": error.message})
    else:
        print_to_stderr(f"stoker {verb}: {error.reason}: {error.message}")


def show_notices(verb: str, notices: Sequence[Notice]) -> None:
    for notice in notices:
        print_to_stderr(f"stoker {verb}: warning: {notice.reason}: {notice.message}")


def print_to_stderr(line: str) -> None:
    click.echo(escape_unprintable(line, keep="\t"), err=True)
