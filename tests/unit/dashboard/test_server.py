"""The dashboard's server over real HTTP, before a scene of values."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import aiohttp
import pytest
import pytest_asyncio

from stoker import __version__
from stoker.dashboard import sse
from stoker.dashboard.interfaces import ActionRefused, VisibleScope, Visitor
from stoker.dashboard.metrics import DashboardMetrics
from stoker.dashboard.server import DashboardOptions, DashboardServer
from stoker.dashboard.server_tls import server_tls_context
from stoker.dashboard.view_models import ActionBody, ChangesView, DashboardView
from stoker.domain.clock import SystemClock
from stoker.domain.errors import Misconfigured, Retry, Stalled, StokerError
from stoker.domain.reasons import Reason
from stoker.telemetry.metrics import Metrics
from stoker_testkit.certificates import Authority
from stoker_testkit.dashboard import sample_fleets
from stoker_testkit.dashboard.api_client import CSRF, DashboardClient
from stoker_testkit.dashboard.fake_fleet_server import EDITOR, VIEWER
from stoker_testkit.dashboard.served_dashboard import ServedDashboard
from stoker_testkit.wait_until import eventually_async

POLICY = {
    *("default-src 'none'", "script-src 'self'", "style-src 'self'", "img-src 'self' data:"),
    *("connect-src 'self'", "form-action 'self'", "frame-ancestors 'none'", "base-uri 'none'"),
}
"""All that a page may do; a page that needs more has to say so here, too."""


@pytest_asyncio.fixture
async def house() -> AsyncIterator[ServedDashboard]:
    async with ServedDashboard() as house:
        yield house


def of(house: ServedDashboard) -> dict[str, str]:
    first = sample_fleets.mixed()[0]
    return {"namespace": first.namespace, "kind": first.kind, "name": first.name}


async def test_a_stranger_sees_the_page_and_nothing_else(house: ServedDashboard) -> None:
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


async def test_a_signed_in_user_sees_the_view_in_the_documented_shape(house: ServedDashboard) -> None:
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


async def test_a_gateway_is_shown_with_its_history(house: ServedDashboard) -> None:
    visit = await house.visit(EDITOR)
    first = sample_fleets.mixed()[0]
    path = f"/api/gateways/{first.namespace}/{first.kind}/{first.name}"
    past = (await visit.get(f"{path}/{first.gateways[0].name}")).json
    assert set(past) == {"gateway", "history", "snapshots"}
    assert past["gateway"]["name"] == first.gateways[0].name
    assert (await visit.get(f"{path}/nobody")).status == 404
    assert (await visit.get(path)).status == 404
    assert (await visit.get(f"{path}/a/b")).status == 404


async def test_an_order_reaches_the_hands_with_its_visitor(house: ServedDashboard) -> None:
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
    house: ServedDashboard, error: Exception, status: int, reason: str
) -> None:
    visit = await house.visit(EDITOR)
    house.hands.refusal = error
    said = await visit.order(action="sync", **of(house))
    assert said.status == status
    assert said.json["reason"] == reason
    assert said.json["error"]


async def test_an_internal_error_shows_no_details(
    house: ServedDashboard, capsys: pytest.CaptureFixture[str]
) -> None:
    visit = await house.visit(EDITOR)
    house.hands.refusal = ValueError("the password is x")
    said = await visit.order(action="sync", **of(house))
    assert said.status == 500
    assert b"password" not in said.body


def connections_to(house: ServedDashboard) -> int:
    runner = house.dashboard._runner
    assert runner is not None
    assert runner.server is not None
    return len(runner.server.connections)


async def test_an_order_is_finished_although_its_page_is_closed(house: ServedDashboard) -> None:
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


async def test_every_answer_keeps_a_browser_strict(house: ServedDashboard) -> None:
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


async def test_files_of_the_page_are_sent_once(house: ServedDashboard) -> None:
    visit = await house.visit()
    first = await visit.get("/static/main.js")
    assert first.headers["Content-Type"] == "text/javascript; charset=utf-8"
    again = await visit.get("/static/main.js", If_None_Match=f'"x", W/{first.headers["ETag"]}')
    assert (again.status, again.body) == (304, b"")
    assert (await visit.get("/static/main.js", If_None_Match='"x"')).body == first.body
    head = await visit.ask("HEAD", "/static/main.js")
    assert (head.status, head.body) == (200, b"")
    assert (await visit.ask("POST", "/")).status == 405


async def test_other_methods_and_paths_are_refused(house: ServedDashboard) -> None:
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


async def test_a_stream_begins_with_the_picture_and_goes_on_with_changes(house: ServedDashboard) -> None:
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


async def test_a_stream_ends_with_a_last_event_when_its_session_ends(house: ServedDashboard) -> None:
    visit = await house.visit(EDITOR)
    async with visit.events() as events:
        await anext(events)
        await visit.sign_out()
        assert (await anext(events)).name == "bye"
        with pytest.raises(StopAsyncIteration):
            await anext(events)
    await eventually_async(lambda: house.dashboard.streams.open == 0)


async def test_a_stream_that_is_left_is_closed_at_once(house: ServedDashboard) -> None:
    visit = await house.visit(EDITOR)
    for _ in range(3 * sse.MAX_STREAMS_PER_USER):
        async with visit.events() as events:
            await anext(events)
            assert house.dashboard.streams.open >= 1
        await eventually_async(lambda: house.dashboard.streams.open == 0)


async def test_a_right_that_was_taken_away_changes_the_picture(
    house: ServedDashboard, monkeypatch: pytest.MonkeyPatch
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


async def test_what_a_visitor_may_not_see_makes_no_event(house: ServedDashboard) -> None:
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


async def test_a_storm_becomes_few_events_and_none_is_lost(house: ServedDashboard) -> None:
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


async def test_silence_is_filled(house: ServedDashboard, monkeypatch: pytest.MonkeyPatch) -> None:
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
    house: ServedDashboard, monkeypatch: pytest.MonkeyPatch
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


async def _changing(house: ServedDashboard, name: str) -> None:
    number = 0
    while True:
        number += 1
        house.scene.put(sample_fleets.resource(name, message=str(number)))
        await asyncio.sleep(0.02)


async def test_no_more_streams_open_at_once_than_one_after_the_other(
    house: ServedDashboard, monkeypatch: pytest.MonkeyPatch
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


async def test_however_many_pages_a_browser_opens_an_order_leaves_it(house: ServedDashboard) -> None:
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


async def test_users_with_equal_rights_share_what_is_sent_and_keep_their_names(
    house: ServedDashboard,
) -> None:
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


async def test_many_streams_are_sent_to_less_often(house: ServedDashboard) -> None:
    streams = house.dashboard.streams
    assert streams.calm == sse.CALM_SECONDS
    streams.open = sse.MAX_STREAMS
    assert streams.calm == pytest.approx(1.024)
    streams.open = 0


async def test_the_server_ends_in_time_although_pages_are_open() -> None:
    async with ServedDashboard() as house:
        visit = await house.visit(EDITOR)
        async with visit.events() as events:
            await anext(events)
            await asyncio.wait_for(house.dashboard.__aexit__(None, None, None), 3)
            assert [event.name async for event in events] == []


async def test_it_is_served_by_tls_from_a_folder(tmp_path: Path) -> None:
    authority = Authority()
    authority.server().save(tmp_path, "tls")
    async with server_tls_context(tmp_path, SystemClock()) as tls, ServedDashboard(tls=tls) as house:
        trusted = ssl.create_default_context(cadata=authority.pem.decode())
        async with DashboardClient(house.url.replace("http", "https")) as visit:
            said = await visit.ask("POST", "/api/session", json={"token": EDITOR}, ssl=trusted)
            assert "Secure" in said.headers["Set-Cookie"]


async def test_a_port_that_is_taken_is_reported(house: ServedDashboard) -> None:
    settings = DashboardOptions(address=f"127.0.0.1:{house.dashboard.port}")
    with pytest.raises(Misconfigured, match="for the dashboard"):
        async with DashboardServer(house.scene, house, house.gate, settings=settings):
            pass


async def test_off_is_off() -> None:
    async with ServedDashboard(settings=DashboardOptions(address="0")) as house:
        assert house.dashboard.port is None


async def test_orders_that_come_too_fast_have_to_wait(house: ServedDashboard) -> None:
    visit = await house.visit(EDITOR)
    answers = [(await visit.order(action="stop")).status for _ in range(70)]
    assert answers[0] == 200
    assert answers[-1] == 429
    assert len(house.hands.orders) <= 62


async def test_whose_token_is_no_longer_good_gives_no_orders(house: ServedDashboard) -> None:
    visit = await house.visit(EDITOR)
    del house.gate.sights[EDITOR]
    assert (await visit.order(action="stop")).status == 401
    assert house.hands.orders == []
    assert len(house.dashboard.sessions) == 0


async def test_without_the_csrf_token_nothing_is_done(house: ServedDashboard) -> None:
    visit = await house.visit(EDITOR)
    other = await house.visit(EDITOR)
    for token in ("", "wrong", other.csrf):
        for method, path in (("POST", "/api/actions"), ("DELETE", "/api/session")):
            said = await visit.ask(method, path, json={"action": "stop"}, headers={CSRF: token})
            assert said.status == 403
    assert house.hands.orders == []
    assert (await visit.get("/api/picture")).status == 200


async def test_it_counts_sign_ins_and_requests() -> None:
    metrics = Metrics()
    async with ServedDashboard(meter=DashboardMetrics(metrics)) as house:
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


async def test_a_page_without_changes_loses_what_its_reader_may_no_longer_see(house: ServedDashboard) -> None:
    visit = await house.visit(EDITOR)
    async with visit.events() as events:
        assert (await anext(events)).data["resources"] != []
        house.gate.sights[EDITOR] = VisibleScope(False, frozenset(), lambda action, namespace: False, False)
        told = await asyncio.wait_for(anext(events), 10)
        assert told.data["resources"] == []
