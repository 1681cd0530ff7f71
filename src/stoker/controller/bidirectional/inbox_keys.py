"""Finds the change sets in the inbox by the names of their keys alone. Pure.

Keys are `{gateway}.{set}.{number}`. A gateway's own key may contain dots, so keys are parsed from the right.
Keys of any other form belong to no change set and are removed.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from stoker.controller.bidirectional.types import ReceivedChangeSet
from stoker.domain.protocol.change_set_codec import MAX_CHUNKS

_KEY = re.compile(r"(?P<gateway>.+)\.(?P<set>\d{8}-\d{6}(?:-\d{1,4})?)\.(?P<number>\d)")


def change_sets_in(maps: Mapping[str, Collection[str]]) -> tuple[ReceivedChangeSet, ...]:
    """All change sets, oldest first; `maps` has the keys of each ConfigMap."""
    found: dict[tuple[str, str], dict[int, tuple[str, str]]] = {}
    for name, keys in maps.items():
        for key in keys:
            said = _KEY.fullmatch(key)
            if said is not None and int(said["number"]) < MAX_CHUNKS:
                parts = found.setdefault((said["set"], said["gateway"]), {})
                parts.setdefault(int(said["number"]), (name, key))
    return tuple(
        ReceivedChangeSet(
            gateway,
            set_id,
            tuple(parts[number] for number in sorted(parts)),
            set(parts) == set(range(len(parts))),
        )
        for (set_id, gateway), parts in sorted(found.items())
    )


def stray_keys(maps: Mapping[str, Collection[str]]) -> dict[str, list[str]]:
    """Keys that belong to no change set, by ConfigMap."""
    strays = {name: [key for key in keys if not _is_chunk_key(key)] for name, keys in maps.items()}
    return {name: keys for name, keys in strays.items() if keys}


def _is_chunk_key(key: str) -> bool:
    said = _KEY.fullmatch(key)
    return said is not None and int(said["number"]) < MAX_CHUNKS
