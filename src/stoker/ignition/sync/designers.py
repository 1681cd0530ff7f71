"""Projects that somebody has open in a Designer, and what a change of them has to do about it.

Asked before anything is staged. With `wait` the busy projects stay as they are, each
with the name of its user, and the others go on; with `proceed` it is only said; with
`fail` the whole change stops. No policy ever writes into a project that is waited for,
however long that lasts: after the timeout waiting turns into an error that is retried.

A project's wait begins with the first change that it holds back and ends when it is
found closed, or when nothing is to change there any more; newer commits join it,
because a stream of them would otherwise put off the error for ever. It is remembered
beside the ledger, so that an agent which is started again every few minutes does not
begin anew each time.

A gateway that does not list its Designers stops the change: an unknown Designer would lose
its work. Only the policy `proceed` goes on without the list, and says so.
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
"""Seconds after its timeout in which nobody asked for a project: then it did not wait all the time."""


@dataclass(frozen=True, slots=True)
class _DesignerWait:
    """By the monotonic clock: since when a project waits, and when it was last seen open."""

    since: float
    seen: float
    user: str


class DesignerHolds:
    """Who has what open at one gateway, for one policy."""

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
        """What the last question could not answer, or what the policy lets pass."""
        self._gateway = gateway
        self._readiness = readiness
        self._marks = marks
        self._clock = clock
        self._policy = policy
        self._timeout = timeout
        self._waits: dict[str, _DesignerWait] | None = None

    async def hold(self, projects: frozenset[str]) -> tuple[HeldPath, ...]:
        """Those of the projects that have to wait; raises with the policy `fail` if there are any.

        Raises too where the gateway does not list its Designers, unless the policy is `proceed`.
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
        """Why waiting for these is an error by now; None as long as it is not."""
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
        """Why the change has to begin anew: somebody came while its contents were fetched. Else None."""
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
        """Whether a pass would find all of them held again, and have nothing else to say of it."""
        if not held or self.overdue(held) is not None:
            return False
        names = frozenset(one.place.removeprefix(f"{PROJECTS}/") for one in held)
        try:
            busy = _open_projects(await self._gateway.designers() or (), names)
        except StokerError:
            return False  # a pass says why
        waits, now = self._all(), self._clock.monotonic()
        waits.update({name: replace(waits[name], seen=now) for name in busy if name in waits})
        return names <= busy.keys()

    def forget(self) -> None:
        """The gateway was not even started: nobody has anything open."""
        self._waits = {}
        self._marks.clear(STATE_FILE)

    async def _busy(self, projects: frozenset[str]) -> Mapping[str, str]:
        """The projects that are open, with who has them."""
        cautious = self._policy is not DesignerPolicy.PROCEED
        pauses = PAUSES if cautious else ()
        try:
            sessions = await retry_call(self._listed, self._clock, pauses, self._is_worth_waiting)
        except StokerError as error:
            self._readiness.saw(error)  # not sooner: one that ran a moment ago is worth waiting for
            if cautious:
                raise
            self.warnings += (f"who has a project open in a Designer is not known: {error_note(error)}",)
            return {}
        return _open_projects(sessions, projects)

    async def _listed(self) -> Sequence[DesignerSession]:
        """Every Designer; raises where the gateway does not list them."""
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
        """A gateway that answers with an error, or has run a moment ago, may have Designers in it."""
        return error.reason is Reason.GATEWAY_ERROR or (
            error.reason is Reason.GATEWAY_UNREACHABLE and self._readiness.running is True
        )

    def _remember(self, busy: Mapping[str, str]) -> None:
        """These wait, and no others: a change that is still to be made is part of every plan."""
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
        """Moments of the wall clock as such of the monotonic one; none lies in the future."""
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
        # One without a project has not opened any yet: it has nothing to lose.
        if session.project in projects:
            users.setdefault(session.project, []).append(session.user or "somebody")
    return {name: ", ".join(sorted(set(those))) for name, those in users.items()}


def _open_by_text(user: str) -> str:
    return f"{user} has it open in a Designer"


def _busy_message(busy: Mapping[str, str]) -> str:
    return "; ".join(f"{user} has project {name} open in a Designer" for name, user in sorted(busy.items()))
