"""Checks a command of a page with the product's own command line.

The parser is the real one (`stoker.cli.commands.cli`, handed in, because tests stand below the
command line in the house). Nothing is run, and no file that is named has to exist.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import click

from stoker_testkit.docs_checks.shell_parser import plain


def trouble(cli: click.Group, words: Sequence[str], *, whole: bool = True) -> str | None:
    """The error in the arguments after `stoker`; not `whole`: a mention, which may leave arguments out."""
    context = click.Context(cli, info_name="stoker")
    command: click.Command = cli
    rest = list(words)
    try:
        while isinstance(command, click.Group):
            given, rest, _ = command.make_parser(context).parse_args(rest)
            if not rest:
                answers = any(one.is_eager and given.get(one.name or "") for one in command.params)
                return "no verb" if whole and not answers else None
            name, found, rest = command.resolve_command(context, rest)
            if found is None:
                return f"there is no verb {rest[0]!r}"
            command, context = found, click.Context(found, info_name=name, parent=context)
        return next(_wrong(command, context, rest, whole=whole), None)
    except click.UsageError as error:
        return error.format_message()


def _wrong(command: click.Command, context: click.Context, words: list[str], *, whole: bool) -> Iterator[str]:
    if not whole:
        yield from _unknown(command, words)
        return
    given, extra, _ = command.make_parser(context).parse_args(words)
    if extra:
        yield f"nothing takes {' '.join(extra)!r}"
    if given.get("help"):
        return
    for parameter in command.params:
        value = given.get(parameter.name or "")
        if not _is_given(value):
            if parameter.required and not context.resilient_parsing:
                yield f"{parameter.human_readable_name} is missing"
        elif not isinstance(parameter.type, click.Path | click.File):
            yield from _refused(parameter, context, value)


def _unknown(command: click.Command, words: Sequence[str]) -> Iterator[str]:
    """Options that a mention names and that there are not."""
    options = [one for one in command.params if isinstance(one, click.Option)]
    known = {name for one in options for name in (*one.opts, *one.secondary_opts)} | {"--help", "-h"}
    for word in words:
        name = word.partition("=")[0].rstrip(",.")
        if name.startswith("--") and len(name) > 2 and name not in known:
            yield f"there is no option {name}"


def _refused(parameter: click.Parameter, context: click.Context, value: Any) -> Iterator[str]:
    texts = [value] if isinstance(value, str) else value if isinstance(value, list | tuple) else []
    if any(isinstance(text, str) and not plain(text) for text in texts):
        return
    try:
        parameter.type_cast_value(context, value)
    except click.UsageError as error:
        yield f"{parameter.human_readable_name}: {error.format_message()}"


def _is_given(value: Any) -> bool:
    return isinstance(value, str | int | float | bool | list | tuple) and value not in ((), [])
