"""Decodes one line of a watch, or one item of a list.

It is between the client, which delivers bytes, and `stoker.kube.watch.list_watch`. It decodes only four
fields of an object, because most objects are decoded again by the cache, or dropped: twenty thousand lines a
second must fit into one core. A truncated line or invalid JSON is a `MalformedEvent`, which the protocol
treats as a broken stream; it must never look like an event.
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
    """The stream contains something that the API server would not have written."""

    default_reason = Reason.API_SERVER_ERROR


class WatchMeta(msgspec.Struct, frozen=True):
    """The metadata fields that identify an object and its version."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = msgspec.field(name="resourceVersion", default="")

    @property
    def key(self) -> ObjectKey:
        # Thousands of objects share a namespace; interning lets them share its string.
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


# Deeply nested objects raise RecursionError.
_DECODE_ERRORS = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)

_line = msgspec.json.Decoder(_RawWatchLine)
_object = msgspec.json.Decoder(_WatchObject)
_status = msgspec.json.Decoder(ApiStatus)


def read_line(line: bytes, what: str = "watch") -> WatchLine:
    """Decode one line of a watch; raise `MalformedEvent` if it is malformed.

    `what` names the watch in the error.
    """
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
    """Decode one item of a list; raise `MalformedEvent` if the object cannot be identified."""
    try:
        meta = _object.decode(raw).metadata
    except _DECODE_ERRORS as error:
        raise MalformedEvent(f"{what}: an item of {len(raw)} bytes cannot be read: {error}") from error
    if not (meta.name and meta.resource_version):
        raise MalformedEvent(f"{what}: an item has no name or no resourceVersion")
    return meta


def read_error(raw: bytes, what: str = "watch") -> ApiError | MalformedEvent:
    """Return the error that the object of an ERROR line describes."""
    try:
        status = _status.decode(raw)
    except _DECODE_ERRORS as error:
        return MalformedEvent(f"{what}: an error of {len(raw)} bytes cannot be read: {error}")
    # Servers send the reason without the code, or the code without the reason, so both count.
    code = 410 if status.reason in {"Expired", "Gone"} else status.code
    return error_for(code, raw, {}, what=what)
