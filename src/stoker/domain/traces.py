"""The `traceparent` of W3C Trace Context, as text that came from somewhere.

It says which trace a piece of work belongs to and means nothing else: nothing is decided
by it. Whatever is not exactly of the form of version 00 is no traceparent and is passed
over, also where the rest of its bearer is refused for less.
"""

from __future__ import annotations

import re

HEADER = "traceparent"
_FORM = re.compile(r"00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")


def valid_traceparent(text: str | None) -> str:
    """The text if it is one, and nothing otherwise."""
    return text if text is not None and len(text) == 55 and _FORM.fullmatch(text) else ""
