"""Render an object as canonical YAML: the same bytes for the same object.

`apiVersion`, `kind` and `metadata` come first, then all keys in code point order. Lists keep their order and
are indented to the column of their key, as `kubectl` writes them. A file is one document with LF line ends
and a final newline. Equal objects have equal bytes, so the blob id alone shows whether a file must be
written.

YAML readers disagree about unquoted words (`y`, `1e3`, `0o14`, `12:30:45`, `~`). A text is therefore unquoted
only if no reader of YAML 1.1 or 1.2 takes it for another type. A multi-line text is a block (`|`) if every
reader returns the same text, and a quoted single line otherwise. This module has its own list of escaped
characters: what Python calls printable changes with its version, and an upgrade would rewrite every file.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

from stoker.domain.errors import InvalidValue

MAX_DEPTH = 200
"""Deeper objects are refused; no kind that people write comes near this depth."""
# From this depth on a value is written in braces on one line: a thousand levels of indentation would take a
# million spaces.
_BLOCK_DEPTH = 60
# Readers look for the colon of a key within 1,024 characters; a longer key needs a question mark before it.
_MAX_SIMPLE_KEY_LENGTH = 900

_LEADING_FIELDS = ("apiVersion", "kind", "metadata")

# Control characters, line breaks of some readers, invisible and bidirectional characters, private use,
# surrogates, and noncharacters.
_INVISIBLE_CHARACTERS = (
    r"\x00-\x08\x0b-\x1f\x7f-\xa0\xad\u061c\u180e\u200b-\u200f\u2028-\u202f\u2060-\u206f"
    r"\ud800-\uf8ff\ufdd0-\ufdef\ufeff\ufff0-\uffff\U000e0000-\U0010ffff"
)
_NOT_IN_BLOCK = re.compile(f"[{_INVISIBLE_CHARACTERS}]")
_ESCAPED = re.compile(rf'[\t\n"\\{_INVISIBLE_CHARACTERS}]')
_SHORT_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}

_WORD = r"[A-Za-z0-9_./@+=,()%-]"
_PLAIN = re.compile(rf"[A-Za-z0-9_/]{_WORD}*(?:[ :]{_WORD}+)*")
_PLAIN_KEY = re.compile(r"[A-Za-z_/][A-Za-z0-9_./-]*")
# A text of digits, signs and the letters of hexadecimal, octal, exponents and times may be a number.
_NUMBERLIKE = re.compile(r"[0-9][0-9a-fA-FxXoOtTzZ_.,:+ -]*")
_RESERVED_WORDS = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null"})


def render_object(obj: dict[str, Any], comments: Iterable[str] = ()) -> bytes:
    """Return the content of the object's file, with `comments` above it, one line each."""
    lines = [f"# {_NOT_IN_BLOCK.sub(' ', each).replace(chr(10), ' ')}" for each in comments]
    _put_entries(ordered_fields(obj), "", lines, 0)
    lines.append("")
    try:
        return "\n".join(lines if len(lines) > 1 else ("{}", "")).encode()
    except UnicodeEncodeError:
        raise InvalidValue("a text in the object is not valid Unicode") from None


def ordered_fields(obj: dict[str, Any]) -> list[tuple[str, Any]]:
    """Return the top-level fields in file order; the keys below them are in code point order."""
    first = [(key, obj[key]) for key in _LEADING_FIELDS if key in obj]
    return [*first, *sorted(item for item in obj.items() if item[0] not in _LEADING_FIELDS)]


def _put_entries(entries: Iterable[tuple[str, Any]], pad: str, out: list[str], depth: int) -> None:
    for key, value in entries:
        _put_value(pad + _format_key(key, pad), value, pad, out, depth)


