"""Encodes and decodes custom resources for the API server.

The API server has already validated and pruned its objects, so decoding ignores unknown
fields. An object that was stored under an older schema and no longer fits becomes an
`InvalidValue`, which stalls that object and no other. Files from disk go through the
stricter `files.py`.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from typing import Any, TypeVar, cast

import msgspec

from stoker.api.field_docs import Block
from stoker.domain.errors import InvalidValue

B = TypeVar("B", bound=Block)

_AT = re.compile(r"(?P<what>.*) - at `(?:key in )?\$\.?(?P<path>.*)`", re.DOTALL)


def decode(raw: bytes, into: type[B]) -> B:
    """Decode an object from the API server."""
    try:
        return cast("B", _decoder(into).decode(raw))
    except (msgspec.MsgspecError, RecursionError, UnicodeError) as error:
        raise InvalidValue(f"{into.__name__}: {explain_error(error)}") from None


def from_wire(value: Mapping[str, object], into: type[B]) -> B:
    """Convert an object of plain dictionaries and lists."""
    try:
        return msgspec.convert(value, into)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise InvalidValue(f"{into.__name__}: {explain_error(error)}") from None


def encode(value: Block) -> bytes:
    """Encode as JSON for the API server."""
    return msgspec.json.encode(value)


def to_wire(value: Block) -> dict[str, object]:
    """Convert to plain dictionaries and lists, for merging, comparing and patching."""
    return cast("dict[str, object]", msgspec.json.decode(msgspec.json.encode(value)))


def explain_error(error: Exception) -> str:
    """Return msgspec's message with the field first: `spec.git.ref: expected text`."""
    if isinstance(error, RecursionError):
        return "is nested too deeply"
    found = _AT.fullmatch(str(error))
    if not found:
        return _lower_first_letter(str(error))
    return f"{found['path'] or 'the object'}: {_lower_first_letter(found['what'])}"


def _lower_first_letter(sentence: str) -> str:
    return sentence[:1].lower() + sentence[1:]


@functools.cache
def _decoder(into: type[Block]) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(into)
