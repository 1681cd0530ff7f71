"""Paths with variables in them: `services/{{.Vars.line}}/projects`.

The syntax is the part of Go's templates that only names a field; whatever else
Go would allow (pipes, calls, loops) is an error, as are an unknown field, a
missing value and braces that belong to no expression. What comes out is text: it
becomes a path, and is checked as one, in `stoker.engine.mapping`.
"""

from __future__ import annotations

import re

from stoker.domain.errors import InvalidValue
from stoker.domain.intent.values import TemplateValues

MAX_LENGTH = 4096

_FIELD = re.compile(r"\.([A-Za-z][A-Za-z0-9]*)")
_VARIABLE = re.compile(r"\.Vars\.([A-Za-z_][A-Za-z0-9_]*)")
_LABEL = re.compile(r"\.Labels\.([A-Za-z0-9]([-A-Za-z0-9_./]*[A-Za-z0-9])?)")

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
}


def render(template: str, values: TemplateValues) -> str:
    """The template with every expression replaced by its value."""
    if len(template) > MAX_LENGTH:
        raise InvalidValue(f"template {template[:60]!r}… is longer than {MAX_LENGTH} characters")
    rendered: list[str] = []
    rest = template
    while True:
        literal, opened, rest = rest.partition("{{")
        if "}}" in literal:
            raise InvalidValue(f"template {_cut(template)} has '}}}}' without '{{{{' before it")
        rendered.append(literal)
        if not opened:
            break
        expression, closed, rest = rest.partition("}}")
        if not closed:
            raise InvalidValue(f"template {_cut(template)} has '{{{{' without '}}}}' after it")
        rendered.append(_value(expression.strip(), values, template))
    text = "".join(rendered)
    if len(text) > MAX_LENGTH:
        raise InvalidValue(f"template {_cut(template)} gives more than {MAX_LENGTH} characters")
    return text


def _value(expression: str, values: TemplateValues, template: str) -> str:
    value: str | None
    if variable := _VARIABLE.fullmatch(expression):
        value = values.vars.get(variable[1])
    elif label := _LABEL.fullmatch(expression):
        value = values.labels.get(label[1])
    elif named := _FIELD.fullmatch(expression):
        value = getattr(values, _ATTRIBUTES.get(named[1], ""), None)
    else:
        raise InvalidValue(
            f"template {_cut(template)} has the expression {expression[:80]!r}; "
            "only fields such as .GatewayName or .Vars.name are allowed"
        )
    if value is None:
        raise InvalidValue(f"template {_cut(template)} asks for {expression[:80]}, which has no value")
    return value


def _cut(template: str) -> str:
    return repr(template if len(template) <= 120 else template[:117] + "...")