def _put_value(lead: str, value: Any, pad: str, out: list[str], depth: int) -> None:
    """Append the lines of a value after `lead`, which is a key with its colon or the dash of a list item."""
    kind = type(value)
    if kind is str:
        out.append(f"{lead} {_format_text(value, pad)}")
    elif kind is dict and value:
        if depth >= _BLOCK_DEPTH:
            out.append(f"{lead} {_flow_value(value, depth)}")
        else:
            inner, at = pad + "  ", len(out)
            if lead[-1] == ":":
                out.append(lead)
                _put_entries(sorted(value.items()), inner, out, depth + 1)
            else:
                _put_entries(sorted(value.items()), inner, out, depth + 1)
                out[at] = f"{lead} {out[at][len(inner) :]}"
    elif kind is list and value:
        if depth >= _BLOCK_DEPTH:
            out.append(f"{lead} {_flow_value(value, depth)}")
        elif lead[-1] == ":":
            out.append(lead)
            _put_items(value, pad, out, depth + 1)
        else:
            inner, at = pad + "  ", len(out)
            _put_items(value, inner, out, depth + 1)
            out[at] = f"{lead} {out[at][len(inner) :]}"
    else:
        out.append(f"{lead} {_format_atom(value)}")


def _put_items(items: Sequence[Any], pad: str, out: list[str], depth: int) -> None:
    lead = pad + "-"
    for item in items:
        _put_value(lead, item, pad, out, depth)


def _format_atom(value: Any) -> str:
    """Format a scalar that is no text, or an empty collection."""
    if value is None:
        return "null"
    if value is True:
        return "true"
    if value is False:
        return "false"
    kind = type(value)
    if kind is int:
        return str(value)
    if kind is float and math.isfinite(value):
        text = repr(value)
        mantissa, e, exponent = text.partition("e")
        return text if "." in mantissa or not e else f"{mantissa}.0e{exponent}"  # some readers need the dot
    if kind is dict:
        return "{}"
    if kind is list:
        return "[]"
    raise InvalidValue(f"the object holds a {kind.__name__}, which JSON does not know")


def _format_text(text: str, pad: str) -> str:
    if "\n" in text and text[0] not in " \t\n" and not _NOT_IN_BLOCK.search(text):
        return _literal_block(text, pad + "  ")
    return text if _may_be_plain(text) else _quote_text(text)


def _literal_block(text: str, pad: str) -> str:
    """Format a literal block; the sign after the bar sets how many final newlines belong to the text."""
    if text[-1] != "\n":
        sign, body = "|-", text
    else:
        sign, body = ("|+" if text[-2:] == "\n\n" else "|"), text[:-1]
    return "\n".join([sign, *(pad + line if line else "" for line in body.split("\n"))])


def _may_be_plain(text: str) -> bool:
    if not _PLAIN.fullmatch(text):
        return False
    if text[0].isdigit():
        return not _NUMBERLIKE.fullmatch(text)
    return len(text) > 5 or text.lower() not in _RESERVED_WORDS


def _quote_text(text: str) -> str:
    return f'"{_ESCAPED.sub(_escape, text)}"'


def _escape(match: re.Match[str]) -> str:
    char = match[0]
    short = _SHORT_ESCAPES.get(char)
    if short is not None:
        return short
    code = ord(char)
    if 0xD800 <= code <= 0xDFFF:
        raise InvalidValue("a text in the object is not valid Unicode")
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


@lru_cache(maxsize=4096)
def _simple_key(key: str) -> str:
    plain = _PLAIN_KEY.fullmatch(key) and key.lower() not in _RESERVED_WORDS
    return key if plain else _quote_text(key)


def _format_key(key: str, pad: str) -> str:
    if len(key) < 256:
        return _simple_key(key) + ":"
    spelt = _quote_text(key)
    return f"{spelt}:" if len(spelt) <= _MAX_SIMPLE_KEY_LENGTH else f"? {spelt}\n{pad}:"


def _flow_value(value: Any, depth: int) -> str:
    """Format a value on one line, every text in quotes."""
    if depth > MAX_DEPTH:
        raise InvalidValue(f"the object is nested deeper than {MAX_DEPTH} levels")
    kind = type(value)
    if kind is str:
        return _quote_text(value)
    if kind is dict and value:
        return "{" + ", ".join([_flow_entry(key, value[key], depth) for key in sorted(value)]) + "}"
    if kind is list and value:
        return "[" + ", ".join([_flow_value(item, depth + 1) for item in value]) + "]"
    return _format_atom(value)


def _flow_entry(key: str, value: Any, depth: int) -> str:
    spelt = _quote_text(key)
    lead = spelt if len(spelt) <= _MAX_SIMPLE_KEY_LENGTH else f"? {spelt} "
    return f"{lead}: {_flow_value(value, depth + 1)}"
