"""The checks of the API server, for objects that come from a file.

In a cluster the schema refuses an invalid manifest before our code sees it. Standalone
there is only the file, so this module applies the same rules (`field_docs.FieldRule`) in
their Python form, with the same messages. It never changes an object.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import msgspec
from msgspec.inspect import DictType, StructType, Type, VarTupleType

from stoker.api.schema import SchemaNode, fields_of, rules_of, unwrap_type

# The API server writes these and `kubectl get -o yaml` prints them; they are harmless in a file.
_SERVER_METADATA = frozenset({"managedFields", "selfLink", "deletionGracePeriodSeconds"})


@dataclass(frozen=True, slots=True)
class ManifestProblem:
    """A field and the error in it."""

    path: str
    says: str

    def __str__(self) -> str:
        return f"{self.path}: {self.says}" if self.path else self.says


def broken_rules(block: msgspec.Struct, path: str = "") -> Iterator[ManifestProblem]:
    """Yield every rule that an object breaks, outermost first."""
    for rule in rules_of(type(block)):
        if not rule.holds(block):
            yield ManifestProblem(_join_path(path, rule.at), rule.says)
    for one in fields_of(type(block)):
        value = getattr(block, one.name)
        if value is not None:
            yield from _broken_rules_in_value(unwrap_type(one.type), value, _join_path(path, one.encode_name))


def _broken_rules_in_value(node: SchemaNode, value: object, path: str) -> Iterator[ManifestProblem]:
    for rule in node.rules:
        if not rule.holds(value):
            yield ManifestProblem(path, rule.says)
    if isinstance(value, msgspec.Struct):
        yield from broken_rules(value, path)
    elif isinstance(value, tuple) and isinstance(node.type, VarTupleType):
        yield from _duplicate_items(node, value, path)
        for index, item in enumerate(value):
            yield from _broken_rules_in_value(unwrap_type(node.type.item_type), item, f"{path}[{index}]")
    elif isinstance(value, dict) and isinstance(node.type, DictType):
        for name, item in value.items():
            yield from _broken_rules_in_value(
                unwrap_type(node.type.value_type), item, _join_path(path, str(name))
            )


def _duplicate_items(node: SchemaNode, value: tuple[object, ...], path: str) -> Iterator[ManifestProblem]:
    """Yield duplicate items of a set or of a list keyed by fields."""
    kind = node.extra.get("x-kubernetes-list-type")
    keys = node.extra.get("x-kubernetes-list-map-keys")
    if kind not in ("set", "map"):
        return
    seen = set()
    for index, item in enumerate(value):
        wire = msgspec.to_builtins(item)
        key = tuple(wire.get(name) for name in keys) if isinstance(keys, list) else wire
        if key in seen:
            yield ManifestProblem(f"{path}[{index}]", "is there twice")
        seen.add(key)


def unknown_fields(model: type[msgspec.Struct], raw: Mapping[str, object], path: str = "") -> Iterator[str]:
    """Yield the paths of fields that the type does not have; the API server would prune them."""
    known = {one.encode_name: one for one in fields_of(model)}
    for name, value in raw.items():
        at = _join_path(path, str(name))
        if name in known:
            yield from _unknown_in(unwrap_type(known[name].type).type, value, at)
        elif not (path == "metadata" and name in _SERVER_METADATA):
            yield at


def _unknown_in(type_: Type, value: object, path: str) -> Iterator[str]:
    if isinstance(type_, StructType) and isinstance(value, Mapping):
        yield from unknown_fields(type_.cls, value, path)
    elif isinstance(type_, VarTupleType) and isinstance(value, list):
        for index, item in enumerate(value):
            yield from _unknown_in(unwrap_type(type_.item_type).type, item, f"{path}[{index}]")
    elif isinstance(type_, DictType) and isinstance(value, Mapping):
        for name, item in value.items():
            yield from _unknown_in(unwrap_type(type_.value_type).type, item, _join_path(path, str(name)))


def _join_path(path: str, name: str) -> str:
    return f"{path}.{name}" if path and name else path or name
