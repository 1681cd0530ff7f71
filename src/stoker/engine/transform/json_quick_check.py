"""Whether a small file is JSON beyond doubt, by the parser that Python has anyway.

`stoker.engine.transform.json_check` gives the verdict and the words. Loading its parser costs
more than reading a few files with this one, so who has only a few asks here first. Yes
means that the verdict would be yes as well; no means nothing.
"""

from __future__ import annotations

import json
from typing import NoReturn

MAX_BYTES = 1 << 16
"""This parser builds what it reads; of a larger file that would be too much."""


def is_surely_json(content: bytes) -> bool:
    # Escaped halves of surrogate pairs are fine with this parser; which of them are, is not ours to tell.
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
