"""Inheritance between specs as plain dictionaries and lists.

The rule is the same for every field: maps are merged key by key, lists are joined, and
for everything else the own value wins. This is the only code that works on untyped data,
because it must treat all fields alike; its callers convert the result to types again.
"""

from __future__ import annotations

from collections.abc import Container

import msgspec

SpecTree = dict[str, object]


def inherit(own: object, base: object, replaced: Container[str] = (), path: str = "") -> object:
    """Return `own` completed from `base`; neither is changed.

    In a list the inherited entries come first and the own entries follow in their order:
    where a later entry overrides an earlier one, the own entry must win. An entry that both
    have stays at its position in the own list. Maps at the paths in `replaced` are not merged,
    because their keys exclude each other.
    """
    if own is None:
        return base
    if isinstance(own, dict) and isinstance(base, dict) and path not in replaced:
        names = [*base, *(name for name in own if name not in base)]
        return {
            name: inherit(own.get(name), base.get(name), replaced, f"{path}.{name}" if path else name)
            for name in names
        }
    if isinstance(own, list) and isinstance(base, list):
        mine = {_fingerprint(entry) for entry in own}
        return [entry for entry in base if _fingerprint(entry) not in mine] + own
    return own


def _fingerprint(entry: object) -> bytes:
    """Return a comparable form of an entry; 1, 1.0 and True are equal in Python but not in a manifest."""
    return msgspec.json.encode(entry, order="sorted")


def value_at(tree: SpecTree, path: str) -> object:
    """Return the value at a dotted path, or None."""
    value: object = tree
    for name in path.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return value


def set_value(tree: SpecTree, path: str, value: object) -> None:
    """Set the value at a dotted path; a value on the path that is no map is replaced by a map."""
    *folders, last = path.split(".")
    for name in folders:
        below = tree.get(name)
        if not isinstance(below, dict):
            below = tree[name] = {}
        tree = below
    tree[last] = value


def pop_value(tree: SpecTree, path: str) -> object:
    """Remove the value at a dotted path and return it; maps that become empty are removed too."""
    head, _, rest = path.partition(".")
    if not rest:
        return tree.pop(head, None)
    below = tree.get(head)
    if not isinstance(below, dict):
        return None
    value = pop_value(below, rest)
    if value is not None and not below:
        del tree[head]
    return value
