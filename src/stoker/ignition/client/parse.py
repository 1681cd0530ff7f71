"""Lists, names and texts from a gateway's response, with limits.

These values may end up in a status that many people read. So a list is bounded, a text is
one short line, and a value of an unexpected type is dropped and never guessed. Pure;
`responses` has already parsed the JSON.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from stoker.domain.text import one_line

MAX_ITEMS = 10_000
MAX_NAME_LENGTH = 255
MAX_TEXT_LENGTH = 200
MAX_DURATION_SECONDS = 10 * 365 * 86_400

JsonItem = Mapping[str, object]


def parse_items(said: object, *keys: str) -> list[object] | None:
    """Return the list that a response is, or holds under `items` or one of the other keys.

    None if there is no list, only a part of it, or more than `MAX_ITEMS`: a sync that mistakes a
    part for the whole would overwrite a project that a Designer has open.
    """
    total: object = 0
    if isinstance(said, dict):
        metadata = said.get("metadata")
        total = metadata.get("total") if isinstance(metadata, dict) else 0
        said = next((said[key] for key in ("items", *keys) if isinstance(said.get(key), list)), None)
    if not isinstance(said, list) or len(said) > MAX_ITEMS:
        return None
    return None if isinstance(total, int) and total > len(said) else said


def only_objects(items: list[object]) -> Iterator[JsonItem]:
    return (item for item in items if isinstance(item, dict))


def item_names(items: list[object], *keys: str) -> frozenset[str]:
    """Return the names of a list of names, or of a list of objects with a name."""
    found = (item_name(item, *keys) if isinstance(item, dict) else as_name(item) for item in items)
    return frozenset(name for name in found if name)


def item_name(item: JsonItem, *keys: str) -> str:
    """Return the name under the first key that holds one, else the empty string."""
    return next((name for key in keys if (name := as_name(item.get(key)))), "")


def as_name(value: object) -> str:
    """Return a name unchanged, because callers compare it; only an unprintable or long name is altered."""
    if not isinstance(value, str):
        return ""
    return (
        value if value.isprintable() and len(value) <= MAX_NAME_LENGTH else one_line(value, MAX_NAME_LENGTH)
    )


def item_text(item: JsonItem, *keys: str) -> str:
    """Return the text under the first key that holds one, else the empty string."""
    values = (item.get(key) for key in keys)
    return next(
        (text for one in values if isinstance(one, str) and (text := one_line(one, MAX_TEXT_LENGTH))), ""
    )


def item_seconds(item: JsonItem, key: str) -> float:
    """Convert the gateway's milliseconds to seconds; 0 for a value that is no duration."""
    value = item.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0.0
    return max(0, min(1000 * MAX_DURATION_SECONDS, value)) / 1000
