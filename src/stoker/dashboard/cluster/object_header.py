"""The fields that all objects of the reverser share, as far as the dashboard reads them."""

from __future__ import annotations

import msgspec


class ReverserObjectMeta(msgspec.Struct, frozen=True):
    """The `metadata` of an object."""

    name: str
    namespace: str = ""


class ReverserObjectRef(msgspec.Struct, frozen=True):
    """A reference to another object; without a namespace it is in the same namespace."""

    name: str = ""
    namespace: str | None = None
