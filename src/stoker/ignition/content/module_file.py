"""Reads id and dependencies from the file of a module.

A `.modl` is a zip with a `module.xml`. It comes from a repository, so it is read with
limits and XML entities are never expanded. An unreadable file, or a plain jar, has no
dependencies.
"""

from __future__ import annotations

import os
import re
import zipfile
from typing import IO
from xml.etree import ElementTree

from stoker.ignition.content.modules import ModuleFile

DESCRIPTION = "module.xml"
MAX_DESCRIPTION = 1 << 20
MAX_INDEX = 16 << 20
MAX_DEPENDENCIES = 256

_END, _END_64 = b"PK\x05\x06", b"PK\x06\x07"
_TAIL = (1 << 16) + 64


def read_module(file: IO[bytes]) -> ModuleFile:
    """Return the id and dependencies of an open module file; an empty value if it is no module."""
    try:
        if not _has_small_index(file):
            return ModuleFile()
        with zipfile.ZipFile(file) as archive, archive.open(DESCRIPTION) as described:
            return _parse_description(described.read(MAX_DESCRIPTION + 1))
    except (zipfile.BadZipFile, KeyError, OSError, EOFError, ValueError, RuntimeError):
        return ModuleFile()


def _has_small_index(file: IO[bytes]) -> bool:
    """Check the size of the zip's index first, because zipfile reads it whole; no module needs a zip64."""
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - _TAIL))
    tail = file.read(_TAIL)
    ends = [found.end() for found in re.finditer(re.escape(_END), tail)]
    sizes = [int.from_bytes(tail[end + 8 : end + 12], "little") for end in ends]
    return bool(sizes) and max(sizes) <= MAX_INDEX and _END_64 not in tail


def _parse_description(content: bytes) -> ModuleFile:
    # A nested entity could expand a billionfold, and no module has any; a NUL byte indicates UTF-16, which
    # would hide the marks.
    if len(content) > MAX_DESCRIPTION or any(mark in content for mark in (b"<!DOCTYPE", b"<!ENTITY", b"\0")):
        return ModuleFile()
    try:
        root = ElementTree.fromstring(content)  # noqa: S314 - bounded, and without a document type
    except (ElementTree.ParseError, ValueError, LookupError):
        return ModuleFile()
    id_ = next((text for one in root.iter("id") if (text := _element_text(one))), "")
    depends = [text for one in root.iter("depends") if (text := _element_text(one))]
    return ModuleFile(id_, frozenset(depends[:MAX_DEPENDENCIES]))


def _element_text(element: ElementTree.Element) -> str:
    text = (element.text or "").strip()
    return text if len(text) <= 255 and text.isprintable() else ""
