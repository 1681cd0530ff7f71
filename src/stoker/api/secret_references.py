"""Finds the Secrets that a spec refers to, by the form of a reference and not by a list of fields. Pure.

A reference is an object under a key that ends in `SecretRef`, or a text under a key that ends in
`secretName`. So fields that are added later are covered, and objects that do not match their schema too.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def secret_references(value: Any) -> Iterator[tuple[str, str]]:
    """Yield namespace (empty if none is given) and name of every reference inside a value."""
    if isinstance(value, list):
        for item in value:
            yield from secret_references(item)
    if not isinstance(value, dict):
        return
    for key, inner in value.items():
        form = key.lower()
        if form.endswith("secretname") and isinstance(inner, str) and inner:
            yield "", inner
        elif form.endswith("secretref") and isinstance(inner, dict) and isinstance(inner.get("name"), str):
            yield str(inner.get("namespace") or ""), inner["name"]
        yield from secret_references(inner)
