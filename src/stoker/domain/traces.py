"""The `traceparent` of W3C Trace Context, received from outside.

It names the trace that a piece of work belongs to; no decision depends on it. Text that
is not exactly of the form of version 00 is ignored, even in messages whose other values
are checked strictly.
"""

from __future__ import annotations

import re

HEADER = "traceparent"
_FORM = re.compile(r"00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")


def valid_traceparent(text: str | None) -> str:
    """Return the text if it is a valid traceparent, else the empty string."""
    return text if text is not None and len(text) == 55 and _FORM.fullmatch(text) else ""
