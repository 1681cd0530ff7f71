"""How a field of a custom resource says what it is.

Every object of a manifest is a `Block`; every field carries its description,
its limits and its rules beside it, so that the Python type, the schema in the
CRD, `kubectl explain` and the reference page cannot disagree: the last three are
generated from the first (`schema.py`, `codegen/reference_page.py`).

A field that may be left out is `X | None = None` and stays absent when written
back. The few fields whose default the API server itself fills in say
`declared_default(value)`; fields that can be inherited must not (C-128, C-129), their
built-in values are in `defaults.py`.
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
    """A constraint, said twice: in CEL for the API server, in Python for files read from disk."""

    cel: str
    says: str
    """The refusal: a sentence that names the field and what it may hold."""
    # A class cannot name itself inside its own body, hence no narrower type.
    holds: Callable[[Any], bool]
    at: str = ""
    """The field to blame, dotted, where the rule stands beside the object that holds it."""

    def unless(self, cel: str, exempt: Callable[[Any], bool]) -> FieldRule:
        """The same rule for objects that are not exempt from it."""
        holds = self.holds
        return replace(self, cel=f"{cel} || ({self.cel})", holds=lambda it: exempt(it) or holds(it))


class _BlockMeta(msgspec.StructMeta):
    """Makes the fields of every block keyword-only; msgspec inherits all other settings but not that one."""

    # The settings are msgspec's own and pass through untouched.
    def __new__(
        mcls, name: str, bases: tuple[type, ...], namespace: dict[str, object], **settings: Any
    ) -> _BlockMeta:
        return super().__new__(mcls, name, bases, namespace, kw_only=True, **settings)


# Tells the type checker what the settings below do to every subclass.
@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(msgspec.field,))
class Block(msgspec.Struct, metaclass=_BlockMeta, frozen=True, rename="camel", omit_defaults=True):
    """An object inside a manifest."""

    RULES: ClassVar[tuple[FieldRule, ...]] = ()


FieldStability = Literal["", "stable", "experimental"]

_STABILITY_NOTE = {
    "": "",
    "stable": " Stable: it keeps its meaning up to v1.",
    "experimental": " Experimental: it may change before v1beta1.",
}


def describe(text: str, *, stability: FieldStability = "") -> Meta:
    """What a field is for, as `kubectl explain` shows it."""
    return Meta(description=text + _STABILITY_NOTE[stability])


def describe_nullable(text: str, *, stability: FieldStability = "") -> Meta:
    """As `describe`, for a field in which a written `null` is kept."""
    return Meta(description=text + _STABILITY_NOTE[stability], extra={"nullable": True})


def list_bounds(most: int, *, least: int = 0, unique: bool = False, keyed_by: tuple[str, ...] = ()) -> Meta:
    """The bounds of a list, and whether it is a set, a map by key fields, or ordered and replaced whole."""
    kind: dict[str, object] = {"x-kubernetes-list-type": "atomic"}
    if unique:
        kind = {"x-kubernetes-list-type": "set"}
    if keyed_by:
        kind = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": list(keyed_by)}
    return Meta(min_length=least or None, max_length=most, extra={"schema": kind})


def map_bounds(most: int, *rules: FieldRule) -> Meta:
    """The bounds of a map from text to something."""
    return Meta(max_length=most, extra={"rules": rules})


def text_bounds(most: int, *rules: FieldRule, least: int = 0, form: str = "") -> Meta:
    """The bounds and rules of a text."""
    extra: dict[str, object] = {"rules": rules}
    if form:
        extra["schema"] = {"format": form}
    return Meta(min_length=least or None, max_length=most, extra=extra)


def matches_pattern(body: str, says: str) -> FieldRule:
    """The whole text has this form; the expression must read the same in RE2 and in Python."""
    whole = re.compile(body)
    return FieldRule(f"self.matches(r'^({body})$')", says, lambda value: whole.fullmatch(value) is not None)


def lacks_pattern(body: str, says: str) -> FieldRule:
    """This form occurs nowhere in the text; the expression must read the same in RE2 and in Python."""
    found = re.compile(body)
    return FieldRule(f"!self.matches(r'{body}')", says, lambda value: found.search(value) is None)


@dataclass(frozen=True, slots=True)
class SchemaDefault:
    """A default that the API server fills in, as a factory so that writing back keeps the field."""

    value: object

    def __call__(self) -> object:
        return self.value


def declared_default(value: T) -> T:
    """The default value of a field, declared in the schema."""
    return cast("T", msgspec.field(default_factory=SchemaDefault(value)))
