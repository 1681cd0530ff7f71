"""Estimate how much memory a JSON text takes once decoded, without decoding it.

A few bytes of JSON become an object of a hundred bytes: `{},{},…` of 4 MiB takes 100 MiB as
Python values. Code that decodes a text of another party calls this first, and refuses or waits.
The estimate is an upper bound: none of our decoders needs more for a text with that many values.
"""

from __future__ import annotations

import re

VALUE_BYTES = 256
"""A dict with one entry, its slot in a list and its share of a key; no smaller JSON value takes more."""
NARROW_BYTES, WIDE_BYTES = 4, 9
"""Per character, including the copies that a decoder holds while a string grows. Wide: Python stores a whole
string at the width of its widest character, so a single non-ASCII character makes all others four bytes."""

_WIDE_ESCAPE = re.compile(rb"\\u(?!00[0-7])")
_MARKS = (b",", b"[", b"{")
_CHUNK_BYTES = 64 << 10


def decoded_size(text: bytes, enough: int) -> int:
    """Return an upper bound of the bytes that the decoded text takes.

    Commas and brackets inside strings are excluded only if the simple count exceeds `enough`:
    a CSV file in a ConfigMap has many, and is a single value.
    """
    wide = not text.isascii() or (b"\\u" in text and _WIDE_ESCAPE.search(text) is not None)
    letters = len(text) * (WIDE_BYTES if wide else NARROW_BYTES)
    size = letters + VALUE_BYTES * _value_count(text)
    if size <= enough:
        return size
    return letters + VALUE_BYTES * _value_count_outside_strings(text)


def _value_count(text: bytes) -> int:
    """Count values: each value except the first follows a comma or an opening bracket."""
    return 1 + sum(map(text.count, _MARKS))


def _value_count_outside_strings(text: bytes) -> int:
    """Count chunk by chunk: splitting the whole text at its quotes would take the memory that this saves."""
    bare = text.replace(b"\\\\", b"").replace(b'\\"', b"")
    values, quoted = 1, 0
    for at in range(0, len(bare), _CHUNK_BYTES):
        parts = bare[at : at + _CHUNK_BYTES].split(b'"')
        values += sum(map(b"".join(parts[quoted::2]).count, _MARKS))
        quoted ^= (len(parts) - 1) & 1
    return values
