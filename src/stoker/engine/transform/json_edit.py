"""Sets one value of a JSON file; every other byte stays as it is.

A parser that builds nothing reports the length of each member of an object or list, and so the span of the
member that the path names; only these bytes are replaced. Key order, spacing, escapes, spellings of
numbers, line ends and a byte order mark never change. A value that already means the same is not rewritten.

The edit never guesses. A duplicate key on the path is refused, because readers differ in which value they
keep; an object or a list is never replaced by a single value. The caller chooses what happens if the path
does not exist: `adds=False` leaves the file as it is; `adds=True` adds a missing last key behind its
siblings in their layout and refuses every other case.
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

import msgspec

from stoker.domain.errors import InvalidValue
from stoker.engine.transform.json_check import BOM, json_problem
from stoker.engine.transform.json_path import JsonPath, element_index
from stoker.engine.transform.typed_value import TypedValue, ValueKind, parse_typed, same_number

MAX_BYTES = 16 << 20
MAX_VALUES = 250_000

_SPACE = rb"[ \t\r\n]*+"
# No group in it is possessive: nested possessive groups match wrongly in Python 3.11.2.
STRING = rb'"[^"\\]*+(?:\\.[^"\\]*+)*"'
_KEY = re.compile(rb"[ \t\r\n,]*+(" + STRING + b")" + _SPACE + b":" + _SPACE, re.DOTALL)
_SCALAR = re.compile(STRING + rb"|[-+.0-9A-Za-z]++", re.DOTALL)
_GAP = re.compile(rb"[ \t\r\n,]*+")


_STRING_OR_BRACKET = re.compile(STRING + rb"|[{}\[\]]", re.DOTALL)

_LIST = msgspec.json.Decoder(list[msgspec.Raw])

_KINDS = {
    ord('"'): ValueKind.TEXT,
    ord("t"): ValueKind.BOOLEAN,
    ord("f"): ValueKind.BOOLEAN,
    ord("n"): ValueKind.NULL,
}
_OBJECT_OPENS, _LIST_OPENS = ord("{"), ord("[")
_OPENS, _CLOSES = (b"{", b"["), (b"}", b"]")


class _JsonMember(NamedTuple):
    """The position of a member of an object."""

    name: str
    after: int
    """The end of the member before it, or the position behind the opening brace."""
    key: int
    key_end: int
    start: int
    end: int


class _JsonPathAbsent(Exception):
    """The path does not exist; `parent` is the object in which only its last key is missing."""

    def __init__(self, why: str, parent: tuple[int, int] | None = None) -> None:
        super().__init__(why)
        self.parent = parent


def set_value(content: bytes, path: JsonPath, value: str, *, adds: bool) -> bytes:
    """Return the content with the value at the path; the same object if nothing has to change."""
    if not adds and not _may_hold_key(content, path):
        return content
    check_json(content)
    try:
        start, end = _find_span(content, path)
    except _JsonPathAbsent as absent:
        if not adds:
            return content
        if absent.parent is None:
            raise InvalidValue(f"{path.text} cannot be set: {absent}") from None
        return _add_member(content, *absent.parent, str(path.steps[-1]), parse_typed(value, None))
    except RecursionError:
        raise InvalidValue("is not JSON: it is nested too deep") from None
    opening = content[start]
    if opening in (_OBJECT_OPENS, _LIST_OPENS):
        what = "an object" if opening == _OBJECT_OPENS else "a list"
        raise InvalidValue(f"{path.text} cannot be set: {what} is there, not a single value")
    kind = _KINDS.get(opening, ValueKind.NUMBER)
    new = parse_typed(value, kind)
    if new.kind is kind and _is_same_value(content[start:end], new):
        return content
    return content[:start] + _encode_value(new) + content[end:]


def _may_hold_key(content: bytes, path: JsonPath) -> bool:
    """Whether the last key may be present; True for any escape, because a key may be spelt with escapes."""
    last = path.steps[-1]
    return (
        isinstance(last, int)
        or b"\\" in content
        or _encode_value(TypedValue(ValueKind.TEXT, last)) in content
    )


def check_json(content: bytes) -> None:
    """Raise unless the content is valid JSON within the size limits for edits."""
    if len(content) > MAX_BYTES:
        raise InvalidValue(f"is larger than {MAX_BYTES} bytes, so no value in it can be set")
    # A comma within a string counts too, so the check can only be too strict.
    if content.count(b",") >= MAX_VALUES:
        raise InvalidValue(f"holds more than {MAX_VALUES} values, so none in it can be set")
    why = json_problem(content)
    if why is not None:
        raise InvalidValue(f"is not JSON: {why}")


def _find_span(content: bytes, path: JsonPath) -> tuple[int, int]:
    """Return the span of the value at the path; the content must be valid JSON."""
    start = len(content) - len(content.removeprefix(BOM).lstrip(b" \t\r\n"))
    end = len(content.rstrip(b" \t\r\n"))
    for depth, step in enumerate(path.steps):
        index = element_index(step)
        last = depth == len(path.steps) - 1
        if content[start] == _OBJECT_OPENS and isinstance(step, str):
            found = _find_value(content, start, end, step)
            if found is None:
                raise _JsonPathAbsent(f"{path.above(depth + 1)} is missing", (start, end) if last else None)
            start, end = found
        elif content[start] == _LIST_OPENS and index is not None:
            start, end = _element(content, start, end, index, path.above(depth))
        else:
            raise _JsonPathAbsent(
                f"{path.above(depth)} is not {'an object' if isinstance(step, str) else 'a list'}"
            )
    return start, end


def _find_value(content: bytes, start: int, end: int, name: str) -> tuple[int, int] | None:
    """Return the span of a key's value in the object of this span; None if the key is missing."""
    quoted = _encode_value(TypedValue(ValueKind.TEXT, name))
    if len(quoted) == len(name.encode()) + 2:  # without escapes
        length = len(memoryview(_key_decoder(name).decode(memoryview(content)[start:end]).value))
        if not length:
            return None
        if content.count(quoted, start, end) == 1 and not _escaped_key_pattern(name).search(
            content, start, end
        ):
            # The key exists and can be in one place only, so its siblings need not be parsed.
            key = _KEY.match(content, content.index(quoted, start, end), end)
            if key is not None:
                return key.end(), key.end() + length
    found = [(one.start, one.end) for one in _members(content, start, end) if one.name == name]
    if len(found) > 1:
        raise InvalidValue(f"holds the key {name[:80]!r} twice in one object, so its value cannot be set")
    return found[0] if found else None


