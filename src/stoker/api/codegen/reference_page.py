"""The reference page of a kind in Markdown, generated from its schema and its examples."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import cast

from stoker.api.codegen.crd import schema_for
from stoker.api.defaults import BUILT_IN_DEFAULTS
from stoker.api.registry import CATEGORY, CustomResourceKind
from stoker.api.schema import JsonSchema, format_default

GENERATED = (
    "Generated from the types in src/stoker/api by `python -m stoker.api.codegen.generate`; do not edit."
)


@dataclass(frozen=True, slots=True)
class FieldRow:
    """A row of the field table."""

    path: str
    schema: JsonSchema
    required: bool


def reference_page(kind: CustomResourceKind, minimal: str, full: str) -> str:
    """Return the page for docs/spec."""
    schema = schema_for(kind)
    parts = [
        f"<!-- {GENERATED} -->",
        f"# {kind.name}",
        str(schema["description"]),
        *([kind.notes] if kind.notes else []),
        _facts(kind),
        f"## A small example\n\n```yaml\n{minimal.strip()}\n```",
        "## Spec\n\nFields in bold are required where their block is used.\n\n"
        + _fields(kind, schema, "spec"),
    ]
    if kind.has_status:
        parts.append("## Status\n\n" + _fields(kind, schema, "status"))
    if kind.conditions:
        parts.append("## Conditions\n\n" + _table(("Type", "Meaning when True"), kind.conditions.items()))
    if kind.annotations:
        parts.append("## Annotations\n\n" + _table(("Annotation", "Meaning"), kind.annotations.items()))
    parts += [
        "## Columns of kubectl get\n\n" + _columns(kind),
        "## Validation rules\n\n" + "\n".join(_rule_messages(schema)),
        f"## Every field\n\n```yaml\n{full.strip()}\n```",
    ]
    return "\n\n".join(parts) + "\n"


def field_rows(schema: JsonSchema, path: str) -> Iterator[FieldRow]:
    """Yield every field below a path, outer fields first."""
    properties = cast("dict[str, JsonSchema]", schema.get("properties", {}))
    required = cast("list[str]", schema.get("required", []))
    for name, below in properties.items():
        at = f"{path}.{name}" if path else name
        yield FieldRow(at, below, name in required)
        yield from field_rows(below, at)
        if "items" in below:
            yield from field_rows(cast("JsonSchema", below["items"]), f"{at}[]")


def _facts(kind: CustomResourceKind) -> str:
    scope = "in a namespace" if kind.namespaced else "for the whole cluster"
    facts = {
        "API": f"`{kind.api_version}`",
        "Exists": scope,
        "kubectl get": ", ".join(f"`{name}`" for name in (kind.plural, kind.singular, *kind.short_names))
        + f"; `{CATEGORY}` for all kinds",
    }
    return _table(("", ""), facts.items())


def _fields(kind: CustomResourceKind, schema: JsonSchema, top: str) -> str:
    properties = cast("dict[str, JsonSchema]", schema["properties"])
    cells = []
    for row in field_rows(properties[top], ""):
        name = f"**`{row.path}`**" if row.required else f"`{row.path}`"
        default = _default(kind, row, top)
        text = str(row.schema["description"]).removesuffix(f" Default: {default}.")
        cells.append((name, _type(row.schema), f"`{default}`" if default else "", _allowed(row.schema), text))
    return _table(("Field", "Type", "Default", "Allowed", "Meaning"), cells)


def _default(kind: CustomResourceKind, row: FieldRow, top: str) -> str:
    if "default" in row.schema:
        return format_default(cast("bool | str", row.schema["default"]))
    built_in = BUILT_IN_DEFAULTS[kind.name]
    return format_default(built_in[row.path]) if top == "spec" and row.path in built_in else ""


def _type(schema: JsonSchema) -> str:
    if schema.get("x-kubernetes-int-or-string"):
        return "number or text"
    match schema["type"]:
        case "array":
            return f"list of {_type(cast('JsonSchema', schema['items']))}"
        case "object" if "additionalProperties" in schema:
            return f"map to {_type(cast('JsonSchema', schema['additionalProperties']))}"
        case "string" if schema.get("format") == "date-time":
            return "time"
        case kind:
            return {"string": "text", "integer": "number", "boolean": "true or false"}.get(
                str(kind), str(kind)
            )


def _allowed(schema: JsonSchema) -> str:
    inner = cast("JsonSchema", schema.get("items", schema.get("additionalProperties", {})))
    said = [_values(schema), _values(inner)]
    said += [
        _range("", schema, "minimum", "maximum"),
        _range(" characters", schema, "minLength", "maxLength"),
    ]
    said += [
        _range(" items", schema, "minItems", "maxItems"),
        _range(" entries", schema, "minProperties", "maxProperties"),
    ]
    return "; ".join(one for one in said if one)


def _values(schema: JsonSchema) -> str:
    values = cast("list[str]", schema.get("enum", []))
    return ", ".join(f"`{value}`" if value else "empty" for value in values)


def _range(unit: str, schema: JsonSchema, least: str, most: str) -> str:
    low, high = schema.get(least), schema.get(most)
    if low is None and high is None:
        return ""
    if high is None:
        return f"at least {low}{unit}"
    return f"{low} to {high}{unit}" if low is not None else f"at most {high}{unit}"


def _columns(kind: CustomResourceKind) -> str:
    cells = [
        (one.name, f"`{one.path}`", one.description + (" (with `-o wide`)" if one.wide else ""))
        for one in kind.columns
    ]
    return _table(("Column", "Shows", "Meaning"), cells)


def _rule_messages(schema: JsonSchema) -> Iterator[str]:
    """Yield the message of every rule, with the fields that it applies to."""
    fields: dict[str, list[str]] = {}
    for path, rule in _rules(schema, ""):
        fields.setdefault(rule["message"], []).append(f"{path}{rule.get('fieldPath', '')}".strip("."))
    for sentence, paths in fields.items():
        named = ", ".join(f"`{path}`" for path in paths if path)
        yield f"- {named}: {sentence}" if named else f"- {sentence}"


def _rules(schema: JsonSchema, path: str) -> Iterator[tuple[str, dict[str, str]]]:
    for rule in cast("list[dict[str, str]]", schema.get("x-kubernetes-validations", [])):
        yield path, rule
    for name, below in cast("dict[str, JsonSchema]", schema.get("properties", {})).items():
        if name != "status":
            yield from _rules(below, f"{path}.{name}" if path else name)
    for key, suffix in (("items", "[]"), ("additionalProperties", ".*")):
        if key in schema:
            yield from _rules(cast("JsonSchema", schema[key]), path + suffix)


def _table(head: tuple[str, ...], cells: Iterable[tuple[str, ...]]) -> str:
    lines = [" | ".join(head), " | ".join("---" for _ in head)]
    lines += [" | ".join(cell.replace("|", "\\|") for cell in row) for row in cells]
    return "\n".join(f"| {line} |" for line in lines)
