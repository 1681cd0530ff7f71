"""Every button of the dashboard: what it asks before, what it sends, and what is seen after."""

from __future__ import annotations

import msgspec
import pytest
from playwright.sync_api import Page, expect

from stoker.dashboard.interfaces import ActionRefused
from stoker.dashboard.view_models import ActionBody, DashboardAction, RollbackView
from stoker_testkit.dashboard import sample_fleets
from stoker_testkit.dashboard.chromium import OpenPage
from stoker_testkit.dashboard.fake_fleet_server import FakeFleetServer
from stoker_testkit.wait_until import eventually

pytestmark = pytest.mark.xdist_group("browser")


def order(action: DashboardAction, name: str = "", **more: str) -> ActionBody:
    if not name:
        return ActionBody(action=action)
    return ActionBody(action=action, namespace="plant", kind="Stoker", name=name, **more)


def given(fleet: FakeFleetServer, count: int = 1) -> list[ActionBody]:
    eventually(lambda: len(fleet.orders) >= count, 10, "the order to arrive")
    return fleet.orders


def opened(page: Page, name: str) -> None:
    page.locator("#gateways").get_by_role("link", name=name, exact=True).click()


def test_a_plan_is_approved_where_it_is_looked_at_from_near(
    fleet: FakeFleetServer, open_page: OpenPage
) -> None:
    page = open_page(fleet.url, size=(390, 844))
    page.locator("#gateways").get_by_role("link", name="line-3", exact=True).click()
    plan = page.get_by_role("complementary").get_by_role("region", name="Plan")
    expect(plan).to_contain_text("is waiting for approval, for 4 gateways of line-3")
    plan.get_by_role("button", name="Approve").click()
    page.get_by_role("dialog").get_by_role("button", name="Approve", exact=True).click()
    expect(plan).to_be_hidden()
    assert [(one.action, one.digest) for one in fleet.orders] == [
        ("approve", f"sha256:{sample_fleets.commit('plan')}")
    ]


def test_approve_names_the_plan_that_was_shown(fleet: FakeFleetServer, open_page: OpenPage) -> None:
    page = open_page(fleet.url)
    card = page.locator(".approval")
    expect(card).to_contain_text("will deliver v13")
    card.get_by_role("button", name="Approve…").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("goes to 4 gateways as soon as you approve")
    expect(dialog).to_contain_text("2 files will be deleted")
    dialog.get_by_role("button", name="Approve").click()
    digest = f"sha256:{sample_fleets.commit('plan')}"
    assert given(fleet) == [order(DashboardAction.APPROVE, "line-3", digest=digest)]
    expect(page.locator("#approvals")).to_be_hidden()
    expect(page.get_by_text("approve of Stoker plant/line-3 for editor@plant.example")).to_be_visible()


def test_pause_and_resume(fleet: FakeFleetServer, open_page: OpenPage) -> None:
    page = open_page(fleet.url)
    opened(page, "line-1")
    page.get_by_role("button", name="Pause").click()
    resume = page.get_by_role("button", name="Resume")
    expect(resume).to_be_visible()
    expect(page.locator('tbody[data-id="plant/Stoker/line-1"] .mark')).to_have_text("Paused")
    resume.click()
    expect(page.get_by_role("button", name="Pause")).to_be_visible()
    assert given(fleet, 2) == [
        order(DashboardAction.PAUSE, "line-1"),
        order(DashboardAction.RESUME, "line-1"),
    ]


def test_sync_now_from_a_gateway_means_its_resource(fleet: FakeFleetServer, open_page: OpenPage) -> None:
    page = open_page(fleet.url)
    opened(page, "line-1-filler")
    page.get_by_role("button", name="Sync now").dblclick()
    expect(page.get_by_text("sync of Stoker plant/line-1")).to_be_visible()
    assert given(fleet) == [order(DashboardAction.SYNC, "line-1")]


def test_rollback_to_a_commit_says_what_happens(fleet: FakeFleetServer, open_page: OpenPage) -> None:
    page = open_page(fleet.url)
    opened(page, "line-1")
    page.get_by_role("button", name="Roll back…").click()
    dialog = page.get_by_role("dialog")
    to = sample_fleets.commit("v10")
    dialog.get_by_role("radio", name=f"Commit {to[:8]}").check()
    expect(dialog).to_contain_text(f"All 5 gateways get the files of commit {to[:8]}")
    assert dialog.get_by_text("Snapshot").count() == 0
    dialog.get_by_role("button", name="Roll back").click()
    assert given(fleet) == [order(DashboardAction.ROLLBACK, "line-1", to_commit=to)]
    follow = page.get_by_role("button", name="Follow v12 again…")
    follow.click()
    page.get_by_role("dialog").get_by_role("button", name="Follow the ref again").click()
    assert given(fleet, 2)[1] == order(DashboardAction.RELEASE, "line-1")
    expect(follow).to_have_count(0)


def test_rollback_to_a_snapshot_is_for_one_gateway(fleet: FakeFleetServer, open_page: OpenPage) -> None:
    page = open_page(fleet.url)
    opened(page, "line-1-filler")
    page.get_by_role("button", name="Roll back…").click()
    dialog = page.get_by_role("dialog")
    snapshot = "line-1-filler-20260302-081500"
    dialog.get_by_role("radio", name=snapshot).check()
    expect(dialog).to_contain_text("Only line-1-filler is rolled back")
    expect(dialog).to_contain_text("The other 4 gateways of line-1 stay unchanged")
    dialog.get_by_role("button", name="Roll back").click()
    wanted = order(DashboardAction.ROLLBACK, "line-1", gateway="line-1-filler", to_snapshot=snapshot)
    assert given(fleet) == [wanted]