class _JsonMemberValue(msgspec.Struct):
    """The value of one key of an object; the other members are validated and skipped."""

    value: msgspec.Raw = msgspec.Raw(b"")


@lru_cache(maxsize=256)
def _key_decoder(name: str) -> msgspec.json.Decoder[_JsonMemberValue]:
    value = ("value", msgspec.Raw, msgspec.field(default=msgspec.Raw(b""), name=name))
    kind = msgspec.defstruct("Wanted", [value], bases=(_JsonMemberValue,))
    return msgspec.json.Decoder(kind)


@lru_cache(maxsize=256)
def _escaped_key_pattern(name: str) -> re.Pattern[bytes]:
    """Return a regex for any part of the same key in another spelling, such as `s` as `\\u0073`."""
    if not (name.isascii() and name.isalnum()):
        return re.compile(rb"\\")
    codes = "|".join(sorted({f"{ord(char):02x}" for char in name}))
    return re.compile(rf"\\u00(?i:{codes})".encode())


def _members(content: bytes, start: int, end: int) -> Iterator[_JsonMember]:
    """Iterate over the members of the object of this span."""
    at = start + 1
    while (key := _KEY.match(content, at, end)) is not None:
        value_end = _value_end(content, key.end())
        name = json.loads(key[1])
        yield _JsonMember(name, at, key.start(1), key.end(1), key.end(), value_end)
        at = value_end


def _value_end(content: bytes, at: int) -> int:
    """Return the end of the value that begins here."""
    if content[at] not in b"{[":
        scalar = _SCALAR.match(content, at)
        return scalar.end() if scalar else at
    depth = 0
    for found in _STRING_OR_BRACKET.finditer(content, at):
        what = found[0]
        depth += (what in _OPENS) - (what in _CLOSES)
        if not depth:
            return found.end()
    return len(content)


def _element(content: bytes, start: int, end: int, index: int, where: str) -> tuple[int, int]:
    found = elements(content, start, end)
    if index >= len(found):
        raise _JsonPathAbsent(f"{where} has {len(found)} elements, so none has the index {index}")
    return found[index]


def elements(content: bytes, start: int, end: int) -> list[tuple[int, int]]:
    """Return the spans of the elements of the list of this span."""
    spans, at = [], start + 1
    for raw in _LIST.decode(memoryview(content)[start:end]):
        gap = _GAP.match(content, at, end)
        begin = gap.end() if gap else at
        at = begin + len(memoryview(raw))
        spans.append((begin, at))
    return spans


def _is_same_value(old: bytes, new: TypedValue) -> bool:
    if new.kind is ValueKind.TEXT:
        return bool(json.loads(old) == new.text)
    if new.kind is ValueKind.NUMBER:
        return same_number(old.decode(), new.text)
    return old.decode() == new.text


def _add_member(content: bytes, start: int, end: int, name: str, new: TypedValue) -> bytes:
    """Add one member, in the layout of the last member."""
    members = deque(_members(content, start, end), maxlen=1)
    key, value = _encode_value(TypedValue(ValueKind.TEXT, name)), _encode_value(new)
    if not members:
        return content[: start + 1] + key + b": " + value + content[start + 1 :]
    last = members[-1]
    before = content[last.after : last.key].replace(b",", b"")
    between = content[last.key_end : last.start]
    return content[: last.end] + b"," + before + key + between + value + content[last.end :]


def _encode_value(value: TypedValue) -> bytes:
    text = json.dumps(value.text, ensure_ascii=False) if value.kind is ValueKind.TEXT else value.text
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise InvalidValue("gets a value that is not valid Unicode text") from None
