"""Text with variables in it: `services/{{.Vars.line}}/projects`.

The syntax is the part of Go's templates that names a field or spells a literal: `{{.GatewayName}}`,
`{{"{{"}}`. All other Go syntax (pipes, calls, loops) is an error, as are an unknown field, a missing value
and a `{{` that begins no expression. A value is inserted literally and is never parsed as a template.

Templates occur in paths (`render_path`), in values (`Template`) and in whole files
(`stoker.engine.transform.templates`). The result is text; a caller that uses it as a path must validate it.
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
"""Marks an empty value while `_refuse_empty_parts` looks for path parts that it leaves empty."""

# Compiled on first use: most mappings are not templates.
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
    """A template that cannot be parsed, or that refers to a value that does not exist."""

    default_reason = Reason.TEMPLATE_RESOLUTION_FAILED


class TemplateFault(Exception):
    """An error and its position; the caller, which knows what the text is, makes a message of it."""

    def __init__(self, at: int, why: str) -> None:
        super().__init__(why)
        self.at = at
        self.why = why


class TemplateField(NamedTuple):
    """An expression for a value: an attribute of the values, or the entry of that attribute for a key."""

    name: str
    attribute: str
    key: str
    at: int


TemplatePart = str | TemplateField


def parse_template(text: str, *, strict: bool = False) -> tuple[TemplatePart, ...]:
    """Parse literal text and fields in their order.

    A `}}` without `{{` is literal text, as in Go, because it is common in JSON. With `strict` it is an error.
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
    """Return each part as text. One loop without calls: it runs several times per mapping in each sync."""
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
    """A short template, parsed once and rendered often."""

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
        """Return the text with every field replaced by its value; `quote` may change each value first."""
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
"""Return the cached template of a text; each sync uses the same texts."""


def render_path(text: str, values: TemplateValues) -> str:
    """Render a path. `.Timestamp` is refused, because each commit would then move the files."""
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
    """Refuse a path with a part that is empty because its value is empty.

    Such a path would lead to the folder above, or to the root. For example `--var site=$SITE`, in a script
    where SITE is unset, would deliver every site.
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
