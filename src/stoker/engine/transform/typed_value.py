"""The type of a value that a manifest sets in a file: text, number, boolean or null.

Manifests have all values as text, files do not. The value that the file has decides the type:

- a text stays a text, whatever is set;
- a number, `true`/`false` or null is replaced by a value of the same type if the new text spells one
  (`"8089"` over `8088` is a number), and by a text otherwise;
- where the file has no value, a text that spells a number, `true`, `false` or `null` is that;
- a text in double quotes (`"\\"8089\\""`) is always the text between them.

So a value never changes its type by accident, and setting a value is idempotent.
"""

from __future__ import annotations

import json
import re
from decimal import Decimal
from enum import StrEnum
from typing import NamedTuple

_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?")
# Bounded in length and exponent, so that comparing is cheap.
_COMPARABLE = re.compile(r"-?[0-9]{1,64}(?:\.[0-9]{1,64})?(?:[eE][-+]?[0-9]{1,6})?")


class ValueKind(StrEnum):
    TEXT = "a text"
    NUMBER = "a number"
    BOOLEAN = "true or false"
    NULL = "null"


class TypedValue(NamedTuple):
    """A value with its type; other types than text are spelt as in JSON."""

    kind: ValueKind
    text: str


def parse_typed(text: str, over: ValueKind | None) -> TypedValue:
    """Return the typed value of a text that replaces a value of type `over`, or no value if None."""
    if len(text) > 1 and text[0] == text[-1] == '"':
        try:
            return TypedValue(ValueKind.TEXT, str(json.loads(text)))
        except ValueError:
            return TypedValue(ValueKind.TEXT, text)
    spelt = _spelled_kind(text)
    return TypedValue(spelt if over in (None, spelt) else ValueKind.TEXT, text)


def same_number(one: str, other: str) -> bool:
    """Whether two spellings are the same number; False if they are too long to compare."""
    if one == other:
        return True
    return all(map(_COMPARABLE.fullmatch, (one, other))) and Decimal(one) == Decimal(other)


def _spelled_kind(text: str) -> ValueKind:
    if text in ("true", "false"):
        return ValueKind.BOOLEAN
    if text == "null":
        return ValueKind.NULL
    return ValueKind.NUMBER if _NUMBER.fullmatch(text) else ValueKind.TEXT
