"""Caches encoded events, so that all streams with the same visible scope share them.

Between the view source and its streams (`stoker.dashboard.sse`). A stream with the same visible scope
and the same last version receives the view or change that was encoded a moment ago. That event may be
slightly older than the view source; the stream's next event continues from its version. Streams that
follow together therefore stay together, and many of them cost little more than a single stream.
"""

from __future__ import annotations

from collections import deque
from typing import Generic, NamedTuple, TypeVar

from stoker.dashboard.interfaces import ViewSource, VisibleScope
from stoker.dashboard.view_models import ChangesView, DashboardView, VisitorView, as_json
from stoker.domain.clock import Clock

MOST_KEPT = 32
"""Limit of cached views, and of cached changes. A visitor with a unique scope gains nothing from it."""

_VISITOR_FIELD = b'"you":'
_ANONYMOUS_FIELD = _VISITOR_FIELD + as_json(VisitorView())
"""The place of the visitor's name in an encoded view; no text from outside precedes it."""

EventT = TypeVar("EventT")


class ViewEvent(NamedTuple):
    """A view for all visitors with the same scope, encoded as an event in two halves around the visitor."""

    version: int
    before: bytes
    after: bytes

    def event(self, user: str) -> bytes:
        return b"".join((self.before, _VISITOR_FIELD, as_json(VisitorView(name=user)), self.after))


class ChangesEvent(NamedTuple):
    """The changes up to a version, encoded as an event; empty if none is inside the visible scope."""

    version: int
    event: bytes


class EventBroadcast:
    """The most recent events of one server."""

    def __init__(self, scene: ViewSource, clock: Clock) -> None:
        self._scene = scene
        self._clock = clock
        self._pictures: _RecentEvents[ViewEvent] = _RecentEvents()
        self._changes: _RecentEvents[ChangesEvent] = _RecentEvents()

    def picture(self, sight: VisibleScope, lasts: float) -> ViewEvent:
        """Return a view that is at most `lasts` seconds old."""
        now = self._clock.monotonic()
        found = self._pictures.find(0, sight, now - lasts)
        if found is None:
            found = _view_message(self._scene.picture(sight))
            self._pictures.keep(0, sight, now, found)
        return found

    def changes(self, seen: int, sight: VisibleScope, lasts: float) -> ChangesEvent | None:
        """Return the changes since version `seen`; None if it is too old and the whole view is needed."""
        now = self._clock.monotonic()
        found = self._changes.find(seen, sight, now - lasts)
        if found is None:
            changes = self._scene.changes(seen, sight)
            if changes is None:
                return None
            found = _changes_message(changes)
            self._changes.keep(seen, sight, now, found)
        return found


class _RecentEvents(Generic[EventT]):
    """Recent events with their scopes, searched linearly: a scope can be compared but not hashed."""

    def __init__(self) -> None:
        self._kept: deque[tuple[int, VisibleScope, float, EventT]] = deque(maxlen=MOST_KEPT)

    def find(self, seen: int, sight: VisibleScope, since: float) -> EventT | None:
        while self._kept and self._kept[-1][2] <= since:
            self._kept.pop()
        return next((made for one, of, _, made in self._kept if one == seen and of == sight), None)

    def keep(self, seen: int, sight: VisibleScope, now: float, made: EventT) -> None:
        self._kept.appendleft((seen, sight, now, made))


def server_sent_event(name: str, data: bytes) -> bytes:
    """Encode an event; msgspec writes JSON without line breaks, so `data` is a single line."""
    return b"event: %s\ndata: %s\n\n" % (name.encode(), data)


def _view_message(picture: DashboardView) -> ViewEvent:
    before, _, after = server_sent_event("picture", as_json(picture)).partition(_ANONYMOUS_FIELD)
    return ViewEvent(picture.version, before, after)


def _changes_message(changes: ChangesView) -> ChangesEvent:
    return ChangesEvent(
        changes.version,
        server_sent_event("change", as_json(changes)) if _has_visible_changes(changes) else b"",
    )


def _has_visible_changes(changes: ChangesView) -> bool:
    """Return whether there is anything to send; a page gets a skipped version with its next event."""
    lists = (changes.resources, changes.gone, changes.destinations, changes.gone_destinations)
    return any(lists) or changes.stop is not None
