"""click commands with help in sections and usage errors in one sentence, as JSON if `-o json` is given."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import click

from stoker.cli.exit_codes import ExitCode
from stoker.domain.reasons import Reason

F = TypeVar("F", bound=Callable[..., object])


class SectionedOption(click.Option):
    """An option with the title of the help section that lists it."""

    def __init__(self, *args: Any, section: str = "", **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.section = section


class SentenceCommand(click.Command):
    """A verb with help in sections; a usage error is one sentence and exits with 2."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        sections: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            if isinstance(parameter, click.Argument):  # click lists arguments itself
                continue
            record = parameter.get_help_record(ctx)
            if record is not None:
                sections.setdefault(getattr(parameter, "section", "") or "Options", []).append(record)
        for title, records in sections.items():
            with formatter.section(title):
                formatter.write_dl(records)

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        given = list(args)  # click empties the list
        try:
            return super().make_context(info_name, args, parent, **extra)
        except click.UsageError as error:
            said = error.format_message().replace("\n", " ").strip()
            if wants_json(given):
                click.echo(json.dumps({"reason": Reason.INVALID_VALUE, "message": said}, ensure_ascii=False))
            else:
                where = error.ctx.command_path if error.ctx is not None else info_name
                click.echo(f"{where}: {Reason.INVALID_VALUE}: {said}", err=True)
            raise click.exceptions.Exit(ExitCode.WRONG_INPUT) from None


def wants_json(arguments: Sequence[str]) -> bool:
    """Return whether an invalid command line asks for JSON output."""
    pairs = zip(arguments, [*arguments[1:], ""], strict=True)
    return any(
        one in ("--output=json", "-ojson") or (one in ("--output", "-o") and two == "json")
        for one, two in pairs
    )


def option(*names: str, section: str, **how: Any) -> Callable[[F], F]:
    return click.option(*names, cls=SectionedOption, section=section, **how)


def repeatable_option(*names: str, section: str, **how: Any) -> Callable[[F], F]:
    return option(*names, section=section, multiple=True, **how)


def combine_options(options: Sequence[Callable[[F], F]]) -> Callable[[F], F]:
    """Return one decorator that adds all options; the help lists them in this order."""

    def decorate(function: F) -> F:
        for one in reversed(options):
            function = one(function)
        return function

    return decorate


def flags_given(context: click.Context, names: Mapping[str, str]) -> list[str]:
    """Return the flags (values of `names`, by parameter name) set on the command line or by a variable."""
    by_hand = (click.core.ParameterSource.COMMANDLINE, click.core.ParameterSource.ENVIRONMENT)
    return [flag for name, flag in names.items() if context.get_parameter_source(name) in by_hand]
