"""Perspective sessions of changed projects: counted, and closed only if the policy demands it.

Runs just before files change, when the scan lock is held and nothing can stop the change any
more, and only for projects that really change and those that inherit from them.

    none      counts; sessions refresh themselves when the project has changed
    graceful  shows a message, waits, and closes only sessions that got the message
    close     waits, and closes the remaining sessions with a message in the same request

Ignition 8.3 has no request that only shows a message, so there `graceful` leaves every session
open and warns. It must never close a session that was not warned. A failure here never stops a
sync; it becomes a warning.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from stoker.domain.clock import Clock
from stoker.domain.errors import StokerError
from stoker.domain.intent.policies import PerspectivePolicy
from stoker.ignition.client.designer_sessions import PerspectiveSession
from stoker.ignition.client.gateway import GatewayClient, error_note
from stoker.ignition.client.responses import PathNotOffered
from stoker.ignition.content.projects import with_inheriting_projects
from stoker.telemetry.logs import get_logger

GRACE_SECONDS = 10.0
POLL_SECONDS = 1.0
MAX_CONCURRENT_MESSAGES = 8
MAX_WAIT_SECONDS = 30.0
"""Limit for messaging or closing all sessions, however many there are and however slow the gateway is."""
UPDATE_NOTICE = "This screen will be updated in a few seconds and then has to be opened again."
CLOSED = "This screen was updated. Please open it again."

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class PerspectiveOutcome:
    """The result for the sessions of the changed projects."""

    active: int | None = None
    """Number of sessions; None if the gateway does not list them."""
    longest: float = 0.0
    """Age of the oldest session in seconds."""
    closed: int = 0
    projects: tuple[str, ...] = ()
    """Projects in which a session was closed."""
    warnings: tuple[str, ...] = ()


class PerspectiveSessions:
    """Handles the sessions of one gateway by one policy."""

    def __init__(
        self, gateway: GatewayClient, data_dir: Path, clock: Clock, policy: PerspectivePolicy
    ) -> None:
        self._gateway = gateway
        self._data_dir = data_dir
        self._clock = clock
        self._policy = policy

    @property
    def seconds(self) -> float:
        """The longest duration of `clear`, if the gateway answers."""
        return 0.0 if self._policy is PerspectivePolicy.NONE else GRACE_SECONDS

    async def clear(self, projects: frozenset[str]) -> PerspectiveOutcome:
        """Apply the policy to the sessions of these projects."""
        projects = with_inheriting_projects(self._data_dir, projects)
        try:
            sessions = await self._sessions(projects)
        except StokerError as error:
            return PerspectiveOutcome(warnings=(f"Perspective sessions are not known: {error_note(error)}",))
        if sessions is None:
            forced = self._policy is PerspectivePolicy.CLOSE
            unknown = "Perspective sessions were not closed: this gateway does not list them"
            return PerspectiveOutcome(warnings=(unknown,) if forced else ())
        longest = max((one.uptime for one in sessions), default=0.0)
        if sessions:
            log.info("perspective.active", sessions=len(sessions), longest_seconds=round(longest, 1))
        if not sessions or self._policy is PerspectivePolicy.NONE:
            return PerspectiveOutcome(len(sessions), longest)
        closed, warnings = await self._end(sessions, projects)
        disturbed = tuple(sorted({one.project for one in closed}))
        if closed:
            log.info("perspective.closed", sessions=len(closed), projects=disturbed, module="Perspective")
        return PerspectiveOutcome(len(sessions), longest, len(closed), disturbed, warnings)

    async def _end(
        self, sessions: Sequence[PerspectiveSession], projects: frozenset[str]
    ) -> tuple[Sequence[PerspectiveSession], tuple[str, ...]]:
        """Return the closed sessions and the warnings."""
        troubles: list[StokerError] = []
        warned = await self._each(
            sessions, lambda session: self._gateway.message_session(session.id, UPDATE_NOTICE), troubles
        )
        closing = sessions if self._policy is PerspectivePolicy.CLOSE else warned
        if unwarned := len(sessions) - len(closing):
            open_still = f"{unwarned} of {len(sessions)} were left open: this gateway showed them no message"
            troubles.append(PathNotOffered(open_still))
        left = await self._wait(closing, projects) if closing else ()
        closed = await self._each(left, lambda one: self._gateway.close_session(one.id, CLOSED), troubles)
        # The gateway answers 404 for a session that ended by itself meanwhile, as for a missing path.
        stays = len(left) - len(closed)
        if stays and await self._remain(left, projects, troubles):
            troubles.append(PathNotOffered(f"{stays} of {len(left)} could not be closed"))
        return closed, tuple(
            dict.fromkeys(
                f"Perspective sessions: "
                f"{error_note(one) if not isinstance(one, PathNotOffered) else one.message}"
                for one in troubles
            )
        )

    async def _wait(
        self, sessions: Sequence[PerspectiveSession], projects: frozenset[str]
    ) -> Sequence[PerspectiveSession]:
        """Wait until all have ended or the grace period is over, even if listing fails; return the rest."""
        deadline = self._clock.monotonic() + GRACE_SECONDS
        while True:
            await self._clock.sleep(POLL_SECONDS)
            with suppress(StokerError):
                now = {one.id for one in await self._sessions(projects) or ()}
                sessions = [one for one in sessions if one.id in now]
            if not sessions or self._clock.monotonic() >= deadline:
                return sessions

    async def _remain(
        self,
        left: Sequence[PerspectiveSession],
        projects: frozenset[str],
        troubles: list[StokerError],
    ) -> bool:
        try:
            now = {one.id for one in await self._sessions(projects) or ()}
        except StokerError as error:
            troubles.append(error)
            return False
        return any(one.id in now for one in left)

    async def _sessions(self, projects: frozenset[str]) -> Sequence[PerspectiveSession] | None:
        """List the sessions of these projects; a session without a project may show any of them."""
        found = await self._gateway.perspective_sessions()
        if found is None:
            return None
        return [one for one in found if one.id and (not one.project or one.project in projects)]

    async def _each(
        self,
        sessions: Sequence[PerspectiveSession],
        do: Callable[[PerspectiveSession], Coroutine[object, object, None]],
        troubles: list[StokerError],
    ) -> Sequence[PerspectiveSession]:
        """Return the sessions for which `do` succeeded; a few run at a time, within a time limit."""
        if not sessions:
            return []
        room = asyncio.Semaphore(MAX_CONCURRENT_MESSAGES)

        async def one_of_them(session: PerspectiveSession) -> PerspectiveSession | None:
            async with room:
                try:
                    await do(session)
                except PathNotOffered:
                    return None
                except StokerError as error:
                    troubles.append(error)
                    return None
                return session

        tasks = [asyncio.create_task(one_of_them(session)) for session in sessions]
        try:
            done, _ = await asyncio.wait(tasks, timeout=MAX_WAIT_SECONDS)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        return [session for task in tasks if task in done and (session := task.result()) is not None]
