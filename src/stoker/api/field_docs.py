"""Building blocks to declare the fields of custom resources.

Every object of a manifest is a `Block`. Every field declares its description, its limits
and its rules next to its type, so that the Python type, the schema in the CRD, `kubectl
explain` and the reference page cannot disagree: the last three are generated from the
first (`schema.py`, `codegen/reference_page.py`).

An optional field is `X | None = None` and stays absent when the object is written back. The
few fields whose default the API server fills in use `declared_default(value)`. Fields that
can be inherited must not use it; their built-in values are in `defaults.py`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, TypeVar, cast, dataclass_transform

import msgspec
from msgspec import Meta

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class FieldRule:
    """A constraint in two forms: CEL for the API server, Python for files read from disk."""

    cel: str
    says: str
    """The error message: it names the field and the allowed values."""
    # A class cannot name itself inside its own body, so the type cannot be narrower.
    holds: Callable[[Any], bool]
    at: str = ""
    """Dotted path of the field to report, if the rule belongs to the object around it."""

    def unless(self, cel: str, exempt: Callable[[Any], bool]) -> FieldRule:
        """Return the same rule with an exemption for some objects."""
        holds = self.holds
        return replace(self, cel=f"{cel} || ({self.cel})", holds=lambda it: exempt(it) or holds(it))


class _BlockMeta(msgspec.StructMeta):
    """Makes the fields of every block keyword-only; msgspec inherits all other settings but not this one."""

    # `settings` are msgspec's own and are passed on unchanged.
    def __new__(
        mcls, name: str, bases: tuple[type, ...], namespace: dict[str, object], **settings: Any
    ) -> _BlockMeta:
        return super().__new__(mcls, name, bases, namespace, kw_only=True, **settings)


# Declares to the type checker what the settings below do to every subclass.
@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(msgspec.field,))
class Block(msgspec.Struct, metaclass=_BlockMeta, frozen=True, rename="camel", omit_defaults=True):
    """An object inside a manifest."""

    RULES: ClassVar[tuple[FieldRule, ...]] = ()


FieldStability = Literal["", "stable", "experimental"]

_STABILITY_NOTE = {
    "": "",
    "stable": " Stable: its meaning does not change before v1.",
    "experimental": " Experimental: it may change before v1beta1.",
}


def describe(text: str, *, stability: FieldStability = "") -> Meta:
    """Declare the description of a field, as `kubectl explain` shows it."""
    return Meta(description=text + _STABILITY_NOTE[stability])


def describe_nullable(text: str, *, stability: FieldStability = "") -> Meta:
    """Do the same as `describe`, for a field that keeps an explicit `null`."""
    return Meta(description=text + _STABILITY_NOTE[stability], extra={"nullable": True})


def list_bounds(most: int, *, least: int = 0, unique: bool = False, keyed_by: tuple[str, ...] = ()) -> Meta:
    """Declare the bounds of a list, and whether it is a set, a map by key fields, or atomic."""
    kind: dict[str, object] = {"x-kubernetes-list-type": "atomic"}
    if unique:
        kind = {"x-kubernetes-list-type": "set"}
    if keyed_by:
        kind = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": list(keyed_by)}
    return Meta(min_length=least or None, max_length=most, extra={"schema": kind})


def map_bounds(most: int, *rules: FieldRule) -> Meta:
    """Declare the bounds of a map with text keys."""
    return Meta(max_length=most, extra={"rules": rules})


def text_bounds(most: int, *rules: FieldRule, least: int = 0, form: str = "") -> Meta:
    """Declare the bounds and rules of a text."""
    extra: dict[str, object] = {"rules": rules}
    if form:
        extra["schema"] = {"format": form}
    return Meta(min_length=least or None, max_length=most, extra=extra)


def matches_pattern(body: str, says: str) -> FieldRule:
    """Require this form of the whole text; the expression must mean the same in RE2 and in Python."""
    whole = re.compile(body)
    return FieldRule(f"self.matches(r'^({body})$')", says, lambda value: whole.fullmatch(value) is not None)


def lacks_pattern(body: str, says: str) -> FieldRule:
    """Forbid this form anywhere in the text; the expression must mean the same in RE2 and in Python."""
    found = re.compile(body)
    return FieldRule(f"!self.matches(r'{body}')", says, lambda value: found.search(value) is None)


@dataclass(frozen=True, slots=True)
class SchemaDefault:
    """A default that the API server fills in; a factory, so that encoding keeps the field."""

    value: object

    def __call__(self) -> object:
        return self.value


def declared_default(value: T) -> T:
    """Return the default value of a field, declared in the schema."""
    return cast("T", msgspec.field(default_factory=SchemaDefault(value)))
