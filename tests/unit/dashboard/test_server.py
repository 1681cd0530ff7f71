"""The dashboard's server over real HTTP, before a scene of values."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import pytest_asyncio

from stoker import __version__
from stoker.dashboard import sse
from stoker.dashboard.interfaces import ActionRefused, VisibleScope, Visitor
from stoker.dashboard.metrics import DashboardMetrics
from stoker.dashboard.server import DashboardOptions, DashboardServer
from stoker.dashboard.server_tls import server_tls_context
from stoker.dashboard.standalone.token_check import LocalAuth
from stoker.dashboard.view_models import ActionBody, ChangesView, DashboardView
from stoker.domain.clock import SystemClock
from stoker.domain.errors import Misconfigured, Retry, Stalled, StokerError
from stoker.domain.reasons import Reason
from stoker.domain.secrets import Secret
from stoker.telemetry.metrics import Metrics
from stoker_testkit.certificates import Authority
from stoker_testkit.dashboard import sample_fleets
from stoker_testkit.dashboard.api_client import CSRF, DashboardClient
from stoker_testkit.dashboard.fake_fleet_server import EDITOR, VIEWER, FakeActions, FakeAuth, FakeViewSource
from stoker_testkit.wait_until import eventually_async

POLICY = {
    *("default-src 'none'", "script-src 'self'", "style-src 'self'", "img-src 'self' data:"),
    *("connect-src 'self'", "form-action 'self'", "frame-ancestors 'none'", "base-uri 'none'"),
}
"""All that a page may do; a page that needs more has to say so here, too."""


class House:
    """A dashboard, what it shows, and visitors."""

    def __init__(self, **options: Any) -> None:
        self.scene, self.gate = FakeViewSource(), FakeAuth()
        self.scene.put(*sample_fleets.mixed(), *sample_fleets.destinations())
        self.hands: Any = FakeActions(self.scene)
        self._options = {"settings": DashboardOptions(address="127.0.0.1:0"), **options}
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> House:
        self.dashboard = await self._stack.enter_async_context(
            DashboardServer(self.scene, self, self.gate, **self._options)
        )
        self.url = f"http://127.0.0.1:{self.dashboard.port}"
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    async def do(self, order: ActionBody, visitor: Visitor) -> str:
        done: str = await self.hands.do(order, visitor)
        return done

    async def visit(self, token: str = "") -> DashboardClient:
        visit = await self._stack.enter_async_context(DashboardClient(self.url))
        if token:
            assert (await visit.sign_in(token)).status == 200
        return visit


@pytest_asyncio.fixture
async def house() -> AsyncIterator[House]:
    async with House() as house:
        yield house


def of(house: House) -> dict[str, str]:
    first = sample_fleets.mixed()[0]
    return {"namespace": first.namespace, "kind": first.kind, "name": first.name}


async def test_a_stranger_sees_the_page_and_nothing_else(house: House) -> None:
    visit = await house.visit()
    page = await visit.get("/")
    assert page.status == 200
    assert page.headers["Content-Type"] == "text/html; charset=utf-8"
    said = await visit.get("/api/session")
    assert said.json == {"mode": "cluster", "signedIn": False, "user": "", "csrf": "", "version": __version__}
    for path in ("/api/picture", "/api/events", "/api/gateways/a/b/c/d"):
        answer = await visit.get(path)
        assert answer.status == 401
        assert answer.json == {"error": "not signed in, or the session has ended", "reason": ""}
    order = await visit.order(action="stop")
    assert order.status == 401
    assert house.hands.orders == []


async def test_who_signs_in_sees_the_picture_in_the_documented_shape(house: House) -> None:
    visit = await house.visit(EDITOR)
    session = (await visit.get("/api/session")).json
    assert session["signedIn"] is True
    assert session["user"] == "editor@plant.example"
    picture = (await visit.get("/api/picture")).json
    assert set(picture) == {"version", "mode", "at", "you", "stop", "resources", "destinations", "unseen"}
    assert picture["you"] == {"name": "editor@plant.example"}
    assert picture["stop"] == {"active": False, "since": None, "may": True}
    assert set(picture["resources"][0]) == {
        *("id", "namespace", "kind", "name", "ref", "commit", "paused", "ready", "reason", "message"),
        *("lastSync", "may", "approval", "rollback", "release", "gateways"),
    }
    assert set(picture["resources"][0]["gateways"][0]) == {
        *("name", "pod", "state", "ref", "commit", "syncedAt", "drift", "driftPaths", "heldBy"),
        *("takenBack", "reason", "message", "stage"),
    }
    assert set(picture["destinations"][0]) == {
        *(
            "id",
            "namespace",
            "name",
            "repo",
            "branch",
            "folder",
            "commit",
            "committedAt",
            "authors",
            "recent",
        ),
        *("lagSeconds", "pending", "pendingSince", "ready", "reason", "message", "stalled", "suspended"),
        *("rules", "troubles", "warnings", "held", "may"),
    }


async def test_a_gateway_is_shown_with_its_history(house: House) -> None:
    visit = await house.visit(EDITOR)
    first = sample_fleets.mixed()[0]
    path = f"/api/gateways/{first.namespace}/{first.kind}/{first.name}"
    past = (await visit.get(f"{path}/{first.gateways[0].name}")).json
    assert set(past) == {"gateway", "history", "snapshots"}
    assert past["gateway"]["name"] == first.gateways[0].name
    assert (await visit.get(f"{path}/nobody")).status == 404
    assert (await visit.get(path)).status == 404
    assert (await visit.get(f"{path}/a/b")).status == 404


async def test_the_session_lives_in_a_strict_cookie_and_ends_with_it(house: House) -> None:
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


async def test_the_cookie_is_for_tls_alone_where_a_proxy_speaks_it(house: House) -> None:
    visit = await house.visit()
    said = await visit.sign_in(EDITOR, X_Forwarded_Proto="https")
    assert "Secure" in said.headers["Set-Cookie"]
    assert said.headers["Set-Cookie"].startswith(f"__Host-stoker-{house.dashboard.port}=")


async def test_the_cookie_is_named_by_the_port_that_the_browser_knows(house: House) -> None:
    visit = await house.visit()
    said = await visit.sign_in(EDITOR, Host="127.0.0.1:9999")
    name, _, value = said.headers["Set-Cookie"].partition(";")[0].partition("=")
    assert name == "stoker-9999"
    visit.client.cookie_jar.clear()
    assert (await visit.get("/api/picture", Host="127.0.0.1:9999", Cookie=f"{name}={value}")).status == 200
    assert (await visit.get("/api/picture", Host="127.0.0.1:9998", Cookie=f"{name}={value}")).status == 401


async def test_a_newer_token_of_the_same_visitor_leaves_their_pages_open(
    house: House, monkeypatch: pytest.MonkeyPatch
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


async def test_a_token_in_the_header_begins_a_session_once(house: House) -> None:
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


async def test_an_order_reaches_the_hands_with_its_visitor(house: House) -> None:
    visit = await house.visit(EDITOR)
    said = await visit.order(action="pause", **of(house))
    assert said.status == 200
    assert said.json["message"].endswith("for editor@plant.example")
    assert [one.action for one in house.hands.orders] == ["pause"]


@pytest.mark.parametrize(
    ("error", "status", "reason"),
    [
        (ActionRefused(403, "you may not", Reason.PAUSED), 403, "Paused"),
        (Stalled("not now", reason=Reason.PAUSED), 409, "Paused"),
        (Retry("away"), 502, "TransientError"),
        (StokerError("broken"), 502, "InternalError"),
    ],
)
async def test_a_refusal_is_a_status_and_a_sentence(
    house: House, error: Exception, status: int, reason: str
) -> None:
    visit = await house.visit(EDITOR)
    house.hands.refusal = error
    said = await visit.order(action="sync", **of(house))
    assert said.status == status
    assert said.json["reason"] == reason
    assert said.json["error"]


async def test_a_mistake_of_ours_tells_nothing(house: House, capsys: pytest.CaptureFixture[str]) -> None:
    visit = await house.visit(EDITOR)
    house.hands.refusal = ValueError("the password is x")
    said = await visit.order(action="sync", **of(house))
    assert said.status == 500
    assert b"password" not in said.body


def connections_to(house: House) -> int:
    runner = house.dashboard._runner
    assert runner is not None
    assert runner.server is not None
    return len(runner.server.connections)


async def test_an_order_is_finished_although_its_page_is_closed(house: House) -> None:
    visit = await house.visit(EDITOR)
    begun, go_on, done = asyncio.Event(), asyncio.Event(), asyncio.Event()

    class Slow:
        async def do(self, order: ActionBody, visitor: Visitor) -> str:
            begun.set()
            await go_on.wait()
            done.set()
            return "done"

    house.hands = Slow()
    asking = asyncio.create_task(visit.order(action="sync", **of(house)))
    await asyncio.wait_for(begun.wait(), 5)
    assert connections_to(house) == 1
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)
    await eventually_async(lambda: not connections_to(house), message="the server knows that nobody listens")
    go_on.set()
    await asyncio.wait_for(done.wait(), 5)


async def test_every_answer_keeps_a_browser_strict(house: House) -> None:
    visit = await house.visit(EDITOR)
    for path in ("/", "/static/main.js", "/api/session", "/api/picture", "/nothing", "/api/nothing"):
        headers = (await visit.get(path)).headers
        assert set(headers["Content-Security-Policy"].split("; ")) == POLICY
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["X-Frame-Options"] == "DENY"
        assert headers["Referrer-Policy"] == "no-referrer"
        assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
        assert headers["Cross-Origin-Opener-Policy"] == "same-origin"
        for power in ("camera", "geolocation", "microphone", "payment", "usb"):
            assert f"{power}=()" in headers["Permissions-Policy"]
        assert headers["Server"] == "stoker"
        assert "Access-Control-Allow-Origin" not in headers
        assert headers["Cache-Control"] == ("no-store" if "api" in path or "nothing" in path else "no-cache")


async def test_files_of_the_page_are_sent_once(house: House) -> None:
    visit = await house.visit()
    first = await visit.get("/static/main.js")
    assert first.headers["Content-Type"] == "text/javascript; charset=utf-8"
    again = await visit.get("/static/main.js", If_None_Match=f'"x", W/{first.headers["ETag"]}')
    assert (again.status, again.body) == (304, b"")
    assert (await visit.get("/static/main.js", If_None_Match='"x"')).body == first.body
    head = await visit.ask("HEAD", "/static/main.js")
    assert (head.status, head.body) == (200, b"")
    assert (await visit.ask("POST", "/")).status == 405


async def test_other_methods_and_paths_are_refused(house: House) -> None:
    visit = await house.visit(EDITOR)
    for method, path, status in (
        ("PUT", "/api/session", 405),
        ("POST", "/api/picture", 405),
        ("GET", "/api/actions", 405),
        ("DELETE", "/api/gateways/a/b/c/d", 405),
        ("GET", "/api/", 404),
        ("GET", "/healthz", 404),
        ("TRACE", "/api/session", 405),
    ):
        assert (await visit.ask(method, path)).status == status, path
    assert (await visit.ask("PUT", "/api/session")).headers["Allow"] == "GET, POST, DELETE"


async def test_a_stream_begins_with_the_picture_and_goes_on_with_changes(house: House) -> None:
    visit = await house.visit(EDITOR)
    first = sample_fleets.mixed()[0]
    async with visit.events() as events:
        whole = await anext(events)
        assert whole.name == "picture"
        assert whole.data["you"] == {"name": "editor@plant.example"}
        house.scene.put(sample_fleets.resource("new"))
        change = await anext(events)
        assert change.name == "change"
        assert [one["name"] for one in change.data["resources"]] == ["new"]
        assert change.data["version"] > whole.data["version"]
        assert change.data["stop"] is None
        house.scene.remove(first.id)
        assert first.id in (await anext(events)).data["gone"]
        house.scene.set_stop(active=True)
        stopped = (await anext(events)).data["stop"]
        assert (stopped["active"], stopped["may"]) == (True, True)


async def test_a_stream_says_goodbye_when_its_session_ends(house: House) -> None:
    visit = await house.visit(EDITOR)
    async with visit.events() as events:
        await anext(events)
        await visit.sign_out()
        assert (await anext(events)).name == "bye"
        with pytest.raises(StopAsyncIteration):
            await anext(events)
    await eventually_async(lambda: house.dashboard.streams.open == 0)


async def test_a_stream_that_is_left_is_closed_at_once(house: House) -> None:
    visit = await house.visit(EDITOR)
    for _ in range(3 * sse.MAX_STREAMS_PER_USER):
        async with visit.events() as events:
            await anext(events)
            assert house.dashboard.streams.open >= 1
        await eventually_async(lambda: house.dashboard.streams.open == 0)


async def test_a_right_that_was_taken_away_changes_the_picture(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stoker.dashboard.sessions.PERMISSION_RECHECK_SECONDS", 0.0)
    visit = await house.visit(EDITOR)
    async with visit.events() as events:
        assert len((await anext(events)).data["resources"]) > 1
        house.gate.sights[EDITOR] = VisibleScope(False, frozenset(), lambda action, namespace: False, False)
        house.scene.set_stop(active=True)
        narrow = await anext(events)
        assert narrow.name == "picture"
        assert narrow.data["resources"] == []
        del house.gate.sights[EDITOR]
        house.scene.set_stop(active=False)
        assert (await anext(events)).name == "bye"


async def test_what_a_visitor_may_not_see_makes_no_event(house: House) -> None:
    house.gate.sights[VIEWER] = VisibleScope(
        False, frozenset({"line"}), lambda action, namespace: False, False
    )
    visit = await house.visit(VIEWER)
    async with visit.events() as events:
        assert (await anext(events)).data["resources"] == []
        async with (await house.visit(EDITOR)).events() as told:
            await anext(told)
            for message in ("first", "second"):  # the second is told after the rest that follows the first
                house.scene.put(sample_fleets.resource("secret", message=message))
                assert [one["message"] for one in (await anext(told)).data["resources"]] == [message]
        house.scene.put(sample_fleets.resource("seen", namespace="line"))
        assert [one["name"] for one in (await anext(events)).data["resources"]] == ["seen"]


async def test_a_storm_becomes_few_events_and_none_is_lost(house: House) -> None:
    visit = await house.visit(EDITOR)
    async with visit.events() as events:
        await anext(events)
        for number in range(200):
            house.scene.put(sample_fleets.resource("busy", message=str(number)))
            await asyncio.sleep(0.001)
        seen = 0
        async for event in events:
            seen += 1
            if any(one["message"] == "199" for one in event.data["resources"]):
                break
        assert seen < 20


async def test_silence_is_filled(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "KEEPALIVE_SECONDS", 0.05)
    visit = await house.visit(EDITOR)
    async with visit.client.get(f"{house.url}/api/events") as answer:
        assert answer.headers["Content-Type"] == "text/event-stream; charset=utf-8"
        async for line in answer.content:
            if line == b"event: alive\n":
                break
        assert await answer.content.readline() == b"data: {}\n"
        assert await answer.content.readline() == b"\n"


async def test_silence_is_filled_although_others_are_busy(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sse, "KEEPALIVE_SECONDS", 0.3)
    house.gate.sights[VIEWER] = VisibleScope(
        False, frozenset({"line"}), lambda action, namespace: False, False
    )
    visit = await house.visit(VIEWER)
    async with visit.events() as events:
        await anext(events)
        busy = asyncio.create_task(_changing(house, "secret"))
        try:
            assert (await asyncio.wait_for(anext(events), 5)).name == "alive"
        finally:
            busy.cancel()


async def _changing(house: House, name: str) -> None:
    number = 0
    while True:
        number += 1
        house.scene.put(sample_fleets.resource(name, message=str(number)))
        await asyncio.sleep(0.02)


async def test_no_more_streams_open_at_once_than_one_after_the_other(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    visit = await house.visit(EDITOR)
    answer = house.gate.sight
    may_answer = asyncio.Event()

    async def slow(visitor: Visitor) -> VisibleScope:
        await may_answer.wait()
        return await answer(visitor)

    monkeypatch.setattr(house.gate, "sight", slow)
    opening = [
        asyncio.create_task(visit.client.get(f"{house.url}/api/events"))
        for _ in range(sse.MAX_STREAMS_PER_USER + 3)
    ]
    await eventually_async(lambda: sum(one.done() for one in opening) == 3)
    may_answer.set()
    answers = await asyncio.gather(*opening)
    assert sorted(one.status for one in answers) == [200] * sse.MAX_STREAMS_PER_USER + [429] * 3
    for one in answers:
        one.close()
    await eventually_async(lambda: house.dashboard.streams.open == 0)


async def test_however_many_pages_a_browser_opens_an_order_leaves_it(house: House) -> None:
    visit = await house.visit(EDITOR)
    connections = aiohttp.TCPConnector(limit_per_host=6)  # as browsers have over HTTP/1.1
    async with aiohttp.ClientSession(connector=connections, cookie_jar=visit.client.cookie_jar) as browser:
        pages = [asyncio.create_task(browser.get(f"{house.url}/api/events")) for _ in range(8)]
        await eventually_async(lambda: house.dashboard.streams.open >= min(6, sse.MAX_STREAMS_PER_USER))
        stop = browser.post(f"{house.url}/api/actions", json={"action": "stop"}, headers={CSRF: visit.csrf})
        assert (await asyncio.wait_for(stop, 5)).status == 200
        for page in await asyncio.gather(*pages):
            page.close()
    await eventually_async(lambda: house.dashboard.streams.open == 0)


async def test_who_sees_the_same_shares_what_is_sent_and_keeps_their_name(house: House) -> None:
    made = {"picture": 0, "changes": 0}
    picture, changes = house.scene.picture, house.scene.changes

    def counted_picture(sight: VisibleScope) -> DashboardView:
        made["picture"] += 1
        return picture(sight)

    def counted_changes(seen: int, sight: VisibleScope) -> ChangesView | None:
        made["changes"] += 1
        return changes(seen, sight)

    house.scene.picture, house.scene.changes = counted_picture, counted_changes  # type: ignore[method-assign]
    house.gate.sights[VIEWER] = house.gate.sights[EDITOR]
    async with AsyncExitStack() as stack:
        open_ones = []
        for token in (EDITOR, VIEWER):
            visit = await house.visit(token)
            for _ in range(sse.MAX_STREAMS_PER_USER):
                events = await stack.enter_async_context(visit.events())
                assert (await anext(events)).data["you"] == {"name": f"{token.split('-')[0]}@plant.example"}
                open_ones.append(events)
        assert made["picture"] < len(open_ones)
        busy = asyncio.create_task(_changing(house, "busy"))
        for _ in range(5):
            for events in open_ones:
                assert (await anext(events)).name == "change"
        busy.cancel()
        assert made["changes"] < 2.5 * 5, "each worked it out alone"
        house.scene.put(sample_fleets.resource("last"))
        for events in open_ones:
            async for event in events:
                if any(one["name"] == "last" for one in event.data["resources"]):
                    break


async def test_many_streams_are_sent_to_less_often(house: House) -> None:
    streams = house.dashboard.streams
    assert streams.calm == sse.CALM_SECONDS
    streams.open = sse.MAX_STREAMS
    assert streams.calm == pytest.approx(1.024)
    streams.open = 0


async def test_the_server_ends_in_time_although_pages_are_open() -> None:
    async with House() as house:
        visit = await house.visit(EDITOR)
        async with visit.events() as events:
            await anext(events)
            await asyncio.wait_for(house.dashboard.__aexit__(None, None, None), 3)
            assert [event.name async for event in events] == []


async def test_it_is_served_by_tls_from_a_folder(tmp_path: Path) -> None:
    authority = Authority()
    authority.server().save(tmp_path, "tls")
    async with server_tls_context(tmp_path, SystemClock()) as tls, House(tls=tls) as house:
        trusted = ssl.create_default_context(cadata=authority.pem.decode())
        async with DashboardClient(house.url.replace("http", "https")) as visit:
            said = await visit.ask("POST", "/api/session", json={"token": EDITOR}, ssl=trusted)
            assert "Secure" in said.headers["Set-Cookie"]


async def test_a_port_that_is_taken_is_told(house: House) -> None:
    settings = DashboardOptions(address=f"127.0.0.1:{house.dashboard.port}")
    with pytest.raises(Misconfigured, match="for the dashboard"):
        async with DashboardServer(house.scene, house, house.gate, settings=settings):
            pass


async def test_off_is_off() -> None:
    async with House(settings=DashboardOptions(address="0")) as house:
        assert house.dashboard.port is None


async def test_logins_that_fail_too_often_have_to_wait(house: House) -> None:
    visit = await house.visit()
    answers = [await visit.sign_in("nobody") for _ in range(30)]
    assert answers[0].status == 401
    assert answers[-1].status == 429
    assert int(answers[-1].headers["Retry-After"]) >= 1
    assert (await visit.sign_in(EDITOR)).status == 429


async def test_a_token_that_is_known_is_not_kept_out_by_failures_of_others(house: House) -> None:
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


async def test_logins_that_succeed_are_never_counted(house: House) -> None:
    visit = await house.visit()
    assert {(await visit.sign_in(EDITOR)).status for _ in range(30)} == {200}
    assert len(house.dashboard.sessions) == 1, "a browser has one session"


async def test_orders_that_come_too_fast_have_to_wait(house: House) -> None:
    visit = await house.visit(EDITOR)
    answers = [(await visit.order(action="stop")).status for _ in range(70)]
    assert answers[0] == 200
    assert answers[-1] == 429
    assert len(house.hands.orders) <= 62


async def test_whose_token_is_no_longer_good_gives_no_orders(house: House) -> None:
    visit = await house.visit(EDITOR)
    del house.gate.sights[EDITOR]
    assert (await visit.order(action="stop")).status == 401
    assert house.hands.orders == []
    assert len(house.dashboard.sessions) == 0


async def test_what_is_no_token_is_not_shown_to_the_gate(house: House) -> None:
    visit = await house.visit()
    for token in ("a\r\nX-Evil: 1", "a\0b", "a\x7fb", "t\u00fcr", ""):
        house.gate.sights[token] = house.gate.sights[EDITOR]
        assert (await visit.sign_in(token)).status == 401
    assert len(house.dashboard.sessions) == 0


async def test_without_the_csrf_token_nothing_is_done(house: House) -> None:
    visit = await house.visit(EDITOR)
    other = await house.visit(EDITOR)
    for token in ("", "wrong", other.csrf):
        for method, path in (("POST", "/api/actions"), ("DELETE", "/api/session")):
            said = await visit.ask(method, path, json={"action": "stop"}, headers={CSRF: token})
            assert said.status == 403
    assert house.hands.orders == []
    assert (await visit.get("/api/picture")).status == 200


async def test_it_counts_who_comes_in_and_what_they_ask_for() -> None:
    metrics = Metrics()
    async with House(meter=DashboardMetrics(metrics)) as house:
        visit = await house.visit(EDITOR)
        stranger = await house.visit()
        assert (await stranger.sign_in("wrong")).status == 401
        assert (await visit.order(action="pause", **of(house))).status == 200
        house.hands.refusal = ActionRefused(409, "not now")
        assert (await visit.order(action="sync", **of(house))).status == 409
        async with visit.events() as events:
            await anext(events)
            page = metrics.page(metrics.read()).decode()
    for line in (
        'dashboard_logins_total{result="accepted"} 1.0',
        'dashboard_logins_total{result="refused"} 1.0',
        'dashboard_orders_total{kind="pause",result="done"} 1.0',
        'dashboard_orders_total{kind="sync",result="refused"} 1.0',
        "dashboard_sessions 1.0",
        "dashboard_streams 1.0",
    ):
        assert f"ignition_sync_{line}" in page
    assert "editor" not in page


async def test_a_page_without_changes_loses_what_its_reader_may_no_longer_see(house: House) -> None:
    visit = await house.visit(EDITOR)
    async with visit.events() as events:
        assert (await anext(events)).data["resources"] != []
        house.gate.sights[EDITOR] = VisibleScope(False, frozenset(), lambda action, namespace: False, False)
        told = await asyncio.wait_for(anext(events), 10)
        assert told.data["resources"] == []
