"""Authentication and permissions, with an API server that counts its requests."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web

from stoker.dashboard.cluster.access_review import MAX_TOKEN_LENGTH
from stoker.dashboard.cluster.authenticator import (
    CACHE_SECONDS,
    REVIEWS_PER_SECOND,
    SOON_SECONDS,
    ClusterAuth,
)
from stoker.dashboard.cluster.kinds import ACTIONABLE_KINDS, ALL, PAUSE_MAP
from stoker.dashboard.cluster.permissions import allowed_actions, can_see
from stoker.dashboard.interfaces import ActionRefused, Visitor
from stoker.domain.errors import Retry
from stoker.domain.secrets import Secret
from stoker.kube.client.client import KubeClient
from stoker.kube.config.config import ClusterConfig
from stoker_testkit.manual_clock import ManualClock
from stoker_testkit.wait_until import eventually_async

PLACES = 20
WHO: dict[str, Any] = {"uid": "0-1", "extra": {"scopes": ["plant"]}}


class Places:
    """Namespaces in which there is something to see."""

    def places(self, kind: str) -> list[str]:
        return [f"line-{number}" for number in range(PLACES)]

    async def looked(self) -> None:
        return


class ApiServer:
    """Knows everybody by the first word of their token, and lets them do what is in `allowed`."""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()
        self.allowed: set[tuple[str, str, str]] = set()
        """Verb, resource and namespace."""
        self.broken = False
        self.deaf = False
        """Answers who a user is, and not what the user may do."""
        self.strangers = False
        """No token is known."""
        self.specs: list[dict[str, Any]] = []
        """What was asked in SubjectAccessReviews."""
        self.url = ""

    async def answer(self, request: web.Request) -> web.Response:
        kind = request.path.rpartition("/")[2]
        self.asked[kind] += 1
        if self.broken or (self.deaf and kind == "subjectaccessreviews"):
            return web.json_response(
                {"kind": "Status", "code": 500, "message": "etcd at 10.1.2.3 is away"}, status=500
            )
        body = await request.json()
        if kind == "tokenreviews":
            who = {"username": body["spec"]["token"].split(".")[0], "groups": ["people"], **WHO}
            return web.json_response(
                {**body, "status": {"authenticated": not self.strangers, "user": who}}, status=201
            )
        self.specs.append(body["spec"])
        of = body["spec"]["resourceAttributes"]
        allowed = (of["verb"], of["resource"], of["namespace"]) in self.allowed
        return web.json_response({**body, "status": {"allowed": allowed}}, status=201)


@pytest.fixture
async def api() -> AsyncIterator[ApiServer]:
    api, app = ApiServer(), web.Application()
    app.router.add_post("/{path:.*}", api.answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    api.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    yield api
    await runner.cleanup()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def gate(api: ApiServer, clock: ManualClock) -> AsyncIterator[ClusterAuth]:
    async with KubeClient(ClusterConfig(api.url)) as client:
        yield ClusterAuth(client, Places(), "stoker-system", clock)


async def admitted(gate: ClusterAuth, token: str) -> Visitor:
    visitor = await gate.admit(Secret(token))
    assert visitor is not None
    return visitor


async def look(gate: ClusterAuth, token: str) -> None:
    await gate.sight(await admitted(gate, token))


ONCE = len(ALL) * (1 + PLACES) + 1
"""What is asked about a user without any right: each kind, everywhere and in each namespace, and the stop."""


async def test_fifty_pages_of_a_user_without_rights_cost_what_one_costs(
    gate: ClusterAuth, api: ApiServer, clock: ManualClock
) -> None:
    await asyncio.gather(*(look(gate, "ann.a") for _ in range(25)))
    for number in range(25):
        await look(gate, f"ann.{number}")
    assert api.asked["subjectaccessreviews"] <= ONCE + len(ACTIONABLE_KINDS)
    first = api.asked["subjectaccessreviews"]
    await look(gate, "bob.a")
    assert api.asked["subjectaccessreviews"] == 2 * first, "another user is asked about separately"
    await clock.advance(CACHE_SECONDS)
    await look(gate, "ann.a")
    assert api.asked["subjectaccessreviews"] == 3 * first, "a right that was taken away is gone"


async def test_a_right_that_was_taken_away_is_gone_within_seconds_for_few_questions(
    gate: ClusterAuth, api: ApiServer, clock: ManualClock
) -> None:
    api.allowed = {("list", "stokers", "line-3"), ("patch", "stokers", "line-3")}
    visitor = await admitted(gate, "ann.a")
    first = await gate.sight(visitor)
    assert (can_see(first, "Stoker", "line-3"), can_see(first, "Stoker", "line-4")) == (True, False)
    for _ in range(3):  # all of it within half a minute, after which everything is asked anyway
        asked = api.asked["subjectaccessreviews"]
        await clock.advance(SOON_SECONDS)
        assert await gate.sight(visitor) is first
        assert api.asked["subjectaccessreviews"] == asked + 2, "what was granted, and nothing else"
        assert await gate.sight(visitor) is first
        assert api.asked["subjectaccessreviews"] == asked + 2
    api.allowed.clear()
    await clock.advance(SOON_SECONDS - 1)
    assert await gate.sight(visitor) is first
    await clock.advance(1)
    assert not can_see(await gate.sight(visitor), "Stoker", "line-3")


async def test_a_revoked_token_is_noticed_within_seconds(
    gate: ClusterAuth, api: ApiServer, clock: ManualClock
) -> None:
    visitor = await admitted(gate, "ann.a")
    await gate.sight(visitor)
    assert api.asked["tokenreviews"] == 1
    api.strangers = True
    await clock.advance(SOON_SECONDS)
    for _ in range(2):
        with pytest.raises(ActionRefused, match="no longer good"):
            await gate.sight(visitor)
        assert gate.known(Secret("ann.a")) is None, "and it admits no user"


@pytest.mark.parametrize(
    "right",
    [
        ("list", "stokers", ""),
        ("list", "stokers", "line-3"),
        ("list", "gitdestinations", "line-3"),
        ("patch", "configmaps", "stoker-system"),
    ],
)
async def test_whatever_was_granted_is_gone_within_seconds_of_being_taken_away(
    gate: ClusterAuth, api: ApiServer, clock: ManualClock, right: tuple[str, str, str]
) -> None:
    nothing = await gate.sight(await admitted(gate, "bob.a"))
    api.allowed = {right}
    ann = await admitted(gate, "ann.a")
    before = await gate.sight(ann)
    assert before != nothing
    api.allowed.clear()
    await clock.advance(SOON_SECONDS)
    assert await gate.sight(ann) == nothing


async def test_who_has_very_many_rights_is_not_asked_about_each_every_few_seconds(
    gate: ClusterAuth, api: ApiServer, clock: ManualClock
) -> None:
    api.allowed = {("list", one.plural, f"line-{place}") for one in ALL.values() for place in range(PLACES)}
    ann = await admitted(gate, "ann.a")
    await gate.sight(ann)
    asked = api.asked["subjectaccessreviews"]
    await clock.advance(SOON_SECONDS)
    await gate.sight(ann)
    assert api.asked["subjectaccessreviews"] == asked
    await clock.advance(CACHE_SECONDS - SOON_SECONDS)
    await gate.sight(ann)
    assert api.asked["subjectaccessreviews"] == 2 * asked


async def test_a_review_without_an_answer_is_asked_again_and_keeps_no_other_user_out(
    gate: ClusterAuth, api: ApiServer
) -> None:
    ann, bob = await admitted(gate, "ann.a"), await admitted(gate, "bob.a")
    api.deaf, api.allowed = True, {("list", "stokers", "")}
    with pytest.raises(Retry):
        await gate.sight(ann)
    api.deaf = False
    assert can_see(await gate.sight(bob), "Stoker", "line-3")
    assert can_see(await gate.sight(ann), "Stoker", "line-3")


async def test_it_remembers_so_many_people_and_no_more(
    gate: ClusterAuth, api: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stoker.dashboard.cluster.authenticator.MAX_CACHED_TOKENS", 2)
    for name in ("ann", "bob", "eve"):
        await look(gate, f"{name}.a")
    assert gate.known(Secret("ann.a")) is None
    assert all(gate.known(Secret(f"{name}.a")) is not None for name in ("bob", "eve"))
    asked = api.asked["subjectaccessreviews"]
    await look(gate, "eve.b")
    await look(gate, "bob.b")
    assert api.asked["subjectaccessreviews"] == asked, "who looked last is remembered"
    await look(gate, "ann.b")
    assert api.asked["subjectaccessreviews"] == asked + asked // 3


async def test_with_very_many_people_each_is_asked_about_less_often(
    gate: ClusterAuth, api: ApiServer, clock: ManualClock
) -> None:
    api.allowed = {("list", plural, "") for plural in ("stokers", "ignitionsyncs", "gitdestinations")}
    await asyncio.gather(*(look(gate, f"user{number}.a") for number in range(150)))
    asked = api.asked.total()
    await clock.advance(SOON_SECONDS)
    await look(gate, "user1.a")
    assert api.asked.total() == asked, "600 questions at once would be too many"
    await clock.advance(600 / REVIEWS_PER_SECOND)
    await look(gate, "user1.a")
    assert api.asked.total() == asked + 4


async def test_a_user_who_leaves_takes_the_answer_from_no_other(gate: ClusterAuth, api: ApiServer) -> None:
    impatient, patient = (asyncio.create_task(look(gate, "ann.a")) for _ in range(2))
    await eventually_async(lambda: api.asked["subjectaccessreviews"] > 0)
    impatient.cancel()
    await patient
    assert impatient.cancelled()


async def test_what_the_api_server_says_of_itself_is_for_the_log(
    gate: ClusterAuth, api: ApiServer, clock: ManualClock, capfd: pytest.CaptureFixture[str]
) -> None:
    api.broken = True
    with pytest.raises(Retry, match="the API server could not be asked") as error:
        await gate.admit(Secret("ann.a"))
    assert "10.1.2.3" not in error.value.message
    assert "10.1.2.3" in capfd.readouterr().err
    api.broken = False
    await look(gate, "ann.a")
    await clock.advance(SOON_SECONDS)
    api.broken, asked = True, api.asked["tokenreviews"]
    with pytest.raises(Retry):
        await look(gate, "ann.a")
    api.broken = False
    await look(gate, "ann.a")
    assert api.asked["tokenreviews"] > asked


async def test_a_token_is_remembered_for_half_a_minute_and_no_longer(
    gate: ClusterAuth, api: ApiServer, clock: ManualClock
) -> None:
    token = Secret("ann.a")
    assert gate.known(token) is None
    visitor = await gate.admit(token)
    api.strangers = True
    await clock.advance(CACHE_SECONDS - 1)
    assert gate.known(token) == visitor == await gate.admit(token) == ("ann", ("people",), token)
    assert gate.known(Secret("ann.b")) is None, "another token of the same person"
    await clock.advance(1)
    assert gate.known(token) is None
    assert await gate.admit(token) is None


async def test_a_token_that_belongs_to_another_user_by_now_shows_nothing(gate: ClusterAuth) -> None:
    visitor = await admitted(gate, "ann.a")
    with pytest.raises(ActionRefused) as refused:
        await gate.sight(visitor._replace(name="bob"))
    assert refused.value.status == 401


@pytest.mark.parametrize(
    "text", ["", "two\nlines", "ann.\x00", "gr\u00f6\u00dfe", "a" * (MAX_TOKEN_LENGTH + 1)]
)
async def test_what_cannot_be_a_token_is_not_even_asked_about(
    gate: ClusterAuth, api: ApiServer, text: str
) -> None:
    assert await gate.admit(Secret(text)) is None
    assert not api.asked
    assert await gate.admit(Secret("a" * MAX_TOKEN_LENGTH)) is not None


async def test_a_user_without_a_name_is_not_admitted(gate: ClusterAuth, api: ApiServer) -> None:
    assert await gate.admit(Secret(".a")) is None
    assert api.asked["tokenreviews"] == 1


async def test_the_api_server_is_asked_about_the_whole_person_and_exactly_that(
    gate: ClusterAuth, api: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    await look(gate, "ann.a")
    asked = [spec.pop("resourceAttributes") for spec in api.specs]
    assert all(spec == {"user": "ann", "groups": ["people"], **WHO} for spec in api.specs)
    assert {"verb": "list", "group": "stoker.io", "version": "v1alpha1", "resource": "stokers"} in [
        {key: one[key] for key in ("verb", "group", "version", "resource")} for one in asked
    ]
    stop = {"verb": "patch", "group": "", "version": "v1", "resource": "configmaps"}
    assert {**stop, "namespace": "stoker-system", "name": PAUSE_MAP} in asked
    api.specs.clear()
    for name in ("uid", "extra"):
        monkeypatch.delitem(WHO, name)
    await look(gate, "bob.a")
    assert {key for spec in api.specs for key in spec} == {"user", "groups", "resourceAttributes"}


async def test_the_same_name_with_other_groups_sees_nothing_by_what_is_known_of_it(
    gate: ClusterAuth, api: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    api.allowed = {("list", "stokers", "")}
    assert can_see(await gate.sight(await admitted(gate, "ann.a")), "Stoker", "line-3")
    api.allowed.clear()
    monkeypatch.setitem(WHO, "groups", ["guests"])
    assert not can_see(await gate.sight(await admitted(gate, "ann.b")), "Stoker", "line-3")


async def test_who_may_stop_everything_may_change_the_one_map_for_it(
    gate: ClusterAuth, api: ApiServer
) -> None:
    for token, allowed, may in (
        ("ann.a", ("patch", "configmaps", "stoker-system"), True),
        ("bob.a", ("patch", "configmaps", "default"), False),
        ("eve.a", ("get", "configmaps", "stoker-system"), False),
    ):
        api.allowed = {allowed}
        assert (await gate.sight(await admitted(gate, token))).may_stop is may


async def test_who_sees_something_may_not_change_it_for_that(gate: ClusterAuth, api: ApiServer) -> None:
    api.allowed = {("list", "stokers", ""), ("patch", "stokers", "line-3"), ("patch", "stokers", "elsewhere")}
    visitor = await admitted(gate, "ann.a")
    sight = await gate.sight(visitor)
    assert can_see(sight, "Stoker", "line-4")
    assert allowed_actions(sight, "Stoker", "line-3")
    assert not allowed_actions(sight, "Stoker", "line-4")
    assert not allowed_actions(sight, "IgnitionSync", "line-3")
    assert not sight.everything, "of other kinds nothing is seen"
    assert not can_see(sight, "IgnitionSync", "line-3")
