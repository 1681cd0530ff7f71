"""What every object of the API has in common, and the few shapes that belong to the protocol itself.

`ObjectHeader` reads only the head of an object, whatever its kind: a store of 2,000
objects costs a tenth of decoding them whole. Attributes are spelt in Python's
way and on the wire as the API spells them (`resource_version`, `resourceVersion`).
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
    """The head of any object. Items of a built-in kind's list carry neither apiVersion nor kind."""

    api_version: str = ""
    kind: str = ""
    metadata: ObjectHeaderMeta = ObjectHeaderMeta()


class ListMeta(msgspec.Struct, frozen=True, rename="camel"):
    """The head of a list: the version it shows, and where the next page begins."""

    resource_version: str = ""
    continue_token: str = msgspec.field(default="", name="continue")
    remaining_item_count: int | None = None


class RawList(msgspec.Struct, frozen=True):
    """A list of any kind with its items unread; some servers write an empty list as null."""

    metadata: ListMeta
    items: list[msgspec.Raw] | None = None


class StatusCause(msgspec.Struct, frozen=True):
    """One detail of a refusal: which field, and why."""

    reason: str = ""
    message: str = ""
    field: str = ""


class StatusDetails(msgspec.Struct, frozen=True, rename="camel"):
    """What the server adds to a refusal."""

    causes: list[StatusCause] | None = None
    retry_after_seconds: int = 0


class ApiStatus(msgspec.Struct, frozen=True):
    """The server's own account of a failure, as an answer or as the object of an ERROR event."""

    kind: str = ""
    status: str = ""
    message: str = ""
    reason: str = ""
    code: int = 0
    details: StatusDetails | None = None
