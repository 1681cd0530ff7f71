"""Recognizes small valid JSON files with the parser of the standard library.

`stoker.engine.transform.json_check` decides and words the error. Loading its parser costs more than
reading a few files with this one, so a caller with only a few files checks here first. True means that
`json_check` accepts the file too; False means that `json_check` has to decide.
"""

from __future__ import annotations

import json
from typing import NoReturn

MAX_BYTES = 1 << 16
"""This parser builds the values that it reads, which would take too much memory for a larger file."""


def is_surely_json(content: bytes) -> bool:
    # This parser accepts lone surrogates, which are not valid, so any escaped surrogate is left to
    # `json_check`.
    if len(content) > MAX_BYTES or b"\\ud" in content or b"\\uD" in content:
        return False
    try:
        _PARSER.decode(content.decode())
    except (ValueError, RecursionError):
        return False
    return True


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


_PARSER = json.JSONDecoder(parse_constant=_refuse_constant)
