"""The meaning of unquoted words in YAML.

A manifest must mean the same to `stoker sync` as to `kubectl apply`, so words are parsed
as Go's YAML does: `yes`, `on` and `y` are true, `0x1f` and `010` are numbers. Times stay
text. Numbers that JSON cannot represent are refused.
"""

from __future__ import annotations

import re

from stoker.domain.errors import InvalidValue

YamlScalar = str | int | float | bool | None

_SCALAR_WORDS: dict[str, YamlScalar] = dict.fromkeys(("", "~", "null", "Null", "NULL"))
for _yes, _no in (("y", "n"), ("yes", "no"), ("true", "false"), ("on", "off")):
    for _style in (str.lower, str.capitalize, str.upper):
        _SCALAR_WORDS[_style(_yes)] = True
        _SCALAR_WORDS[_style(_no)] = False

_INTEGER = re.compile(
    r"[-+]?(0b_*[01][01_]*|0o?_*[0-7][0-7_]*|0x_*[0-9a-fA-F][0-9a-fA-F_]*|0_*|[1-9][0-9_]*)"
)
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9][0-9_]*(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_INF_OR_NAN = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_MAX_NUMBER_LENGTH = 64
_MAX_INTEGER = (1 << 63) - 1
_MIN_INTEGER = -(1 << 63)


def parse_plain_scalar(word: str) -> YamlScalar:
    """Return the value of an unquoted word."""
    if word in _SCALAR_WORDS:
        return _SCALAR_WORDS[word]
    if word[0] not in "+-.0123456789":
        return word
    if _INF_OR_NAN.fullmatch(word):
        raise InvalidValue(f"{word} is not a number that a manifest can hold")
    if _INTEGER.fullmatch(word):
        return _integer(word)
    if _FLOAT.fullmatch(word):
        return _float(word)
    return word


def key_as_text(value: YamlScalar) -> str:
    """Return a value as a field name; names are always text in JSON."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return "null" if value is None else str(value)


def _integer(word: str) -> int:
    if len(word) > _MAX_NUMBER_LENGTH:
        raise InvalidValue(f"a number of {len(word)} digits is too large")
    digits = word.replace("_", "")
    sign = -1 if digits.startswith("-") else 1
    digits = digits.lstrip("+-")
    octal = len(digits) > 1 and digits[0] == "0" and digits[1].isdigit()
    value = sign * (int(digits, 8) if octal else int(digits, 0))
    if not _MIN_INTEGER <= value <= _MAX_INTEGER:
        raise InvalidValue(f"{word} does not fit into 64 bits")
    return value


def _float(word: str) -> float:
    if len(word) > _MAX_NUMBER_LENGTH:
        raise InvalidValue(f"a number of {len(word)} digits is too large")
    value = float(word.replace("_", ""))
    if value in (float("inf"), float("-inf")):
        raise InvalidValue(f"{word} is too large for a number")
    return value
