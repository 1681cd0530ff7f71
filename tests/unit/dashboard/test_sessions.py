"""Sessions: their lifetime, and the permissions of their users."""

from __future__ import annotations

import asyncio

import pytest

from stoker.dashboard.interfaces import ActionRefused, VisibleScope, Visitor
from stoker.dashboard.sessions import (
    IDLE_SECONDS,
    MAX_SESSION_SECONDS,
    PERMISSION_RECHECK_SECONDS,
    PERMISSION_TTL_SECONDS,
    DashboardSessions,
)
from stoker.domain.errors import Retry
from stoker.domain.secrets import Secret
from stoker_testkit.manual_clock import ManualClock

ALL = VisibleScope(True, frozenset(), lambda action, namespace: True, True)
ONE = VisibleScope(False, frozenset({"plant"}), lambda action, namespace: False, False)


class Gate:
    def __init__(self) -> None:
        self.answers: list[VisibleScope | Exception] = [ALL]
        self.asked = 0

    def known(self, token: Secret) -> Visitor | None:
        return None

    async def admit(self, token: Secret) -> Visitor | None:
        return visitor()

    async def sight(self, visitor: Visitor) -> VisibleScope:
        self.asked += 1
        await asyncio.sleep(0)
        answer = self.answers[0] if len(self.answers) == 1 else self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def visitor(name: str = "ada") -> Visitor:
    return Visitor(name, (), Secret("t"))


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def gate() -> Gate:
    return Gate()


@pytest.fixture
def sessions(gate: Gate, clock: ManualClock) -> DashboardSessions:
    return DashboardSessions(gate, clock, most=5, most_each=3)


async def test_a_session_is_found_by_its_id_alone(sessions: DashboardSessions) -> None:
    secret, session = sessions.begin(visitor())
    other, again = sessions.begin(visitor())
    assert sessions.find(secret) is session
    assert secret != other
    assert len(secret) >= 40
    assert len(session.csrf) >= 40
    assert session.csrf not in (secret, again.csrf), "the page gets it, and never sees the id"
    assert sessions.find(secret[:-1]) is None
    assert sessions.find("\udcff") is None


async def test_unused_it_ends_and_used_it_lasts(sessions: DashboardSessions, clock: ManualClock) -> None:
    secret, session = sessions.begin(visitor())
    await clock.advance(IDLE_SECONDS - 1)
    assert sessions.find(secret) is session
    await clock.advance(IDLE_SECONDS - 1)
    assert sessions.keep(session)
    await clock.advance(IDLE_SECONDS - 1)
    assert sessions.find(secret) is session
    await clock.advance(IDLE_SECONDS)
    assert sessions.find(secret) is None
    assert session.ended.is_set()


async def test_none_lasts_for_ever_however_it_is_used(
    sessions: DashboardSessions, clock: ManualClock
) -> None:
    secret, session = sessions.begin(visitor())
    for _ in range(int(MAX_SESSION_SECONDS / 1800) - 1):
        await clock.advance(1800)
        assert sessions.keep(session)
    await clock.advance(1800)
    assert not sessions.keep(session)
    assert session.ended.is_set()
    assert sessions.find(secret) is None


async def test_expired_sessions_are_removed_without_a_request(
    sessions: DashboardSessions, clock: ManualClock
) -> None:
    _, old = sessions.begin(visitor("old"))
    await clock.advance(IDLE_SECONDS)
    sessions.begin(visitor("new"))
    assert old.ended.is_set(), "and its streams with it"
    assert len(sessions) == 1


async def test_one_that_is_over_may_be_ended_again(sessions: DashboardSessions) -> None:
    secret, session = sessions.begin(visitor())
    for _ in range(2):
        sessions.end(session)
    assert sessions.find(secret) is None
    assert len(sessions) == 0


async def test_there_are_so_many_and_the_quietest_goes_first(sessions: DashboardSessions) -> None:
    begun = [sessions.begin(visitor(f"v{number}")) for number in range(5)]
    assert sessions.find(begun[0][0]) is not None  # used: now the second is the quietest
    sessions.begin(visitor("new"))
    assert len(sessions) == 5
    assert sessions.find(begun[0][0]) is not None
    assert begun[1][1].ended.is_set()


async def test_an_open_page_is_not_the_quietest(sessions: DashboardSessions) -> None:
    begun = [sessions.begin(visitor(f"v{number}")) for number in range(5)]
    assert sessions.keep(begun[0][1])
    sessions.begin(visitor("new"))
    assert not begun[0][1].ended.is_set()
    assert begun[1][1].ended.is_set()


