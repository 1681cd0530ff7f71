"""Designer sessions by project, and Perspective sessions.

Parses the lists of the 8.3 API and of the documented `/data/api/v2`, which use different
field names. Pure: `gateway` sends the requests, `stoker.ignition.sync` decides on the result.
"""

from __future__ import annotations

from typing import NamedTuple

from stoker.ignition.client.parse import (
    JsonItem,
    item_name,
    item_seconds,
    item_text,
    only_objects,
    parse_items,
)

_DESIGNER = "designer"
_KINDS = ("type", "sessionType", "sessionScope", "scope", "client", "application")


class DesignerSession(NamedTuple):
    """A user who has a project open in the Designer."""

    id: str
    user: str
    project: str
    address: str


class PerspectiveSession(NamedTuple):
    """A browser or a phone that shows a project."""

    id: str
    user: str
    project: str
    uptime: float
    """Seconds; 0 if the gateway does not report it."""


def parse_designers(said: object, *, mixed: bool) -> tuple[DesignerSession, ...] | None:
    """Return the Designers of a list; of a `mixed` list, only the entries that are marked as Designers."""
    items = parse_items(said, "sessions", "designers")
    if items is None:
        return None
    return tuple(
        DesignerSession(_id(item), _user(item), _project(item), _address(item))
        for item in only_objects(items)
        if not mixed or _is_designer(item)
    )


def parse_project_designers(project: str, said: object) -> tuple[DesignerSession, ...] | None:
    """Parse the Designers of one project from the project's response; None if it does not list them."""
    items = parse_items(said, "designers", "sessions", "designSessions", "designerSessions")
    if items is None:
        return None
    return tuple(
        DesignerSession(_id(item), _user(item), project, _address(item)) for item in only_objects(items)
    )


def parse_perspective_sessions(said: object) -> tuple[PerspectiveSession, ...] | None:
    """Return the Perspective sessions of a list, without previews inside a Designer."""
    items = parse_items(said, "sessions")
    if items is None:
        return None
    return tuple(
        PerspectiveSession(_id(item), _user(item), _project(item), item_seconds(item, "uptime"))
        for item in only_objects(items)
        if not _is_designer(item)
    )


def _is_designer(item: JsonItem) -> bool:
    return any(_DESIGNER in item_text(item, kind).lower() for kind in _KINDS)


def _id(item: JsonItem) -> str:
    return item_name(item, "id", "sessionId")


def _user(item: JsonItem) -> str:
    return item_text(item, "user", "username", "userName")


def _project(item: JsonItem) -> str:
    return item_name(item, "project", "projectName")


def _address(item: JsonItem) -> str:
    return item_text(item, "address", "clientAddress", "host")
