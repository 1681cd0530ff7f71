"""Parses the annotations file that the kubelet writes through the downward API.

Each line is a key, `=`, and the value as a quoted Go string. The file changes while
the pod runs, so an agent reads it again before each sync.
"""

from __future__ import annotations

import re

from stoker.domain.errors import InvalidValue

_ESCAPE = re.compile(r"\\(?:x([0-9a-f]{2})|u([0-9a-f]{4})|U([0-9a-f]{8})|([abfnrtv\\\"]))")
_LINE = re.compile(rf'([^="\s]+)="((?:[^"\\]|{_ESCAPE.pattern})*)"')
_SHORT = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_LAST_CODE_POINT = 0x10FFFF


def parse_podinfo(text: str) -> dict[str, str]:
    """Return key and value of every line."""
    found: dict[str, str] = {}
    for number, line in enumerate(text.split("\n"), start=1):
        if not line:
            continue
        match = _LINE.fullmatch(line)
        if match is None:
            raise InvalidValue(f'line {number} of the annotations file is not of the form key="value"')
        found[match[1]] = _ESCAPE.sub(_unescape, match[2])
    return found


def _unescape(escape: re.Match[str]) -> str:
    byte, short_code, long_code, letter = escape.groups()
    if letter:
        return _SHORT.get(letter, letter)
    code = int(byte or short_code or long_code, 16)
    # A single byte from 0x80 on is part of a character; Go writes it for text that is no valid UTF-8.
    if (byte and code >= 0x80) or code > _LAST_CODE_POINT or 0xD800 <= code <= 0xDFFF:
        return "\N{REPLACEMENT CHARACTER}"
    return chr(code)
