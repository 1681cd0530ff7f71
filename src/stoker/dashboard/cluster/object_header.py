"""What objects of the reverser have in common, as far as a page reads it."""

from __future__ import annotations

import msgspec


class ReverserObjectMeta(msgspec.Struct, frozen=True):
    """The `metadata` of an object."""

    name: str
    namespace: str = ""


class ReverserObjectRef(msgspec.Struct, frozen=True):
    """How one names another; without a namespace it is its own."""

    name: str = ""
    namespace: str | None = None
