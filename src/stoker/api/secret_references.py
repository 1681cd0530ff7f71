"""Which Secrets a spec names, found by the form of a reference and not by a list of fields. Pure.

An object under a key that ends in `SecretRef`, or a text under a key that ends in `secretName`. So a field
that is added later is covered, and so is an object that does not fit its schema.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def secret_references(value: Any) -> Iterator[tuple[str, str]]:
    """Namespace, as far as one is given, and name of every reference inside a value."""
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
