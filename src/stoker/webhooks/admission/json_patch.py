"""Builds JSON patches that only add: items to lists, keys to objects.

A patch never repeats existing content, so unknown fields stay unchanged, and two webhooks that add to the
same list do not overwrite each other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

PatchOperation = dict[str, Any]


def append_items(path: str, items: Iterable[object], present: object) -> list[PatchOperation]:
    """Append to a list; create it if it is missing, null or empty."""
    wanted = list(items)
    if not wanted:
        return []
    if not present:
        return [{"op": "add", "path": path, "value": wanted}]
    return [{"op": "add", "path": f"{path}/-", "value": item} for item in wanted]


def set_entries(
    path: str, entries: Mapping[str, str], present: Mapping[str, str] | None
) -> list[PatchOperation]:
    """Set keys of an object; skip those that already have the value."""
    wanted = {key: value for key, value in entries.items() if (present or {}).get(key) != value}
    if not wanted:
        return []
    if not present:
        return [{"op": "add", "path": path, "value": wanted}]
    return [
        {"op": "add", "path": f"{path}/{_escape_pointer(key)}", "value": value}
        for key, value in wanted.items()
    ]


def _escape_pointer(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")
