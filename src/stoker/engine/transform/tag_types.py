"""Removes inherited tag type definitions from a file; the other definitions keep their bytes.

One file has the list of all types of one folder of a provider, so it can contain both types that this
gateway shall have and types that its parent already has. A type is identified by its path below the
provider, `Pumps/Centrifugal`. An element that is not a definition, or has no name, is never removed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from urllib.parse import unquote

import msgspec

from stoker.engine.transform.json_check import BOM
from stoker.engine.transform.json_edit import check_json, elements

_OPENS = ord("[")
_TYPE = "UdtType"


class _TagDefinition(msgspec.Struct, rename="camel"):
    name: object = None
    tag_type: object = _TYPE


_ONE = msgspec.json.Decoder(_TagDefinition)


def remove_types(content: bytes, folder: str, names: frozenset[str]) -> bytes:
    """Return the content without the types of these names.

    `folder` is the file's folder below its provider.
    """
    check_json(content)
    body = content.removeprefix(BOM)
    start = len(content) - len(body.lstrip(b" \t\r\n"))
    end = len(content.rstrip(b" \t\r\n"))
    inherited = _is_inherited(unquote(folder), names)
    if content[start] != _OPENS:
        return content[:start] + b"[]" + content[end:] if inherited(content[start:end]) else content
    spans = elements(content, start, end)
    kept = [index for index, (begin, stop) in enumerate(spans) if not inherited(content[begin:stop])]
    return content if len(kept) == len(spans) else _join_elements(content, start, end, spans, kept)


def _join_elements(
    content: bytes, start: int, end: int, spans: Sequence[tuple[int, int]], kept: Sequence[int]
) -> bytes:
    """Join these elements, each except the first with the original text between it and its predecessor."""
    if not kept:
        return content[: start + 1] + content[end - 1 :]
    first, *others = kept
    pieces = [content[: spans[0][0]], content[slice(*spans[first])]]
    pieces += [content[spans[index - 1][1] : spans[index][1]] for index in others]
    return b"".join((*pieces, content[spans[-1][1] :]))


def _is_inherited(folder: str, names: frozenset[str]) -> Callable[[bytes], bool]:
    def holds(element: bytes) -> bool:
        try:
            definition = _ONE.decode(element)
        except msgspec.ValidationError:  # not an object
            return False
        name = definition.name
        if not isinstance(name, str) or definition.tag_type != _TYPE:
            return False
        # Some repositories keep each type in its own folder, named after the type.
        own_folder = folder.rpartition("/")[2] == name and folder in names
        return own_folder or (f"{folder}/{name}" if folder else name) in names

    return holds
