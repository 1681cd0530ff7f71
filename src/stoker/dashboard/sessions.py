"""Sessions of signed-in users: a random id in a cookie, and the visitor's state in memory.

Sessions are limited in number (in total and for each visitor) and in age (since the last use and since
the start); a new session displaces the least recently used. The session id and the token exist only
here, and no log line contains either. The visible scope of a visitor is checked again every few seconds.
A token that is no longer valid ends the session and its event streams.
"""

from __future__ import annotations

import asyncio
import hashlib
import secrets
from collections import OrderedDict
from dataclasses import dataclass, field

from stoker.dashboard.interfaces import ActionRefused, DashboardAuth, VisibleScope, Visitor
from stoker.domain.clock import Clock
from stoker.domain.errors import StokerError
from stoker.telemetry.logs import get_logger

MAX_SESSIONS = 1_000
MAX_SESSIONS_PER_USER = 50
IDLE_SECONDS = 3600.0
MAX_SESSION_SECONDS = 7 * 24 * 3600.0
PERMISSION_RECHECK_SECONDS = 2.5
"""Interval between two checks of a visitor's visible scope; the auth backend may answer from its cache."""
RETRY_SECONDS = 5.0
PERMISSION_TTL_SECONDS = 300.0
"""How long the last known permissions stay valid while the check fails."""
_BYTES = 32

log = get_logger(__name__)


@dataclass(slots=True, eq=False)
class DashboardSession:
    """A visitor's session in one browser."""

    key: bytes = field(repr=False)
    visitor: Visitor
    csrf: str
    began: float
    used: float
    streams: int = 0
    """The number of event streams that are open in this session."""
    sight: VisibleScope | None = None
    sight_at: float = 0.0
    ask_after: float = 0.0
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    asking: asyncio.Lock = field(default_factory=asyncio.Lock)


class DashboardSessions:
    """All open sessions."""

    def __init__(
        self,
        gate: DashboardAuth,
        clock: Clock,
        *,
        most: int = MAX_SESSIONS,
        most_each: int = MAX_SESSIONS_PER_USER,
    ) -> None:
        self._gate = gate
        self._clock = clock
        self._most = most
        self._most_each = most_each
        # Keyed by the digest of the id, so that the time of a lookup reveals nothing about an id.
        self._open: OrderedDict[bytes, DashboardSession] = OrderedDict()

    def __len__(self) -> int:
        return len(self._open)

    def begin(self, visitor: Visitor) -> tuple[str, DashboardSession]:
        """Return the id for the cookie and a new session."""
        self._sweep()
        mine = [key for key, one in self._open.items() if one.visitor.name == visitor.name]
        for key in mine[: max(0, len(mine) - self._most_each + 1)]:
            self._end(key)
        while len(self._open) >= self._most:
            self._end(next(iter(self._open)))
        now = self._clock.monotonic()
        secret = secrets.token_urlsafe(_BYTES)
        session = DashboardSession(_secret_digest(secret), visitor, secrets.token_urlsafe(_BYTES), now, now)
        self._open[session.key] = session
        return secret, session

    def renew(self, session: DashboardSession, visitor: Visitor) -> None:
        """Replace the token by a newer token of the same visitor; the next check uses it."""
        session.visitor, session.ask_after = visitor, 0.0

    def find(self, secret: str) -> DashboardSession | None:
        """Return the session of a cookie and count the lookup as use."""
        key = _secret_digest(secret)
        session = self._open.get(key)
        if session is None:
            return None
        if self._is_over(session):
            self._end(key)
            return None
        self._use(session)
        return session

    def end(self, session: DashboardSession) -> None:
        if session.key in self._open:
            self._end(session.key)

    async def sight(self, session: DashboardSession) -> VisibleScope:
        """Return what the visitor may see now; raises `ActionRefused(401)` if the session has ended."""
        async with session.asking:
            visitor = session.visitor
            if session.ended.is_set():
                raise ActionRefused(401, "the session has ended")
            now = self._clock.monotonic()
            if session.sight is None or now >= session.ask_after:
                try:
                    session.sight = await self._gate.sight(visitor)
                    session.sight_at = now
                    if session.visitor is visitor:
                        session.ask_after = now + PERMISSION_RECHECK_SECONDS
                except ActionRefused as refused:
                    if refused.status == 401 and session.visitor is visitor:  # else renewed during the check
                        self.end(session)
                    raise
                except StokerError as error:
                    if session.sight is None or now - session.sight_at >= PERMISSION_TTL_SECONDS:
                        session.sight = None
                        raise
                    session.ask_after = now + RETRY_SECONDS
                    log.warning("dashboard.rights_unknown", reason=error.reason, error=error.message)
            return session.sight

    def keep(self, session: DashboardSession) -> bool:
        """Count an open stream as use; return False if the session has ended or expired."""
        if session.ended.is_set():
            return False
        self._use(session)
        if self._is_over(session):
            self.end(session)
            return False
        return True

    def _use(self, session: DashboardSession) -> None:
        session.used = self._clock.monotonic()
        self._open.move_to_end(session.key)

    def _sweep(self) -> None:
        for key in [key for key, one in self._open.items() if self._is_over(one)]:
            self._end(key)

    def _is_over(self, session: DashboardSession) -> bool:
        now = self._clock.monotonic()
        return now - session.used >= IDLE_SECONDS or now - session.began >= MAX_SESSION_SECONDS

    def _end(self, key: bytes) -> None:
        self._open.pop(key).ended.set()


def _secret_digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode(errors="surrogateescape")).digest()
