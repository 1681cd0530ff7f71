"""Sign-in over real HTTP: tokens, cookies, sessions, and callers that fail too often."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from stoker.dashboard.server import DashboardOptions, DashboardServer
from stoker.dashboard.standalone.token_check import LocalAuth
from stoker.domain.secrets import Secret
from stoker_testkit.dashboard import sample_fleets
from stoker_testkit.dashboard.api_client import DashboardClient
from stoker_testkit.dashboard.fake_fleet_server import EDITOR, VIEWER
from stoker_testkit.dashboard.served_dashboard import ServedDashboard


@pytest_asyncio.fixture
async def house() -> AsyncIterator[ServedDashboard]:
    async with ServedDashboard() as house:
        yield house


async def test_the_session_lives_in_a_strict_cookie_and_ends_with_it(house: ServedDashboard) -> None:
    visit = await house.visit()
    said = await visit.sign_in(EDITOR)
    cookie = said.headers["Set-Cookie"]
    for word in ("HttpOnly", "SameSite=Strict", "Path=/", f"stoker-{house.dashboard.port}="):
        assert word in cookie
    assert "Secure" not in cookie
    assert EDITOR not in cookie
    assert (await visit.get("/api/picture")).status == 200
    gone = await visit.sign_out()
    assert gone.status == 200
    for word in ("Max-Age=0", "HttpOnly", "SameSite=Strict", "Path=/", f"stoker-{house.dashboard.port}="):
        assert word in gone.headers["Set-Cookie"]
    assert (await visit.get("/api/picture")).status == 401
    assert len(house.dashboard.sessions) == 0


async def test_the_cookie_is_for_tls_alone_where_a_proxy_terminates_it(house: ServedDashboard) -> None:
    visit = await house.visit()
    said = await visit.sign_in(EDITOR, X_Forwarded_Proto="https")
    assert "Secure" in said.headers["Set-Cookie"]
    assert said.headers["Set-Cookie"].startswith(f"__Host-stoker-{house.dashboard.port}=")


async def test_the_cookie_is_named_by_the_port_that_the_browser_knows(house: ServedDashboard) -> None:
    visit = await house.visit()
    said = await visit.sign_in(EDITOR, Host="127.0.0.1:9999")
    name, _, value = said.headers["Set-Cookie"].partition(";")[0].partition("=")
    assert name == "stoker-9999"
    visit.client.cookie_jar.clear()
    assert (await visit.get("/api/picture", Host="127.0.0.1:9999", Cookie=f"{name}={value}")).status == 200
    assert (await visit.get("/api/picture", Host="127.0.0.1:9998", Cookie=f"{name}={value}")).status == 401


async def test_a_newer_token_of_the_same_visitor_leaves_their_pages_open(
    house: ServedDashboard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stoker.dashboard.sessions.PERMISSION_RECHECK_SECONDS", 0.0)
    visit = await house.visit()
    first = await visit.get("/api/session", Authorization=f"Bearer {EDITOR}")
    async with visit.events() as events:
        await anext(events)
        house.gate.sights["editor-renewed"] = house.gate.sights.pop(EDITOR)
        again = await visit.get("/api/session", Authorization="Bearer editor-renewed")
        assert again.json["csrf"] == first.json["csrf"]
        house.scene.put(sample_fleets.resource("new"))
        assert (await anext(events)).name == "change"


async def test_a_token_in_the_header_begins_a_session_once(house: ServedDashboard) -> None:
    visit = await house.visit()
    first = await visit.get("/api/session", Authorization=f"Bearer {EDITOR}")
    assert first.json["signedIn"]
    again = await visit.get("/api/session", Authorization=f"Bearer {EDITOR}")
    assert again.json["csrf"] == first.json["csrf"]
    other = await visit.get("/api/session", Authorization=f"Bearer {VIEWER}")
    assert other.json["user"] == "viewer@plant.example"
    assert other.json["csrf"] != first.json["csrf"], "nobody goes on with what another one knew"
    assert other.headers["Set-Cookie"] != first.headers["Set-Cookie"]
    assert len(house.dashboard.sessions) == 1, "the session of the one before is over"
    wrong = await visit.get("/api/session", Authorization="Bearer nobody")
    assert wrong.status == 401
    assert wrong.headers["WWW-Authenticate"] == "Bearer"


async def test_logins_that_fail_too_often_have_to_wait(house: ServedDashboard) -> None:
    visit = await house.visit()
    answers = [await visit.sign_in("nobody") for _ in range(30)]
    assert answers[0].status == 401
    assert answers[-1].status == 429
    assert int(answers[-1].headers["Retry-After"]) >= 1
    assert (await visit.sign_in(EDITOR)).status == 429


async def test_a_token_that_is_known_is_not_kept_out_by_failures_of_others(house: ServedDashboard) -> None:
    settings = DashboardOptions(address="127.0.0.1:0")
    gate = LocalAuth(lambda: Secret("right"))
    async with (
        DashboardServer(house.scene, house, gate, settings=settings) as dashboard,
        DashboardClient(f"http://127.0.0.1:{dashboard.port}") as visit,
    ):
        answers = [(await visit.sign_in("wrong")).status for _ in range(30)]
        assert answers[-1] == 429
        assert (await visit.sign_in("right")).status == 200
        assert (await visit.sign_in("wrong")).status == 429


async def test_logins_that_succeed_are_never_counted(house: ServedDashboard) -> None:
    visit = await house.visit()
    assert {(await visit.sign_in(EDITOR)).status for _ in range(30)} == {200}
    assert len(house.dashboard.sessions) == 1, "a browser has one session"


async def test_what_is_no_token_is_not_shown_to_the_gate(house: ServedDashboard) -> None:
    visit = await house.visit()
    for token in ("a\r\nX-Evil: 1", "a\0b", "a\x7fb", "t\u00fcr", ""):
        house.gate.sights[token] = house.gate.sights[EDITOR]
        assert (await visit.sign_in(token)).status == 401
    assert len(house.dashboard.sessions) == 0
