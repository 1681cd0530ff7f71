"""Text with variables in it: `services/{{.Vars.line}}/projects`.

The syntax is the part of Go's templates that names a field or spells a literal
(C-094): `{{.GatewayName}}`, `{{"{{"}}`. Whatever else Go would allow (pipes, calls,
loops) is an error, as are an unknown field, a missing value and `{{` that begins no
expression. A value is put in as it is and never read as a template again.

Templates stand in paths (`render_path`), in values (`Template`) and in whole files
(`stoker.engine.transform.templates`). What comes out is text; who makes a path of it
checks it as one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

from stoker.domain.errors import InvalidValue
from stoker.domain.intent.template_values import TemplateValues
from stoker.domain.reasons import Reason

MAX_LENGTH = 4096

_NOTHING = "\0"
"""Stands for an empty value while it is looked where that leaves nothing."""

# Compiled when it is first needed: most mappings are no templates.
_EXPRESSION = (
    r"\{\{\s*+(?:"
    r"\.Vars\.(?P<variable>[A-Za-z_][A-Za-z0-9_]*+)"
    r"|\.Labels\.(?P<label>[A-Za-z0-9](?:[-A-Za-z0-9_./]*[A-Za-z0-9])?)"
    r"|\.(?P<field>[A-Za-z][A-Za-z0-9]*+)"
    r'|(?P<quoted>"(?:[^"\\\n]++|\\.)*+")'
    r"|`(?P<raw>[^`]*+)`"
    r")\s*+\}\}"
)

_ATTRIBUTES = {
    "GatewayName": "gateway_name",
    "Namespace": "namespace",
    "PodName": "pod_name",
    "PodOrdinal": "pod_ordinal",
    "SiteNumber": "site_number",
    "ClusterName": "cluster_name",
    "TimeZone": "time_zone",
    "Locale": "locale",
    "Ref": "ref",
    "Commit": "commit",
    "Timestamp": "timestamp",
}


class TemplateUnresolvable(InvalidValue):
    """A template that cannot be read, or that asks for what there is not (R-OBS-26)."""

    default_reason = Reason.TEMPLATE_RESOLUTION_FAILED


class TemplateFault(Exception):
    """What is wrong and where; who knows what the text is makes a sentence of it."""

    def __init__(self, at: int, why: str) -> None:
        super().__init__(why)
        self.at = at
        self.why = why


class TemplateField(NamedTuple):
    """An expression that stands for a value: an attribute of the values, or what that one has for a key."""

    name: str
    attribute: str
    key: str
    at: int


TemplatePart = str | TemplateField


def parse_template(text: str, *, strict: bool = False) -> tuple[TemplatePart, ...]:
    """Literal text and fields in their order.

    A `}}` that closes nothing is literal text, as in Go: JSON is full of them. Where
    `strict` is asked for it is an error.
    """
    parts: list[TemplatePart] = []
    at = 0
    while (opened := text.find("{{", at)) >= 0:
        if strict and text.find("}}", at, opened) >= 0:
            raise TemplateFault(at, "has '}}' without '{{' before it")
        if opened > at:
            parts.append(text[at:opened])
        expression = re.compile(_EXPRESSION).match(text, opened)
        if expression is None:
            raise _not_an_expression(text, opened)
        parts.append(_parse_expression(expression))
        at = expression.end()
    if strict and text.find("}}", at) >= 0:
        raise TemplateFault(at, "has '}}' without '{{' before it")
    if at < len(text):
        parts.append(text[at:])
    return tuple(parts)


def fill_parts(parts: tuple[TemplatePart, ...], values: TemplateValues) -> list[str]:
    """Each part as text. One loop without calls: it runs several times for each mapping of each pass."""
    pieces: list[str] = []
    for part in parts:
        if isinstance(part, str):
            pieces.append(part)
            continue
        value = getattr(values, part.attribute)
        if part.key and value is not None:
            value = value.get(part.key)
        if value is None:
            raise TemplateFault(part.at, f"asks for .{part.name[:80]}, which has no value")
        pieces.append(value)
    return pieces


class Template:
    """A short template, read once and rendered often."""

    __slots__ = ("_only", "_parts", "names", "text")

    def __init__(self, text: str) -> None:
        if len(text) > MAX_LENGTH:
            raise TemplateUnresolvable(f"template {text[:60]!r}… is longer than {MAX_LENGTH} characters")
        try:
            self._parts = parse_template(text, strict=True)
        except TemplateFault as fault:
            raise TemplateUnresolvable(f"template {_truncate(text)} {fault.why}") from None
        self.text = text
        self.names = field_names(self._parts)
        """The fields that it depends on, such as `GatewayName` and `Vars.line`."""
        self._only = None if self.names else "".join(map(str, self._parts))

    def render(self, values: TemplateValues, quote: Callable[[str], str] | None = None) -> str:
        """The text with every field replaced by its value, which `quote` may put into another form first."""
        if self._only is not None:
            return self._only
        try:
            pieces = fill_parts(self._parts, values)
        except TemplateFault as fault:
            raise TemplateUnresolvable(f"template {_truncate(self.text)} {fault.why}") from None
        if quote is not None:
            pairs = zip(self._parts, pieces, strict=True)
            pieces = [quote(piece) if isinstance(part, TemplateField) else piece for part, piece in pairs]
        text = "".join(pieces)
        if len(text) > MAX_LENGTH:
            raise TemplateUnresolvable(
                f"template {_truncate(self.text)} gives more than {MAX_LENGTH} characters"
            )
        return text

    def __repr__(self) -> str:
        return f"Template({_truncate(self.text)})"


template = lru_cache(maxsize=1024)(Template)
"""The template of a text; the same texts come back with each pass."""


def render_path(text: str, values: TemplateValues) -> str:
    """A path with every field replaced; time is none of them (C-092), or each commit would move the files."""
    compiled = template(text)
    if "Timestamp" in compiled.names:
        raise TemplateUnresolvable(
            f"template {_truncate(text)} asks for .Timestamp, which must not stand in a path"
        )
    path = compiled.render(values)
    if compiled.names and not all(path.split("/")):
        _refuse_empty_parts(compiled, values)
    return path


def _refuse_empty_parts(compiled: Template, values: TemplateValues) -> None:
    """A part that is empty because its value is leads to the folder above, or to the root: nobody means that.

    `--var site=$SITE` of a script in which there is no SITE would deliver every site.
    """
    marked = compiled.render(values, lambda value: value or _NOTHING)
    if any(part and not part.strip(_NOTHING) for part in marked.split("/")):
        raise TemplateUnresolvable(
            f"template {_truncate(compiled.text)} has a part that is empty, because its value is"
        )


def field_names(parts: tuple[TemplatePart, ...]) -> frozenset[str]:
    return frozenset(part.name for part in parts if isinstance(part, TemplateField))


def _parse_expression(expression: re.Match[str]) -> TemplatePart:
    at = expression.start()
    if variable := expression["variable"]:
        return TemplateField(f"Vars.{variable}", "vars", variable, at)
    if label := expression["label"]:
        return TemplateField(f"Labels.{label}", "labels", label, at)
    if name := expression["field"]:
        attribute = _ATTRIBUTES.get(name)
        if attribute is None:
            raise TemplateFault(at, f"asks for .{name[:80]}, which has no value")
        return TemplateField(name, attribute, "", at)
    if quoted := expression["quoted"]:
        try:
            return str(json.loads(quoted))
        except ValueError:
            raise TemplateFault(at, f"has the literal {quoted[:80]}, whose escapes cannot be read") from None
    return expression["raw"]


def _not_an_expression(text: str, at: int) -> TemplateFault:
    end = text.find("}}", at + 2)
    if end < 0:
        return TemplateFault(at, "has '{{' without '}}' after it")
    expression = text[at + 2 : min(end, at + 82)].strip()
    return TemplateFault(
        at,
        f"has the expression {expression!r}; only fields such as .GatewayName or .Vars.name "
        'and literals such as "{{" are allowed',
    )


def _truncate(text: str) -> str:
    return repr(text if len(text) <= 120 else text[:117] + "...")
