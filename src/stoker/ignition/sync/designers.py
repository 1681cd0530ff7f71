"""Projects that are open in a Designer, and how a sync treats them.

The check runs before anything is staged. With `wait` the open projects stay as they are, each
with the name of its user, and the other projects are synced; with `proceed` the sync only warns;
with `fail` the whole sync stops. No policy ever writes into a project that is waited for,
however long that lasts: after the timeout, waiting becomes an error that is retried.

A project's wait begins with the first change that it holds back. It ends when the project is
found closed, or when there is no change for it any more. Newer commits join the wait, because a
stream of commits would otherwise postpone the error forever. The wait is stored beside the
ledger, so that an agent that restarts every few minutes does not begin it again each time.

A gateway that does not list its Designers stops the sync: the user of an unknown Designer would
lose work. Only the policy `proceed` continues without the list, with a warning.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from stoker.domain.clock import Clock
from stoker.domain.errors import Retry, Stalled, StokerError
from stoker.domain.git_objects import HeldPath
from stoker.domain.intent.policies import DesignerPolicy
from stoker.domain.reasons import Reason
from stoker.ignition.client.designer_sessions import DesignerSession
from stoker.ignition.client.gateway import GatewayClient, error_note
from stoker.ignition.content.projects import PROJECTS
from stoker.ignition.sync.readiness import PAUSES, GatewayReadiness, retry_call
from stoker.ignition.sync.state_files import StateFiles

STATE_FILE = "designers"
MAX_WAITS = 500
FORGET_SECONDS = 900.0
"""A wait that no sync renewed for its timeout and this many seconds is forgotten: it was interrupted."""


@dataclass(frozen=True, slots=True)
class _DesignerWait:
    """By the monotonic clock: since when a project waits, and when it was last seen open."""

    since: float
    seen: float
    user: str


class DesignerHolds:
    """Tracks the open projects of one gateway, for one policy."""

    def __init__(
        self,
        gateway: GatewayClient,
        readiness: GatewayReadiness,
        marks: StateFiles,
        clock: Clock,
        *,
        policy: DesignerPolicy,
        timeout: float,
    ) -> None:
        self.warnings: tuple[str, ...] = ()
        """Designers that the last check could not determine, or that the policy ignores."""
        self._gateway = gateway
        self._readiness = readiness
        self._marks = marks
        self._clock = clock
        self._policy = policy
        self._timeout = timeout
        self._waits: dict[str, _DesignerWait] | None = None

    async def hold(self, projects: frozenset[str]) -> tuple[HeldPath, ...]:
        """Return the projects that have to wait; with the policy `fail`, raise if there are any.

        Also raise if the gateway does not list its Designers, unless the policy is `proceed`.
        """
        self.warnings = ()
        busy = await self._busy(projects) if projects else {}
        if self._policy is DesignerPolicy.FAIL and busy:
            raise Stalled(
                f"{_busy_message(busy)}, and the policy for Designer sessions is {self._policy}: nothing "
                f"was written",
                reason=Reason.DESIGNER_SESSION_ACTIVE,
            )
        if self._policy is DesignerPolicy.PROCEED:
            if busy:
                self.warnings += (f"{_busy_message(busy)}; the sync went on, as its policy says",)
            busy = {}
        self._remember(busy)
        return tuple(
            HeldPath(f"{PROJECTS}/{name}", _open_by_text(user), user) for name, user in sorted(busy.items())
        )

    def overdue(self, held: Sequence[HeldPath]) -> Retry | None:
        """Return the error if waiting for these exceeds the timeout, else None."""
        late = {name: wait.user for name, wait in self._of(held).items() if self._is_late(wait)}
        if not late:
            return None
        return Retry(
            f"{_busy_message(late)} for longer than {self._timeout:g} s; nothing was written there, and it "
            f"is tried "
            "again until the project is closed",
            reason=Reason.DESIGNER_SESSION_ACTIVE,
        )

    async def opened_since(self, projects: frozenset[str]) -> Retry | None:
        """Return why the sync must start again: a Designer opened a project during the fetch. Else None."""
        if self._policy is DesignerPolicy.PROCEED or not projects:
            return None
        try:
            busy = _open_projects(await self._listed(), projects)
        except StokerError as error:
            self._readiness.saw(error)
            raise
        if not busy:
            return None
        return Retry(
            f"{_busy_message(busy)} since the sync began; nothing was written",
            reason=Reason.DESIGNER_SESSION_ACTIVE,
        )

    async def still_held(self, held: Sequence[HeldPath]) -> bool:
        """Return whether a sync would find all of them held again, with nothing else to report."""
        if not held or self.overdue(held) is not None:
            return False
        names = frozenset(one.place.removeprefix(f"{PROJECTS}/") for one in held)
        try:
            busy = _open_projects(await self._gateway.designers() or (), names)
        except StokerError:
            return False  # the sync reports the error
        waits, now = self._all(), self._clock.monotonic()
        waits.update({name: replace(waits[name], seen=now) for name in busy if name in waits})
        return names <= busy.keys()

    def forget(self) -> None:
        """Forget all waits: the gateway was not started yet, so no Designer is open."""
        self._waits = {}
        self._marks.clear(STATE_FILE)

    async def _busy(self, projects: frozenset[str]) -> Mapping[str, str]:
        """Return the open projects with their users."""
        cautious = self._policy is not DesignerPolicy.PROCEED
        pauses = PAUSES if cautious else ()
        try:
            sessions = await retry_call(self._listed, self._clock, pauses, self._is_worth_waiting)
        except StokerError as error:
            self._readiness.saw(
                error
            )  # only after the retries: a gateway that ran recently is worth retrying
            if cautious:
                raise
            self.warnings += (f"who has a project open in a Designer is not known: {error_note(error)}",)
            return {}
        return _open_projects(sessions, projects)

    async def _listed(self) -> Sequence[DesignerSession]:
        """Return every Designer; raise if the gateway does not list them."""
        sessions = await self._gateway.designers()
        if sessions is None:
            raise Stalled(
                f"the gateway at {self._gateway.address} does not list its Designers, so a project that a "
                "Designer has open cannot be spared",
                reason=Reason.DESIGNERS_UNKNOWN,
            )
        self._readiness.answered()
        return sessions

    def _is_worth_waiting(self, error: StokerError) -> bool:
        """Return whether to retry: a gateway that answers errors, or ran recently, may have Designers."""
        return error.reason is Reason.GATEWAY_ERROR or (
            error.reason is Reason.GATEWAY_UNREACHABLE and self._readiness.running is True
        )

    def _remember(self, busy: Mapping[str, str]) -> None:
        """Keep these waits and no others: every plan contains all changes that are still to be made."""
        before, now = self._all(), self._clock.monotonic()
        waits = {}
        for name, user in busy.items():
            wait = before.get(name)
            if wait is None or now - wait.seen > self._timeout + FORGET_SECONDS:
                wait = _DesignerWait(now, now, user)
            waits[name] = _DesignerWait(wait.since, now, user)
        if waits != before:
            self._waits = waits
            self._save(waits)

    def _of(self, held: Sequence[HeldPath]) -> Mapping[str, _DesignerWait]:
        places = {one.place for one in held}
        return {name: wait for name, wait in self._all().items() if f"{PROJECTS}/{name}" in places}

    def _is_late(self, wait: _DesignerWait) -> bool:
        return self._clock.monotonic() - wait.since >= self._timeout

    def _all(self) -> dict[str, _DesignerWait]:
        if self._waits is None:
            self._waits = self._load()
        return self._waits

    def _load(self) -> dict[str, _DesignerWait]:
        """Convert stored wall clock times to monotonic times; none is in the future."""
        now, today = self._clock.monotonic(), self._clock.now().timestamp()
        try:
            said = json.loads(self._marks.read(STATE_FILE) or b"{}")
        except (ValueError, RecursionError):
            return {}
        waits = {}
        for name, kept in said.items() if isinstance(said, dict) else ():
            match kept:
                case [int() | float() as since, int() | float() as seen, str() as user]:
                    waits[name] = _DesignerWait(
                        now - max(0.0, today - since), now - max(0.0, today - seen), user
                    )
        return waits

    def _save(self, waits: Mapping[str, _DesignerWait]) -> None:
        if not waits:
            self._marks.clear(STATE_FILE)
            return
        now, today = self._clock.monotonic(), self._clock.now().timestamp()
        kept = {
            name: [round(today - (now - wait.since), 3), round(today - (now - wait.seen), 3), wait.user]
            for name, wait in sorted(waits.items())[:MAX_WAITS]
        }
        self._marks.write(STATE_FILE, json.dumps(kept).encode())


def _open_projects(sessions: Iterable[DesignerSession], projects: frozenset[str]) -> Mapping[str, str]:
    users: dict[str, list[str]] = {}
    for session in sessions:
        # A Designer without a project has none open yet: its user has nothing to lose.
        if session.project in projects:
            users.setdefault(session.project, []).append(session.user or "an unknown user")
    return {name: ", ".join(sorted(set(those))) for name, those in users.items()}


def _open_by_text(user: str) -> str:
    return f"{user} has it open in a Designer"


def _busy_message(busy: Mapping[str, str]) -> str:
    return "; ".join(f"{user} has project {name} open in a Designer" for name, user in sorted(busy.items()))
