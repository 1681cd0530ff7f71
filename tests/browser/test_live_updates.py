"""The page gets every update, and frees shared resources, over hours and over many tabs."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from stoker.dashboard import sse
from stoker_testkit.dashboard import sample_fleets
from stoker_testkit.dashboard.chromium import OpenPage
from stoker_testkit.dashboard.fake_fleet_server import EDITOR, FakeFleetServer
from stoker_testkit.wait_until import eventually

pytestmark = pytest.mark.xdist_group("browser")

TABS = 6
"""A browser has that many connections to a server."""
# Counts the keep-alive events of the server.
COUNTING = """
    window.alive = 0;
    const Plain = EventSource;
    window.EventSource = class extends Plain {
        constructor(address) {
            super(address);
            this.addEventListener("alive", () => { window.alive += 1; });
        }
    };
"""
# A stream that is `dead` stays open, as one does whose other end has vanished, and is heard no more.
DYING = """
    const Plain = EventSource;
    window.EventSource = class extends Plain {
        constructor(address) {
            super(address);
            window.newest = this;
        }
        addEventListener(name, hear) {
            super.addEventListener(name, (event) => { if (window.dead !== this) hear(event); });
        }
    };
"""


def turn(page: Page, *, hidden: bool) -> None:
    """As if its tab went behind another one, or came before all."""
    page.evaluate(
        """(hidden) => {
            Object.defineProperty(document, "hidden", { configurable: true, get: () => hidden });
            document.dispatchEvent(new Event("visibilitychange"));
        }""",
        hidden,
    )


def listening(fleet: FakeFleetServer, count: int) -> None:
    eventually(lambda: fleet.streams == count, 20, f"{count} pages to listen")


def test_the_emergency_stop_leaves_a_browser_with_many_tabs(
    fleet: FakeFleetServer, open_page: OpenPage
) -> None:
    page = open_page(fleet.url, own_time=True)
    for _ in range(TABS - 1):
        turn(page, hidden=True)
        page.clock.fast_forward(6_000)
        listening(fleet, 0)
        page = page.context.new_page()
        page.goto(fleet.url)
        page.wait_for_selector("body[data-link=live] #main:not([hidden])")
    page.get_by_role("button", name="Emergency stop").click()
    page.get_by_role("button", name="Stop everything now").click()
    expect(page.get_by_role("heading", name="Emergency stop is on")).to_be_visible()
    assert fleet.streams == 1


def test_a_background_tab_shows_changes_in_its_title_and_is_live_when_it_is_seen(
    fleet: FakeFleetServer, open_page: OpenPage
) -> None:
    page = open_page(fleet.url, own_time=True)
    turn(page, hidden=True)
    page.clock.fast_forward(6_000)
    listening(fleet, 0)
    fleet.set_stop(active=True)
    page.clock.fast_forward(61_000)
    page.clock.fast_forward(1_000)
    expect(page).to_have_title("STOPPED · Stoker")
    listening(fleet, 0)
    fleet.put(sample_fleets.numbered(3, "Error"))
    turn(page, hidden=False)
    expect(page.get_by_role("link", name="line-003-filler")).to_be_visible()
    expect(page.locator("#link")).to_have_text("Live")
    fleet.put(sample_fleets.numbered(4, "Error"))
    expect(page.get_by_role("link", name="line-004-filler")).to_be_visible()
    listening(fleet, 1)


def test_a_glance_at_another_tab_keeps_the_stream(fleet: FakeFleetServer, open_page: OpenPage) -> None:
    page = open_page(fleet.url, own_time=True)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    turn(page, hidden=True)
    page.clock.fast_forward(1_000)
    turn(page, hidden=False)
    page.clock.fast_forward(6_000)
    fleet.put(sample_fleets.numbered(3, "Error"))
    expect(page.get_by_role("link", name="line-003-filler")).to_be_visible()
    assert asked == []


def test_a_stream_that_died_without_a_word_is_opened_anew(
    fleet: FakeFleetServer, open_page: OpenPage
) -> None:
    page = open_page(fleet.url, own_time=True, script=DYING)
    page.evaluate("window.dead = window.newest")
    fleet.put(sample_fleets.numbered(3, "Error"))
    page.clock.fast_forward(40_000)
    expect(page.get_by_role("link", name="line-003-filler")).to_have_count(0)
    page.clock.fast_forward(20_000)
    expect(page.get_by_role("link", name="line-003-filler")).to_be_visible()
    expect(page.locator("#link")).to_have_text("Live")
    listening(fleet, 1)


def test_a_quiet_fleet_is_live_as_long_as_the_server_says_so(
    fleet: FakeFleetServer, open_page: OpenPage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sse, "KEEPALIVE_SECONDS", 0.5)
    page = open_page(fleet.url, own_time=True, script=COUNTING)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    for _ in range(4):
        page.clock.fast_forward(20_000)
        heard = page.evaluate("window.alive")
        eventually(lambda heard=heard: page.evaluate("window.alive") > heard, message="a sign of life")  # type: ignore[misc]
    expect(page.locator("#link")).to_have_text("Live")
    assert asked == []


def test_a_session_that_a_proxy_renews_goes_on(fleet: FakeFleetServer, open_page: OpenPage) -> None:
    page = open_page(fleet.url, token="", headers={"Authorization": f"Bearer {EDITOR}"})
    fleet.end_sessions()
    listening(fleet, 0)
    listening(fleet, 1)
    fleet.put(sample_fleets.numbered(3, "Error"))
    expect(page.get_by_role("link", name="line-003-filler")).to_be_visible()
    expect(page.locator("#sign-in")).to_be_hidden()
    page.locator("#gateways").get_by_role("link", name="line-1", exact=True).click()
    page.get_by_role("button", name="Pause").click()
    expect(page.get_by_role("button", name="Resume")).to_be_visible()
