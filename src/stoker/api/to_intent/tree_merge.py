"""Specs as plain dictionaries and lists: how one inherits from another.

The rule is the same for every field (C-130): maps are merged key by key, lists
are joined, and for everything else the own value wins. It is the only code that
works on untyped data, because it must not know one field from another; its
callers turn the outcome into types again.
"""

from __future__ import annotations

from collections.abc import Container

import msgspec

SpecTree = dict[str, object]


def inherit(own: object, base: object, replaced: Container[str] = (), path: str = "") -> object:
    """`own` with what it leaves out taken from `base`; neither is changed.

    What a list inherits comes first and the own entries keep their order at the
    end: where a later entry lies over an earlier one, the own one must win. An
    entry that both have stays where the own list has it. Maps at the paths in
    `replaced` are taken whole, because their keys exclude each other.
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
    """Python finds 1, 1.0 and True equal; a manifest does not."""
    return msgspec.json.encode(entry, order="sorted")


def value_at(tree: SpecTree, path: str) -> object:
    """The value at a dotted path, or None."""
    value: object = tree
    for name in path.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return value


def set_value(tree: SpecTree, path: str, value: object) -> None:
    """Set the value at a dotted path; what stands in the way is replaced by a map."""
    *folders, last = path.split(".")
    for name in folders:
        below = tree.get(name)
        if not isinstance(below, dict):
            below = tree[name] = {}
        tree = below
    tree[last] = value


def pop_value(tree: SpecTree, path: str) -> object:
    """Remove the value at a dotted path and return it; maps that it leaves empty go with it."""
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