async def test_a_token_that_was_renewed_while_the_old_one_was_asked_about_ends_nothing(
    sessions: DashboardSessions, gate: Gate
) -> None:
    gate.answers = [ActionRefused(401, "gone"), ALL]
    _, session = sessions.begin(visitor())
    asking = asyncio.create_task(sessions.sight(session))
    await asyncio.sleep(0)
    sessions.renew(session, visitor()._replace(token=Secret("newer")))
    with pytest.raises(ActionRefused):
        await asking
    assert not session.ended.is_set()
    assert await sessions.sight(session) == ALL


async def test_a_renewed_token_is_asked_about_although_the_old_one_just_was(
    sessions: DashboardSessions, gate: Gate
) -> None:
    gate.answers = [ALL, ONE]
    _, session = sessions.begin(visitor())
    asking = asyncio.create_task(sessions.sight(session))
    await asyncio.sleep(0)
    sessions.renew(session, visitor()._replace(token=Secret("newer")))
    assert await asking == ALL
    assert await sessions.sight(session) == ONE, "what the newer token may is another question"


async def test_through_a_session_that_has_ended_nothing_is_seen(
    sessions: DashboardSessions, gate: Gate
) -> None:
    _, session = sessions.begin(visitor())
    assert await sessions.sight(session) == ALL
    sessions.end(session)
    with pytest.raises(ActionRefused) as refused:
        await sessions.sight(session)
    assert refused.value.status == 401
    assert gate.asked == 1


async def test_one_visitor_cannot_push_out_the_others(sessions: DashboardSessions) -> None:
    secret, _ = sessions.begin(visitor("quiet"))
    for _ in range(50):
        sessions.begin(visitor("loud"))
    assert len(sessions) == 4
    assert sessions.find(secret) is not None


async def test_rights_are_asked_again_after_a_while_and_once_for_many(
    sessions: DashboardSessions, gate: Gate, clock: ManualClock
) -> None:
    gate.answers = [ALL, ONE]
    _, session = sessions.begin(visitor())
    assert await asyncio.gather(*(sessions.sight(session) for _ in range(10))) == [ALL] * 10
    assert gate.asked == 1
    await clock.advance(PERMISSION_RECHECK_SECONDS)
    assert await sessions.sight(session) == ONE
    assert gate.asked == 2


async def test_a_token_that_is_no_longer_good_ends_the_session(
    sessions: DashboardSessions, gate: Gate, clock: ManualClock
) -> None:
    secret, session = sessions.begin(visitor())
    await sessions.sight(session)
    gate.answers = [ActionRefused(401, "gone")]
    await clock.advance(PERMISSION_RECHECK_SECONDS)
    with pytest.raises(ActionRefused):
        await sessions.sight(session)
    assert session.ended.is_set()
    assert sessions.find(secret) is None


async def test_a_refusal_that_is_not_about_the_token_ends_nothing(
    sessions: DashboardSessions, gate: Gate
) -> None:
    gate.answers = [ActionRefused(429, "not now"), ALL]
    _, session = sessions.begin(visitor())
    with pytest.raises(ActionRefused):
        await sessions.sight(session)
    assert not session.ended.is_set()
    assert await sessions.sight(session) == ALL


async def test_known_permissions_hold_for_a_while_during_an_outage(
    sessions: DashboardSessions, gate: Gate, clock: ManualClock
) -> None:
    await clock.advance(PERMISSION_TTL_SECONDS)
    _, session = sessions.begin(visitor())
    gate.answers = [ALL, Retry("away")]
    await sessions.sight(session)
    await clock.advance(PERMISSION_RECHECK_SECONDS)
    assert await sessions.sight(session) == ALL
    assert await sessions.sight(session) == ALL
    assert gate.asked == 2, "a server that is away is not asked by every request"
    await clock.advance(PERMISSION_TTL_SECONDS - PERMISSION_RECHECK_SECONDS)
    with pytest.raises(Retry):
        await sessions.sight(session)
    assert not session.ended.is_set()


async def test_rights_that_were_never_known_are_not_guessed(sessions: DashboardSessions, gate: Gate) -> None:
    gate.answers = [Retry("away")]
    _, session = sessions.begin(visitor())
    with pytest.raises(Retry):
        await sessions.sight(session)


def test_a_session_shows_no_token(sessions: DashboardSessions) -> None:
    _, session = sessions.begin(Visitor("ada", (), Secret("s3cret")))
    assert "s3cret" not in repr(session)
