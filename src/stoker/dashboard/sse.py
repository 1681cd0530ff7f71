"""Server-sent events: the whole view first, then the changes, until the page disconnects.

A stream has no queue. It remembers the version that its page has received. Once the page has read the
last event, the stream sends everything that changed since that version, so a slow reader skips the
versions in between and needs no more memory than a fast reader. A stream whose page reads nothing for
30 s is closed. Changes in quick succession become one event.

    event: picture   all that the visitor may see; sent again whenever the visible scope changes
    event: change    the changes since the last event
    event: bye       the session has ended; the page asks for a new sign-in
    event: alive     after 15 s without another event, for proxies and for the page's own timeout
"""

from __future__ import annotations

import asyncio

from aiohttp import web

from stoker.dashboard.event_cache import EventBroadcast, server_sent_event
from stoker.dashboard.interfaces import ActionRefused, ViewSource, VisibleScope
from stoker.dashboard.request_checks import NO_STORE
from stoker.dashboard.sessions import PERMISSION_RECHECK_SECONDS, DashboardSession, DashboardSessions
from stoker.domain.clock import Clock
from stoker.domain.errors import StokerError
from stoker.kube.client.deadlines import deadline, wait_for_event, wait_for_first
from stoker.telemetry.logs import get_logger

MAX_STREAMS = 256
MAX_STREAMS_PER_USER = 4
"""Streams of one session. A browser opens six connections to a server, and an action needs one of them."""
KEEPALIVE_SECONDS = 15.0
CALM_SECONDS = 0.1
"""The least time between two events of a stream: at most ten events a second, however many changes."""
CALM_EACH = 0.004
"""The same for each open stream: with many streams, the pause grows to keep the event loop responsive."""
STUCK_SECONDS = 30.0

_HEADERS = {**NO_STORE, "Content-Type": "text/event-stream; charset=utf-8", "X-Accel-Buffering": "no"}

log = get_logger(__name__)


class EventStreams:
    """All event streams of one server."""

    def __init__(
        self, scene: ViewSource, sessions: DashboardSessions, clock: Clock, *, most: int = MAX_STREAMS
    ) -> None:
        self.scene = scene
        self.sessions = sessions
        self.clock = clock
        self._most = most
        self.shared = EventBroadcast(scene, clock)
        self.closing = asyncio.Event()
        self.open = 0

    def close(self) -> None:
        """End all streams; the pages reconnect on their own."""
        self.closing.set()

    @property
    def calm(self) -> float:
        return max(CALM_SECONDS, CALM_EACH * self.open)

    async def serve(self, request: web.BaseRequest, session: DashboardSession) -> web.StreamResponse:
        if self.open >= self._most or session.streams >= MAX_STREAMS_PER_USER:
            raise ActionRefused(429, "too many pages are open; close one of them")
        self.open += 1  # before the first await, or simultaneous requests would exceed the limits
        session.streams += 1
        try:
            return await self._served(request, session, await self.sessions.sight(session))
        finally:
            self.open -= 1
            session.streams -= 1

    async def _served(
        self, request: web.BaseRequest, session: DashboardSession, sight: VisibleScope
    ) -> web.StreamResponse:
        response = web.StreamResponse(headers=_HEADERS)
        response.force_close()
        try:
            await response.prepare(request)
            await _EventStream(self, session, response).run(sight)
        except StokerError as error:  # the visitor's permissions are unknown, so the stream must end
            log.warning("stream.ended", reason=error.reason, error=error.message)
        except (ConnectionError, TimeoutError):
            log.debug("stream.gone")  # the page is gone or does not read: no error can reach it
            if request.transport is not None:
                request.transport.abort()
        return response


class _EventStream:
    def __init__(
        self, all_of_them: EventStreams, session: DashboardSession, response: web.StreamResponse
    ) -> None:
        self._all = all_of_them
        self._session = session
        self._response = response
        self._seen = 0
        self._wrote = all_of_them.clock.monotonic()

    async def run(self, sight: VisibleScope) -> None:
        closing = self._all.closing
        await self._send_picture(sight)
        while not closing.is_set():
            grew = await self._first_of_all()
            if closing.is_set():
                return
            now = await self._looked_again()
            if now is None:
                await self._write(server_sent_event("bye", b"{}"))
                return
            if now != sight:
                sight = now
                await self._send_picture(sight)
            elif grew:
                await self._send_changes(sight)
            if self._silence() >= KEEPALIVE_SECONDS:
                await self._write(server_sent_event("alive", b"{}"))
            await self._rest(self._all.calm)

    async def _looked_again(self) -> VisibleScope | None:
        """Return what the visitor may see now; None if the session is over."""
        if not self._all.sessions.keep(self._session):
            return None
        try:
            return await self._all.sessions.sight(self._session)
        except ActionRefused:
            return None

    async def _first_of_all(self) -> bool:
        """Wait for a change, the end of session or server, or a timeout; return whether there is a change.

        The timeout exists because a revoked permission must remove data from the page though no data changed.
        """
        scene = self._all.scene
        await wait_for_first(
            scene.changed(self._seen),
            self._session.ended.wait(),
            self._all.closing.wait(),
            self._all.clock.sleep(
                min(PERMISSION_RECHECK_SECONDS, max(0.0, KEEPALIVE_SECONDS - self._silence()))
            ),
        )
        return scene.version() > self._seen

    async def _rest(self, seconds: float) -> None:
        await wait_for_event(self._all.closing, self._all.clock, seconds)

    async def _send_picture(self, sight: VisibleScope) -> None:
        picture = self._all.shared.picture(sight, self._all.calm)
        self._seen = picture.version
        await self._write(picture.event(self._session.visitor.name))

    async def _send_changes(self, sight: VisibleScope) -> None:
        changes = self._all.shared.changes(self._seen, sight, self._all.calm)
        if changes is None:
            await self._send_picture(sight)
            return
        self._seen = changes.version
        if changes.event:
            await self._write(changes.event)

    def _silence(self) -> float:
        """Return the seconds since the last write; changes outside the visible scope do not count."""
        return self._all.clock.monotonic() - self._wrote

    async def _write(self, data: bytes) -> None:
        async with deadline(self._all.clock, STUCK_SECONDS):
            await self._response.write(data)
        self._wrote = self._all.clock.monotonic()
