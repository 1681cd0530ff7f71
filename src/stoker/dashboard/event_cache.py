"""What is sent to streams, worked out and written as JSON once for all that see the same.

Between the scene and its streams. A picture or a change that was made a moment ago is what
the next stream gets that sees as far and has seen as much; it may be a little behind the
scene, and that stream's next event goes on from there. So streams that follow together stay
together, and many of them cost little more than one.
"""

from __future__ import annotations

from collections import deque
from typing import Generic, NamedTuple, TypeVar

from stoker.dashboard.interfaces import ViewSource, VisibleScope
from stoker.dashboard.view_models import ChangesView, DashboardView, VisitorView, as_json
from stoker.domain.clock import Clock

MOST_KEPT = 32
"""Pictures, and changes; who sees as nobody else does costs what they cost alone."""

_VISITOR_FIELD = b'"you":'
_ANONYMOUS_FIELD = _VISITOR_FIELD + as_json(VisitorView())
"""Where a picture names its visitor; nothing from outside stands before it."""

EventT = TypeVar("EventT")


class ViewEvent(NamedTuple):
    """A picture for everybody with the same sight, as an event in two halves: the visitor stands between."""

    version: int
    before: bytes
    after: bytes

    def event(self, user: str) -> bytes:
        return b"".join((self.before, _VISITOR_FIELD, as_json(VisitorView(name=user)), self.after))


class ChangesEvent(NamedTuple):
    """What is different up to a version, as an event; empty: nothing that this sight reaches."""

    version: int
    event: bytes


class EventBroadcast:
    """The newest events of one server."""

    def __init__(self, scene: ViewSource, clock: Clock) -> None:
        self._scene = scene
        self._clock = clock
        self._pictures: _RecentEvents[ViewEvent] = _RecentEvents()
        self._changes: _RecentEvents[ChangesEvent] = _RecentEvents()

    def picture(self, sight: VisibleScope, lasts: float) -> ViewEvent:
        """One that was made at most so many seconds ago."""
        now = self._clock.monotonic()
        found = self._pictures.find(0, sight, now - lasts)
        if found is None:
            found = _view_message(self._scene.picture(sight))
            self._pictures.keep(0, sight, now, found)
        return found

    def changes(self, seen: int, sight: VisibleScope, lasts: float) -> ChangesEvent | None:
        """None: too long ago, take the picture."""
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
    """Looked through one by one: a sight can be compared, but not hashed."""

    def __init__(self) -> None:
        self._kept: deque[tuple[int, VisibleScope, float, EventT]] = deque(maxlen=MOST_KEPT)

    def find(self, seen: int, sight: VisibleScope, since: float) -> EventT | None:
        while self._kept and self._kept[-1][2] <= since:
            self._kept.pop()
        return next((made for one, of, _, made in self._kept if one == seen and of == sight), None)

    def keep(self, seen: int, sight: VisibleScope, now: float, made: EventT) -> None:
        self._kept.appendleft((seen, sight, now, made))


def server_sent_event(name: str, data: bytes) -> bytes:
    """JSON as msgspec writes it holds no line end, so it is one line of the stream."""
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
    """What a visitor may not see makes no event; the page has the version all the same with the next one."""
    lists = (changes.resources, changes.gone, changes.destinations, changes.gone_destinations)
    return any(lists) or changes.stop is not None
