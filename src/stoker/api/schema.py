"""Generates the schema of a CRD from the types.

A walk over the types as msgspec describes them builds a structural OpenAPI v3 schema
without references, in which every list and text is bounded, so that the API server can
estimate the cost of the CEL rules. Constraints that the schema cannot express (comparisons
between fields, the form of a text) become `x-kubernetes-validations`.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import cast

import msgspec
from msgspec import NODEFAULT
from msgspec.inspect import (
    BoolType,
    DictType,
    Field,
    IntType,
    LiteralType,
    Metadata,
    NoneType,
    StrType,
    StructType,
    Type,
    UnionType,
    VarTupleType,
    type_info,
)

from stoker.api.defaults import BUILT_IN_DEFAULTS, DefaultValue
from stoker.api.field_docs import FieldRule

JsonSchema = dict[str, object]


@dataclass(frozen=True, slots=True)
class SchemaNode:
    """A type without its annotations, and the values of these annotations."""

    type: Type
    description: str = ""
    rules: tuple[FieldRule, ...] = ()
    extra: JsonSchema = field(default_factory=dict)
    nullable: bool = False


def unwrap_type(type_: Type) -> SchemaNode:
    """Remove annotations and `| None` from a type."""
    if isinstance(type_, Metadata):
        inner = unwrap_type(type_.type)
        said = type_.extra or {}
        return SchemaNode(
            type=inner.type,
            description=(type_.extra_json_schema or {}).get("description", inner.description),
            rules=inner.rules + said.get("rules", ()),
            extra={**inner.extra, **said.get("schema", {})},
            nullable=inner.nullable or said.get("nullable", False),
        )
    if isinstance(type_, UnionType):
        others = [one for one in type_.types if not isinstance(one, NoneType)]
        return unwrap_type(others[0]) if len(others) == 1 else SchemaNode(UnionType(tuple(others)))
    return SchemaNode(type_)


@functools.cache
def fields_of(model: type[msgspec.Struct]) -> tuple[Field, ...]:
    """Return the fields of a block, required fields first."""
    info = cast("StructType", type_info(model))
    return tuple(sorted(info.fields, key=lambda one: not one.required))


def rules_of(model: type) -> Iterator[FieldRule]:
    """Yield the rules of a block and of the blocks it extends."""
    for cls in reversed(model.__mro__):
        yield from cls.__dict__.get("RULES", ())


class SchemaBuilder:
    """Builds the schema of one kind; adds the built-in defaults to the descriptions."""

    def __init__(self, kind: str) -> None:
        self._defaults = {f"spec.{path}": value for path, value in BUILT_IN_DEFAULTS[kind].items()}

    def block(self, model: type[msgspec.Struct], path: str = "") -> JsonSchema:
        """Return the schema of a block at a path from the root of the object."""
        fields = fields_of(model)
        schema: JsonSchema = {"type": "object", "description": inspect.cleandoc(model.__doc__ or "")}
        required = [one.encode_name for one in fields if one.required]
        if required:
            schema["required"] = required
        schema["properties"] = {
            one.encode_name: self._field(one, f"{path}.{one.encode_name}" if path else one.encode_name)
            for one in fields
        }
        return schema | _validations(tuple(rules_of(model)))

    def _field(self, one: Field, path: str) -> JsonSchema:
        node = unwrap_type(one.type)
        schema = self._node(node, path)
        description = node.description
        if path in self._defaults:
            description += f" Default: {format_default(self._defaults[path])}."
        schema = {**schema, "description": description}
        if one.default_factory is not NODEFAULT:
            schema["default"] = one.default_factory()
        if node.nullable:
            schema["nullable"] = True
        return schema

    def _node(self, node: SchemaNode, path: str) -> JsonSchema:
        schema = self._plain(node.type, path) | node.extra
        return schema | _validations(node.rules) if node.rules else schema

    def _plain(self, type_: Type, path: str) -> JsonSchema:
        match type_:
            case StructType():
                return self.block(type_.cls, path)
            case VarTupleType():
                items = self._node(unwrap_type(type_.item_type), f"{path}[]")
                return _bounds("array", Items=type_) | {"items": items}
            case DictType():
                values = self._node(unwrap_type(type_.value_type), f"{path}{{}}")
                return _bounds("object", Properties=type_) | {"additionalProperties": values}
            case LiteralType():
                return {"type": "string", "enum": list(type_.values)}
            case StrType():
                return _bounds("string", Length=type_)
            case IntType():
                limits = {"minimum": type_.ge, "maximum": type_.le}
                return {"type": "integer", "format": "int64"} | _without_none(limits)
            case BoolType():
                return {"type": "boolean"}
            case UnionType():  # a quantity: number or text
                return {
                    "x-kubernetes-int-or-string": True,
                    "anyOf": [{"type": "integer"}, {"type": "string"}],
                }
        raise TypeError(f"{path}: the schema has no word for {type_}")


def format_default(value: DefaultValue) -> str:
    """Return a built-in value as a person would write it."""
    if isinstance(value, tuple):
        return "[" + ", ".join(value) + "]"
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if value != "" else "empty"


def _bounds(type_: str, **limited: StrType | VarTupleType | DictType) -> JsonSchema:
    schema: JsonSchema = {"type": type_}
    for suffix, bounded in limited.items():
        schema |= _without_none({f"min{suffix}": bounded.min_length, f"max{suffix}": bounded.max_length})
    return schema


def _without_none(limits: dict[str, int | None]) -> JsonSchema:
    return {name: value for name, value in limits.items() if value is not None}


def _validations(rules: tuple[FieldRule, ...]) -> JsonSchema:
    if not rules:
        return {}
    return {
        "x-kubernetes-validations": [
            {"rule": rule.cel, "message": rule.says} | ({"fieldPath": f".{rule.at}"} if rule.at else {})
            for rule in rules
        ]
    }
