"""Frozen values to JSON objects and back.

Keys are the field names in camel case; fields that have their default value are omitted.
Decoding checks every value against the type of its field and names the field that does not
match. It ignores unknown keys, because the other side may be newer. The text comes from
outside, so size and depth are limited before anything else.
"""

from __future__ import annotations

import functools
import json
import re
import types
import typing
from collections.abc import Hashable, Mapping
from dataclasses import fields, is_dataclass
from enum import StrEnum
from typing import Any, TypeVar

from stoker.domain.errors import InvalidValue

T = TypeVar("T")

MAX_DEPTH = 64
MAX_NUMBER = 1 << 53
MAX_QUOTE_LENGTH = 80

# Match single characters, never a whole string: repetition would cost a hundred bytes for each character.
_MARK = re.compile(r'\\.|["\[\]{}]', re.DOTALL)


def parse_object(text: str, what: str, *, at_most: int) -> dict[str, Any]:
    """Parse untrusted text as a JSON object within `at_most` bytes."""
    if len(text) > at_most or len(text.encode(errors="replace")) > at_most:
        raise InvalidValue(f"{what} is larger than {at_most} bytes")
    if _is_too_deep(text):
        raise InvalidValue(f"{what} is nested deeper than {MAX_DEPTH} levels")
    return json_object(text, what)


def json_object(text: str | bytes, what: str) -> dict[str, Any]:
    """Parse text whose size is already limited as a JSON object."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        raise InvalidValue(f"{what} is not JSON") from None
    if not isinstance(value, dict):
        raise InvalidValue(f"{what} is not a JSON object")
    return value


def compact_json(value: object) -> str:
    """Return the shortest JSON text; a lone surrogate, which API servers refuse, becomes a question mark."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.encode(errors="replace").decode()


def to_plain(value: object) -> Any:
    """Convert to dictionaries, lists, text and numbers."""
    if is_dataclass(value) and not isinstance(value, type):
        told = ((one, getattr(value, one.name)) for one in fields(value))
        return {camel_case(one.name): to_plain(said) for one, said in told if said != one.default}
    if isinstance(value, StrEnum):
        return str(value)
    if isinstance(value, Mapping):
        return {str(name): to_plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [to_plain(one) for one in value]
    return value


def decode_dataclass(kind: type[T], value: object, where: str) -> T:
    """Decode the value as this dataclass; `where` names it in error messages."""
    if not isinstance(value, dict):
        raise InvalidValue(f"{where} is not an object")
    known = _wire_fields(typing.cast("Hashable", kind))
    taken = {}
    for name, one in value.items():
        if name in known and one is not None:
            field, wanted = known[name]
            taken[field] = _decode_value(wanted, one, f"{where}.{name}")
    try:
        return kind(**taken)
    except TypeError:
        missing = sorted(name for name, (field, _) in known.items() if field not in taken)
        raise InvalidValue(f"{where} lacks one of {', '.join(missing)}") from None


def camel_case(name: str) -> str:
    head, *tail = name.split("_")
    return head + "".join(part.capitalize() for part in tail)


def quote_value(value: object) -> str:
    """Return a value as one short line for an error message."""
    text = ascii(value)
    return text if len(text) <= MAX_QUOTE_LENGTH else text[: MAX_QUOTE_LENGTH - 3] + "..."


@functools.cache
def _wire_fields(kind: Hashable) -> dict[str, tuple[str, Any]]:
    """Return field name and type by the key on the wire."""
    cls = typing.cast("type[Any]", kind)
    hints = typing.get_type_hints(cls)
    return {camel_case(one.name): (one.name, hints[one.name]) for one in fields(cls)}


def _decode_value(wanted: Any, value: object, where: str) -> Any:
    if typing.get_origin(wanted) in (types.UnionType, typing.Union):
        wanted = next(one for one in typing.get_args(wanted) if one is not type(None))
    if is_dataclass(wanted):
        return decode_dataclass(typing.cast("type[Any]", wanted), value, where)
    if typing.get_origin(wanted) is tuple:
        if not isinstance(value, list):
            raise InvalidValue(f"{where} is not a list")
        item = typing.get_args(wanted)[0]
        return tuple(_decode_value(item, one, f"{where}[{index}]") for index, one in enumerate(value))
    return _decode_scalar(wanted, value, where)


def _decode_scalar(wanted: Any, value: object, where: str) -> Any:
    if wanted is bool and isinstance(value, bool):
        return value
    if wanted is int and isinstance(value, int) and not isinstance(value, bool):
        if 0 <= value <= MAX_NUMBER:
            return value
        raise InvalidValue(f"{where} is not a number from 0 on")
    if isinstance(value, str) and isinstance(wanted, type) and issubclass(wanted, str):
        try:
            return wanted(value)
        except (ValueError, InvalidValue):
            raise InvalidValue(f"{where} is {quote_value(value)}, which is none of its values") from None
    words = {bool: "true or false", int: "a whole number"}
    raise InvalidValue(f"{where} is not {words.get(wanted, 'text')}")


def _is_too_deep(text: str) -> bool:
    """Return whether lists and objects are nested too deep; brackets in strings do not count."""
    depth, quoted = 0, False
    for match in _MARK.finditer(text):
        mark = match[0]
        if mark == '"':
            quoted = not quoted
        elif not quoted and mark in "[{":
            depth += 1
            if depth > MAX_DEPTH:
                return True
        elif not quoted and mark in "]}":
            depth -= 1
    return False
