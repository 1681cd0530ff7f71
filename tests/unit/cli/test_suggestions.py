"""A misspelt word is answered with the one that was probably meant."""

from __future__ import annotations

from collections.abc import Iterator

import click
import pytest
from click.testing import CliRunner

from stoker.cli.commands import VERBS, cli
from stoker.cli.exit_codes import ExitCode


def misspelt(word: str) -> str:
    """Without one of its letters, as hands do it."""
    return word[: len(word) // 2] + word[len(word) // 2 + 1 :]


def leaves(group: click.Group = cli, *before: str) -> Iterator[tuple[str, ...]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from leaves(command, *before, name)
        else:
            yield (*before, name)


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_that_is_almost_one(verb: str) -> None:
    done = CliRunner().invoke(cli, [misspelt(verb)])
    assert done.exit_code == ExitCode.WRONG_INPUT
    assert misspelt(verb) in done.stderr
    assert f"'{verb}'" in done.stderr.partition("Did you mean")[2]


@pytest.mark.parametrize("path", list(leaves()), ids=" ".join)
def test_an_option_that_is_almost_one(path: tuple[str, ...]) -> None:
    command: click.Command = cli
    for name in path:
        assert isinstance(command, click.Group)
        found = command.get_command(click.Context(command), name)
        assert found is not None
        command = found
    options = [one.opts[-1] for one in command.params if isinstance(one, click.Option)]
    option = max(options, key=len) if options else "--help"
    done = CliRunner().invoke(cli, [*path, misspelt(option)])
    assert done.exit_code == ExitCode.WRONG_INPUT
    assert f"'{option}'" in done.stderr.partition("Did you mean")[2], done.stderr


def test_what_is_nothing_like_a_verb_gets_no_advice() -> None:
    done = CliRunner().invoke(cli, ["xylophone"])
    assert "No such command 'xylophone'." in done.stderr
    assert "Did you mean" not in done.stderr
