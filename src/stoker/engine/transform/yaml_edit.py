"""Sets one value of a YAML file; every other character stays as it is.

The span of the value is replaced in its existing style: in the same quotes, or unquoted where the new text
allows it. Comments, indentation, line ends and a byte order mark never change. The result is parsed again,
and an edit that changed the meaning of anything else is refused.

A value with an anchor, an alias, a tag or a block style (`|`) is refused with a message, as is a duplicate
key in a mapping on the path. Merge keys (`<<`) are not followed: only keys that a mapping spells itself are
set. `adds` is as in `stoker.engine.transform.json_edit`, and requires a file with one document; without it
the value is set in every document that has it.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from stoker.domain.errors import InvalidValue
from stoker.engine.transform.json_path import JsonPath, element_index
from stoker.engine.transform.typed_value import TypedValue, ValueKind, parse_typed, same_number
from stoker.engine.transform.yaml_nodes import (
    MAX_BYTES,
    YamlDocuments,
    YamlMark,
    YamlNode,
    YamlNodeKind,
    parse_documents,
)

_BOM = "\ufeff"

_BOOLEAN_WORDS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
_NULLS = ("", "~", "null", "Null", "NULL")
_NUMBER = re.compile(
    r"[-+]?(?:0x[0-9a-fA-F_]+|0o[0-7_]+|0b[01_]+|[0-9][0-9_]*(?:\.[0-9_]*)?(?:[eE][-+]?[0-9]+)?"
    r"|\.[0-9][0-9_]*(?:[eE][-+]?[0-9]+)?|\.(?:inf|Inf|INF|nan|NaN|NAN))"
)
# Only texts that no YAML version reads as another type are left unquoted.
_PLAIN = re.compile(r"[A-Za-z_/][A-Za-z0-9_./@+-]*(?: [A-Za-z0-9_./@+-]+)*")
_RESERVED_WORDS = frozenset({*_BOOLEAN_WORDS, "y", "n", "null"})


class _YamlEdit(NamedTuple):
    """Replace a span; `marks` are the events of the new value, or of the new key and value, in the shape."""

    start: int
    end: int
    text: str
    place: int
    marks: tuple[YamlMark, ...]
    adds: bool = False


class _YamlPathAbsent(Exception):
    """The path does not exist; `parent` is the mapping in which only its last key is missing."""

    def __init__(self, why: str, parent: YamlNode | None = None) -> None:
        super().__init__(why)
        self.parent = parent


def set_value(content: bytes, path: JsonPath, value: str, *, adds: bool) -> bytes:
    """Return the content with the value at the path; the same object if nothing has to change."""
    last = path.steps[-1]
    if not adds and str(last).isalnum() and b"\\" not in content and str(last).encode() not in content:
        return content  # a key of letters can only be spelt like this, or with escapes
    text = _decode_text(content)
    bom = _BOM if text.startswith(_BOM) else ""
    body = text[len(bom) :]
    documents = parse_documents(body)
    if adds and len(documents.roots) != 1:
        raise InvalidValue(
            f"{path.text} cannot be set: the file holds {len(documents.roots)} documents, not one"
        )
    edits = [edit for root in documents.roots if (edit := _edit(body, root, path, value, adds=adds))]
    if not edits:
        return content
    for edit in reversed(edits):
        body = body[: edit.start] + edit.text + body[edit.end :]
    if not _is_intended_result(documents, edits, body):
        raise InvalidValue(f"{path.text} cannot be set without changing something else in the file")
    return (bom + body).encode()


def _decode_text(content: bytes) -> str:
    if len(content) > MAX_BYTES:
        raise InvalidValue(f"is larger than {MAX_BYTES} bytes, so no value in it can be set")
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise InvalidValue(f"is not YAML: it is not UTF-8 at byte {error.start}") from None


def _edit(body: str, root: YamlNode, path: JsonPath, value: str, *, adds: bool) -> _YamlEdit | None:
    """Return the edit for one document; None if nothing has to change."""
    try:
        node = _find(root, path)
    except _YamlPathAbsent as absent:
        if not adds:
            return None
        if absent.parent is None:
            raise InvalidValue(f"{path.text} cannot be set: {absent}") from None
        return _addition(body, absent.parent, str(path.steps[-1]), parse_typed(value, None))
    if node.kind is not YamlNodeKind.SCALAR:
        what = {YamlNodeKind.MAP: "a map", YamlNodeKind.LIST: "a list", YamlNodeKind.ALIAS: "an alias"}[
            node.kind
        ]
        raise InvalidValue(f"{path.text} cannot be set: {what} is there, not a single value")
    kind = _kind(node)
    new = _typed(value, kind)
    if not node.tag and new.kind is kind and _is_same_value(node, new):
        return None
    for what in (node.anchor and f"the anchor &{node.anchor[:80]}", node.tag and f"the tag {node.tag[:80]}"):
        if what:
            raise InvalidValue(f"{path.text} cannot be set: the value there carries {what}")
    if node.style in ("|", ">"):
        raise InvalidValue(f"{path.text} cannot be set: a text of several lines is there")
    spelt = _spell_value(new, node.style)
    if (
        node.start == node.end and body[node.start - 1 : node.start].strip()
    ):  # the value behind the colon is empty
        spelt = f" {spelt}"
    return _YamlEdit(node.start, node.end, spelt, node.place, (_scalar_mark(new, spelt),))


def _find(root: YamlNode, path: JsonPath) -> YamlNode:
    node = root
    for depth, step in enumerate(path.steps):
        index = element_index(step)
        if node.kind is YamlNodeKind.ALIAS:
            raise InvalidValue(f"{path.text} cannot be set: {path.above(depth)} is an alias")
        if node.anchor:
            raise InvalidValue(
                f"{path.text} cannot be set: {path.above(depth)} is shared by the anchor &{node.anchor[:80]}"
            )
        if node.kind is YamlNodeKind.MAP and isinstance(step, str):
            node = _member(node, step, path, depth)
        elif node.kind is YamlNodeKind.LIST and index is not None:
            if index >= len(node.children):
                raise _YamlPathAbsent(
                    f"{path.above(depth)} has {len(node.children)} elements, so none has the index {index}"
                )
            node = node.children[index]
        else:
            raise _YamlPathAbsent(
                f"{path.above(depth)} is not {'a map' if isinstance(step, str) else 'a list'}"
            )
    return node


def _member(parent: YamlNode, name: str, path: JsonPath, depth: int) -> YamlNode:
    keys, values = parent.children[::2], parent.children[1::2]
    found = [
        value
        for key, value in zip(keys, values, strict=True)
        if key.kind is YamlNodeKind.SCALAR and key.value == name
    ]
    if len(found) > 1:
        raise InvalidValue(f"holds the key {name[:80]!r} twice in one map, so {path.text} cannot be set")
    if not found:
        last = depth == len(path.steps) - 1
        raise _YamlPathAbsent(f"{path.above(depth + 1)} is missing", parent if last else None)
    return found[0]


def _kind(node: YamlNode) -> ValueKind:
    if not node.plain:
        return ValueKind.TEXT
    if node.value in _NULLS:
        return ValueKind.NULL
    if node.value.lower() in _BOOLEAN_WORDS:
        return ValueKind.BOOLEAN
    return ValueKind.NUMBER if _NUMBER.fullmatch(node.value) else ValueKind.TEXT


def _typed(value: str, kind: ValueKind) -> TypedValue:
    if kind is ValueKind.BOOLEAN and value.lower() in _BOOLEAN_WORDS:
        return TypedValue(kind, value)
    return parse_typed(value, kind)


def _is_same_value(node: YamlNode, new: TypedValue) -> bool:
    if new.kind is ValueKind.BOOLEAN:
        return _BOOLEAN_WORDS[node.value.lower()] == _BOOLEAN_WORDS[new.text.lower()]
    if new.kind is ValueKind.NUMBER:
        return same_number(node.value, new.text)
    return new.kind is ValueKind.NULL or node.value == new.text


def _addition(body: str, parent: YamlNode, name: str, new: TypedValue) -> _YamlEdit:
    """Add one member behind the last one, on its own line or within the braces."""
    quotes = '"' if parent.children and parent.children[0].style == '"' else ""
    key, value = _spell_value(TypedValue(ValueKind.TEXT, name), quotes), _spell_value(new, quotes)
    marks = (_scalar_mark(TypedValue(ValueKind.TEXT, name), key), _scalar_mark(new, value))
    if parent.flow:
        at = parent.children[-1].end if parent.children else parent.end - 1
        lead, tail = (", " if parent.children else ""), ""
    else:
        at, lead, tail = _next_line(body, parent)
    return _YamlEdit(at, at, f"{lead}{key}: {value}{tail}", parent.last_place, marks, adds=True)


def _next_line(body: str, parent: YamlNode) -> tuple[int, str, str]:
    """Return where the line behind the last member begins, and the text before and after a new member."""
    leaf = parent
    while leaf.children and not leaf.flow:
        leaf = leaf.children[-1]
    newline = "\r\n" if "\r\n" in body else "\n"
    indent = " " * parent.children[0].column
    if leaf.style in ("|", ">") and body[leaf.end - 1] in "\r\n":
        return leaf.end, indent, newline
    rest = re.compile(r"[^\r\n]*").match(body, leaf.end)
    return (rest.end() if rest else leaf.end), newline + indent, ""


def _spell_value(new: TypedValue, style: str) -> str:
    text = new.text
    if new.kind is not ValueKind.TEXT:
        return text
    if style == "'" and text.isprintable():
        return "'" + text.replace("'", "''") + "'"
    if style != '"' and _PLAIN.fullmatch(text) and text.lower() not in _RESERVED_WORDS:
        return text
    return '"' + "".join(map(_escape_char, text)) + '"'


def _escape_char(char: str) -> str:
    if char in '"\\':
        return f"\\{char}"
    if char.isprintable():
        return char
    if 0xD800 <= ord(char) <= 0xDFFF:
        raise InvalidValue("gets a value that is not valid Unicode text")
    return f"\\U{ord(char):08x}"


def _scalar_mark(new: TypedValue, spelt: str) -> YamlMark:
    return ("ScalarEvent ", "", new.text, spelt.strip()[:1] not in ("'", '"'))


def _is_intended_result(before: YamlDocuments, edits: list[_YamlEdit], body: str) -> bool:
    """Whether the new text parses as the old one with exactly these edits."""
    expected = list(before.shape)
    for edit in reversed(edits):
        expected[edit.place : edit.place + (not edit.adds)] = edit.marks
    try:
        return parse_documents(body).shape == expected
    except InvalidValue:
        return False
