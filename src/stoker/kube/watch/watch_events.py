"""What one line of a watch, or one item of a list, says.

Stands between the client, which delivers bytes, and `stoker.kube.watch.list_watch`. Of
an object only four fields are decoded, because most of what passes by is
decoded again by whoever keeps it, or dropped: twenty thousand lines a second
have to fit into one core. A line that is cut off or is no JSON is `MalformedEvent`,
which the protocol takes as a broken stream; it must never look like an event.
"""

from __future__ import annotations

import sys
from typing import NamedTuple

import msgspec

from stoker.domain.errors import Retry
from stoker.domain.reasons import Reason
from stoker.kube.client.errors import ApiError, error_for
from stoker.kube.client.objects import ApiStatus
from stoker.kube.watch.store import ObjectKey

BOOKMARK = "BOOKMARK"
ERROR = "ERROR"
DELETED = "DELETED"
EVENTS = frozenset({"ADDED", "MODIFIED", DELETED})


class MalformedEvent(Retry):
    """Something came that the API server would not have written."""

    default_reason = Reason.API_SERVER_ERROR


class WatchMeta(msgspec.Struct, frozen=True):
    """As much of an object's metadata as tells it from others and from its earlier self."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = msgspec.field(name="resourceVersion", default="")

    @property
    def key(self) -> ObjectKey:
        # Thousands of objects share a namespace; interning lets them share its string too.
        return ObjectKey(sys.intern(self.namespace), self.name)


class WatchLine(NamedTuple):
    """A decoded line; `raw` is a copy of the object's own bytes."""

    type: str
    meta: WatchMeta
    raw: bytes


class _RawWatchLine(msgspec.Struct, frozen=True):
    type: str
    object: msgspec.Raw


class _WatchObject(msgspec.Struct, frozen=True):
    metadata: WatchMeta = WatchMeta()


# The last one is what a thousand nested objects raise.
_DECODE_ERRORS = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)

_line = msgspec.json.Decoder(_RawWatchLine)
_object = msgspec.json.Decoder(_WatchObject)
_status = msgspec.json.Decoder(ApiStatus)


def read_line(line: bytes, what: str = "watch") -> WatchLine:
    """One line of a watch; anything but a well-formed one is `MalformedEvent`. `what` names the watch in
    it."""
    try:
        outer = _line.decode(line)
        meta = _object.decode(outer.object).metadata
    except _DECODE_ERRORS as error:
        raise MalformedEvent(f"{what}: a line of {len(line)} bytes cannot be read: {error}") from error
    if outer.type in EVENTS and not meta.name:
        raise MalformedEvent(f"{what}: a line of type {outer.type} names no object")
    if outer.type != ERROR and not meta.resource_version:
        raise MalformedEvent(f"{what}: a line of type {outer.type[:40]!r} has no resourceVersion")
    return WatchLine(outer.type, meta, bytes(outer.object))


def read_item(raw: bytes, what: str = "list") -> WatchMeta:
    """One item of a list; `MalformedEvent` if it cannot be told which object it is."""
    try:
        meta = _object.decode(raw).metadata
    except _DECODE_ERRORS as error:
        raise MalformedEvent(f"{what}: an item of {len(raw)} bytes cannot be read: {error}") from error
    if not (meta.name and meta.resource_version):
        raise MalformedEvent(f"{what}: an item has no name or no resourceVersion")
    return meta


def read_error(raw: bytes, what: str = "watch") -> ApiError | MalformedEvent:
    """The error that the object of an ERROR line tells of."""
    try:
        status = _status.decode(raw)
    except _DECODE_ERRORS as error:
        return MalformedEvent(f"{what}: an error of {len(raw)} bytes cannot be read: {error}")
    # The reason counts as much as the code: both have been seen to come alone.
    code = 410 if status.reason in {"Expired", "Gone"} else status.code
    return error_for(code, raw, {}, what=what)
