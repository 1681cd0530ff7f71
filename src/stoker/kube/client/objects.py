"""The fields that all API objects share, and the types of the protocol itself.

`ObjectHeader` decodes only the header of an object, whatever its kind: for 2,000 objects that costs a tenth
of decoding them whole. Attributes are spelt in snake case and on the wire as the API spells them
(`resource_version`, `resourceVersion`).
"""

from __future__ import annotations

import msgspec


class ObjectHeaderMeta(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """The part of `metadata` that decides what to do with an object."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    deletion_timestamp: str | None = None


class ObjectHeader(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """The header of any object. Items in a list of a built-in kind have neither apiVersion nor kind."""

    api_version: str = ""
    kind: str = ""
    metadata: ObjectHeaderMeta = ObjectHeaderMeta()


class ListMeta(msgspec.Struct, frozen=True, rename="camel"):
    """The metadata of a list: its resourceVersion, and the token for the next page."""

    resource_version: str = ""
    continue_token: str = msgspec.field(default="", name="continue")
    remaining_item_count: int | None = None


class RawList(msgspec.Struct, frozen=True):
    """A list of any kind with undecoded items; some servers write an empty list as null."""

    metadata: ListMeta
    items: list[msgspec.Raw] | None = None


class StatusCause(msgspec.Struct, frozen=True):
    """One detail of an error: the field, and the reason."""

    reason: str = ""
    message: str = ""
    field: str = ""


class StatusDetails(msgspec.Struct, frozen=True, rename="camel"):
    """Details that the server adds to an error."""

    causes: list[StatusCause] | None = None
    retry_after_seconds: int = 0


class ApiStatus(msgspec.Struct, frozen=True):
    """The server's description of a failure, as a response or as the object of an ERROR event."""

    kind: str = ""
    status: str = ""
    message: str = ""
    reason: str = ""
    code: int = 0
    details: StatusDetails | None = None