def test_a_second_rollback_does_not_replace_the_first(fleet: FakeFleetServer, open_page: OpenPage) -> None:
    page = open_page(fleet.url)
    opened(page, "line-1")
    for back, whom in (
        (RollbackView(to_snapshot="line-1-filler-20260302-081500"), "sync v12 to line-1-filler."),
        (RollbackView(to_commit=sample_fleets.commit("v10")), "sync v12 to all 5 gateways of line-1."),
    ):
        fleet.put(msgspec.structs.replace(fleet.resource("plant/Stoker/line-1"), rollback=back))
        expect(page.get_by_role("complementary")).to_contain_text(back.to_snapshot or str(back.to_commit)[:8])
        page.get_by_role("button", name="Roll back…").click()
        dialog = page.get_by_role("dialog", name="line-1 is already rolled back")
        expect(dialog).to_contain_text(whom)
        expect(dialog).to_contain_text("first let line-1 follow v12 again")
        dialog.get_by_role("button", name="Close").press("Enter")
        expect(dialog).to_be_hidden()
    assert fleet.orders == []


def test_a_standalone_machine_can_roll_back_twice_and_stays_stopped_over_a_restart(
    open_page: OpenPage,
) -> None:
    taken = RollbackView(to_commit=sample_fleets.commit("v10"))
    one = sample_fleets.resource("line-1", sample_fleets.gateway("line-1-filler"), rollback=taken)
    with FakeFleetServer.start(one, mode="standalone") as served:
        page = open_page(served.url)
        page.get_by_role("button", name="Emergency stop").click()
        expect(page.get_by_role("dialog")).to_contain_text("until a user resumes, also across restarts")
        page.keyboard.press("Escape")
        page.locator("#lone").get_by_role("link", name="History and snapshots").click()
        side = page.get_by_role("complementary")
        side.get_by_role("link", name="line-1").click()
        side.get_by_role("button", name="Roll back…").click()
        dialog = page.get_by_role("dialog", name="Roll line-1 back?")
        dialog.get_by_role("button", name="Roll back").click()
        to = sample_fleets.commit("v11")
        assert given(served) == [order(DashboardAction.ROLLBACK, "line-1", to_commit=to)]


def test_the_emergency_stop_takes_two_steps_and_cannot_be_overlooked(
    fleet: FakeFleetServer, open_page: OpenPage
) -> None:
    page = open_page(fleet.url)
    stop = page.get_by_role("button", name="Emergency stop")
    stop.click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("53 gateways of 13 resources")
    expect(dialog.get_by_role("button", name="Cancel")).to_be_focused()
    page.keyboard.press("Enter")
    expect(dialog).to_be_hidden()
    expect(stop).to_be_focused()
    assert fleet.orders == []
    stop.click()
    dialog.get_by_role("button", name="Stop everything now").click()
    assert given(fleet) == [order(DashboardAction.STOP)]
    expect(page.get_by_role("heading", name="Emergency stop is on")).to_be_visible()
    assert page.title() == "STOPPED · Stoker"
    page.get_by_role("button", name="Resume everything…").click()
    page.get_by_role("dialog").get_by_role("button", name="Resume everything").click()
    assert given(fleet, 2)[1] == order(DashboardAction.GO_ON)
    expect(page.get_by_role("heading", name="Emergency stop is on")).to_be_hidden()
    expect(stop).to_be_visible()


def test_a_dialog_keeps_the_focus_and_escape_does_nothing_but_close(
    fleet: FakeFleetServer, open_page: OpenPage
) -> None:
    page = open_page(fleet.url)
    page.get_by_role("button", name="Emergency stop").click()
    dialog = page.get_by_role("dialog")
    inside = "document.activeElement === document.body || document.activeElement.closest('#ask') !== null"
    seen = set()
    for _ in range(6):
        page.keyboard.press("Tab")
        assert page.evaluate(inside)
        seen.add(page.evaluate("document.activeElement.textContent"))
    assert {"Cancel", "Stop everything now"} <= seen
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    assert fleet.orders == []


def test_a_refusal_is_shown_until_it_is_closed(fleet: FakeFleetServer, open_page: OpenPage) -> None:
    fleet.hands.refusal = ActionRefused(409, "line-1 is not what you have seen any more")
    page = open_page(fleet.url, forgiving=True)
    opened(page, "line-1")
    page.get_by_role("button", name="Pause").click()
    notice = page.locator(".notice").filter(has_text="line-1 is not what you have seen any more")
    expect(notice).to_have_attribute("role", "alert")
    notice.get_by_role("button", name="Close this message").click()
    expect(notice).to_have_count(0)


def test_the_list_of_keys_is_a_key_away(fleet: FakeFleetServer, open_page: OpenPage) -> None:
    page = open_page(fleet.url)
    page.keyboard.press("?")
    dialog = page.get_by_role("dialog", name="Keyboard shortcuts")
    expect(dialog).to_contain_text("Search")
    dialog.get_by_role("button", name="Close").press("Enter")
    expect(dialog).to_be_hidden()
