"""Who may come in and how far they see, with an API server that counts what it is asked."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator

import pytest
from aiohttp import web

from stoker.domain.errors import Retry
from stoker.domain.secrets import Secret
from stoker.kube.client import Client
from stoker.kube.config import ClusterConfig
from stoker.testing.clock import ManualClock
from stoker.testing.waiting import eventually_async
from stoker.web.clusters.gate import KNOWN_SECONDS, QUESTIONS_A_SECOND, SOON_SECONDS, ClusterGate
from stoker.web.clusters.kinds import ALL
from stoker.web.clusters.rights import sees
from stoker.web.seams import Refused

PLACES = 20


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
        self.strangers = False
        """Nobody's token is known."""
        self.url = ""

    async def answer(self, request: web.Request) -> web.Response:
        kind = request.path.rpartition("/")[2]
        self.asked[kind] += 1
        if self.broken:
            return web.json_response(
                {"kind": "Status", "code": 500, "message": "etcd at 10.1.2.3 is away"}, status=500
            )
        body = await request.json()
        if kind == "tokenreviews":
            who = {"username": body["spec"]["token"].split(".")[0], "groups": ["people"]}
            return web.json_response(
                {**body, "status": {"authenticated": not self.strangers, "user": who}}, status=201
            )
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
async def gate(api: ApiServer, clock: ManualClock) -> AsyncIterator[ClusterGate]:
    async with Client(ClusterConfig(api.url)) as client:
        yield ClusterGate(client, Places(), "stoker-system", clock)


async def look(gate: ClusterGate, token: str) -> None:
    visitor = await gate.admit(Secret(token))
    assert visitor is not None
    await gate.sight(visitor)


ONCE = len(ALL) * (1 + PLACES) + 1
"""What is asked about somebody without any right: each kind, everywhere and in each place, and the stop."""


async def test_fifty_pages_of_somebody_without_rights_cost_what_one_costs(
    gate: ClusterGate, api: ApiServer, clock: ManualClock
) -> None:
    await asyncio.gather(*(look(gate, "ann.a") for _ in range(25)))
    for number in range(25):
        await look(gate, f"ann.{number}")
    assert api.asked["subjectaccessreviews"] <= ONCE + 2
    first = api.asked["subjectaccessreviews"]
    await look(gate, "bob.a")
    assert api.asked["subjectaccessreviews"] == 2 * first, "somebody else is asked about for themselves"
    await clock.advance(KNOWN_SECONDS)
    await look(gate, "ann.a")
    assert api.asked["subjectaccessreviews"] == 3 * first, "a right that was taken away is gone"


async def test_a_right_that_was_taken_away_is_gone_within_seconds_for_few_questions(
    gate: ClusterGate, api: ApiServer, clock: ManualClock
) -> None:
    api.allowed = {("list", "stokers", "line-3"), ("patch", "stokers", "line-3")}
    visitor = await gate.admit(Secret("ann.a"))
    assert visitor is not None
    first = await gate.sight(visitor)
    assert (sees(first, "Stoker", "line-3"), sees(first, "Stoker", "line-4")) == (True, False)
    for _ in range(5):
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
    assert not sees(await gate.sight(visitor), "Stoker", "line-3")


async def test_a_token_that_was_taken_back_is_noticed_within_seconds(
    gate: ClusterGate, api: ApiServer, clock: ManualClock
) -> None:
    visitor = await gate.admit(Secret("ann.a"))
    assert visitor is not None
    await gate.sight(visitor)
    api.strangers = True
    await clock.advance(SOON_SECONDS)
    with pytest.raises(Refused, match="no longer good"):
        await gate.sight(visitor)


async def test_with_very_many_people_each_is_asked_about_less_often(
    gate: ClusterGate, api: ApiServer, clock: ManualClock
) -> None:
    api.allowed = {("list", plural, "") for plural in ("stokers", "ignitionsyncs", "gitdestinations")}
    await asyncio.gather(*(look(gate, f"user{number}.a") for number in range(150)))
    asked = api.asked.total()
    await clock.advance(SOON_SECONDS)
    await look(gate, "user1.a")
    assert api.asked.total() == asked, "600 questions at once would be too many"
    await clock.advance(600 / QUESTIONS_A_SECOND)
    await look(gate, "user1.a")
    assert api.asked.total() == asked + 4


async def test_one_who_leaves_takes_the_answer_from_nobody(gate: ClusterGate, api: ApiServer) -> None:
    impatient, patient = (asyncio.create_task(look(gate, "ann.a")) for _ in range(2))
    await eventually_async(lambda: api.asked["subjectaccessreviews"] > 0)
    impatient.cancel()
    await patient
    assert impatient.cancelled()


async def test_what_the_api_server_says_of_itself_is_for_the_log(
    gate: ClusterGate, api: ApiServer, clock: ManualClock, capfd: pytest.CaptureFixture[str]
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
