"""What a text from a manifest means where it is set: a text, a number, true or false, or null.

Manifests hold all values as text, files do not. What stands there decides:

- a text stays a text, whatever is set;
- a number, `true`/`false` or null is replaced by its like where the new text spells
  one (`"8089"` over `8088` is a number), and by a text otherwise;
- where nothing stood, what spells a number, `true`, `false` or `null` is that;
- a text in double quotes (`"\\"8089\\""`) is always the text between them.

So a value never changes its type by accident, and setting it twice is setting it once.
"""

from __future__ import annotations

import json
import re
from decimal import Decimal
from enum import StrEnum
from typing import NamedTuple

_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?")
# Of a length and an exponent that are cheap to compare.
_COMPARABLE = re.compile(r"-?[0-9]{1,64}(?:\.[0-9]{1,64})?(?:[eE][-+]?[0-9]{1,6})?")


class ValueKind(StrEnum):
    TEXT = "a text"
    NUMBER = "a number"
    BOOLEAN = "true or false"
    NULL = "null"


class TypedValue(NamedTuple):
    """A value of a kind; what is not a text is spelt as in JSON."""

    kind: ValueKind
    text: str


def parse_typed(text: str, over: ValueKind | None) -> TypedValue:
    """What a text means where a value of this kind stands, or nothing at all."""
    if len(text) > 1 and text[0] == text[-1] == '"':
        try:
            return TypedValue(ValueKind.TEXT, str(json.loads(text)))
        except ValueError:
            return TypedValue(ValueKind.TEXT, text)
    spelt = _spelled_kind(text)
    return TypedValue(spelt if over in (None, spelt) else ValueKind.TEXT, text)


def same_number(one: str, other: str) -> bool:
    """Whether two spellings are one number; what is too long to compare is another one."""
    if one == other:
        return True
    return all(map(_COMPARABLE.fullmatch, (one, other))) and Decimal(one) == Decimal(other)


def _spelled_kind(text: str) -> ValueKind:
    if text in ("true", "false"):
        return ValueKind.BOOLEAN
    if text == "null":
        return ValueKind.NULL
    return ValueKind.NUMBER if _NUMBER.fullmatch(text) else ValueKind.TEXT
