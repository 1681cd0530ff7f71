"""JSON patches that only add: entries to lists, keys to maps.

Nothing of the object is ever repeated in a patch, so what we do not know stays as it
is, and two webhooks that add to the same list do not undo each other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

PatchOperation = dict[str, Any]


def append_items(path: str, items: Iterable[object], present: object) -> list[PatchOperation]:
    """Add to the end of a list; one that is missing, null or empty is begun."""
    wanted = list(items)
    if not wanted:
        return []
    if not present:
        return [{"op": "add", "path": path, "value": wanted}]
    return [{"op": "add", "path": f"{path}/-", "value": item} for item in wanted]


def set_entries(
    path: str, entries: Mapping[str, str], present: Mapping[str, str] | None
) -> list[PatchOperation]:
    """Set keys of a map; what is there already with the same value is left alone."""
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
