"""Lists, names and texts out of what a gateway answered, bounded.

Whatever is read here may end in a status that many others read: so a list has an
end, a text is one short line, and what has another type than expected is left out
and never guessed. Pure; `answers` has made sure that it was JSON at all.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from stoker.ignition.client.responses import one_line

MAX_ITEMS = 10_000
MAX_NAME_LENGTH = 255
MAX_TEXT_LENGTH = 200
MAX_DURATION_SECONDS = 10 * 365 * 86_400

JsonItem = Mapping[str, object]


def parse_items(said: object, *keys: str) -> list[object] | None:
    """The list that an answer is, or that it holds under `items` or one of the other keys.

    None if there is none, or only a part of it, or one without end: whoever took a
    part for the whole would overwrite a project that somebody edits.
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
    """The names of a list of names, or of a list of things that have one."""
    found = (item_name(item, *keys) if isinstance(item, dict) else as_name(item) for item in items)
    return frozenset(name for name in found if name)


def item_name(item: JsonItem, *keys: str) -> str:
    """The first of the keys that holds a name; nothing if none does."""
    return next((name for key in keys if (name := as_name(item.get(key)))), "")


def as_name(value: object) -> str:
    """A name as it is, because others are compared with it; one that cannot be shown is made so."""
    if not isinstance(value, str):
        return ""
    return (
        value if value.isprintable() and len(value) <= MAX_NAME_LENGTH else one_line(value, MAX_NAME_LENGTH)
    )


def item_text(item: JsonItem, *keys: str) -> str:
    """The first of the keys that holds words; nothing if none does."""
    values = (item.get(key) for key in keys)
    return next(
        (text for one in values if isinstance(one, str) and (text := one_line(one, MAX_TEXT_LENGTH))), ""
    )


def item_seconds(item: JsonItem, key: str) -> float:
    """Milliseconds, as gateways count, as seconds; 0 for what is no duration."""
    value = item.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0.0
    return max(0, min(1000 * MAX_DURATION_SECONDS, value)) / 1000
