"""What a JSON text would cost in memory once it is decoded, told before it is.

A few bytes of JSON become an object of a hundred: `{},{},…` of 4 MiB takes 100 MiB as Python
values. Whoever decodes a text that another party wrote asks here first, and refuses or waits.
The estimate is an upper bound: no decoder of ours needs more for a text of that many values.
"""

from __future__ import annotations

import re

VALUE_BYTES = 256
"""A dict with one entry, its slot in a list and its share of a key; nothing smaller on the wire is larger."""
NARROW_BYTES, WIDE_BYTES = 4, 9
"""Of each letter, with the copies that a decoder holds while a string grows. Wide: Python keeps a whole
string as wide as its widest letter, so one beyond ASCII makes all others four bytes large."""

_WIDE_ESCAPE = re.compile(rb"\\u(?!00[0-7])")
_MARKS = (b",", b"[", b"{")
_CHUNK_BYTES = 64 << 10


def decoded_size(text: bytes, enough: int) -> int:
    """Bytes that the decoded text takes at the most.

    Commas and brackets inside of strings are told apart only where it would be more than `enough`:
    a CSV file in a ConfigMap has many, and is one value.
    """
    wide = not text.isascii() or (b"\\u" in text and _WIDE_ESCAPE.search(text) is not None)
    letters = len(text) * (WIDE_BYTES if wide else NARROW_BYTES)
    size = letters + VALUE_BYTES * _value_count(text)
    if size <= enough:
        return size
    return letters + VALUE_BYTES * _value_count_outside_strings(text)


def _value_count(text: bytes) -> int:
    """Each value but the first of all follows a comma or an opening bracket."""
    return 1 + sum(map(text.count, _MARKS))


def _value_count_outside_strings(text: bytes) -> int:
    """Piece by piece: cutting the whole text at its quotes would take the memory that is to be saved."""
    bare = text.replace(b"\\\\", b"").replace(b'\\"', b"")
    values, quoted = 1, 0
    for at in range(0, len(bare), _CHUNK_BYTES):
        parts = bare[at : at + _CHUNK_BYTES].split(b'"')
        values += sum(map(b"".join(parts[quoted::2]).count, _MARKS))
        quoted ^= (len(parts) - 1) & 1
    return values
