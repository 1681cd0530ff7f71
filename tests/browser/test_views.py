"""The views of the dashboard, in a real browser and through the real web server."""

from __future__ import annotations

import msgspec
import pytest
from playwright.sync_api import Page, expect

from stoker.dashboard.view_models import (
    ChangedPathView,
    CommitView,
    DestinationView,
    GatewayHistoryView,
    RollbackView,
    SyncDiffView,
    SyncHistoryView,
)
from stoker_testkit.dashboard import sample_fleets
from stoker_testkit.dashboard.chromium import OpenPage
from stoker_testkit.dashboard.fake_fleet_server import EDITOR, VIEWER, FakeFleetServer
from stoker_testkit.faults.stream_faults import Fault, FaultKind
from stoker_testkit.faults.tcp_fault_proxy import FaultProxy

pytestmark = pytest.mark.xdist_group("browser")

EVIL = "<img src=x onerror=\"document.title='broken in'\">"


def group(page: Page, key: str) -> str:
    return page.locator(f'tbody[data-id="{key}"]').inner_text()


def names(page: Page) -> list[str]:
    """Of all lines of the table that can be seen, in their order."""
    return page.locator("#gateways a.open:visible").all_text_contents()


def test_the_fleet_at_a_glance(fleet: FakeFleetServer, open_page: OpenPage) -> None:
    page = open_page(fleet.url)
    expect(page.get_by_role("heading", level=1)).to_have_text("1 gateway failed, 1 resource has a problem")
    texts = page.locator("#tally button").all_inner_texts()
    counts = [" ".join(one.split()) for one in texts]
    assert counts == [
        "1 failed",
        "1 drifted",
        "1 open in a Designer",
        "7 waiting",
        "2 syncing",
        "41 in sync",
    ]
    assert page.title() == "(3) 1 gateway failed, 1 resource has a problem · Stoker"


def test_problems_are_first_and_each_gateway_shows_its_state(
    fleet: FakeFleetServer, open_page: OpenPage
) -> None:
    page = open_page(fleet.url)
    resources = page.locator("#gateways .head a.open").all_text_contents()
    assert resources[:4] == ["utilities", "line-1", "line-2", "line-3"]
    assert resources[-6:] == ["line-7", "line-8", "line-9", "line-10", "line-11", "line-12"]
    row = page.get_by_role("row").filter(has_text="line-2-packer")
    commit = sample_fleets.commit("v12")[:8]
    cells = [one.strip() for one in row.get_by_role("cell").all_inner_texts()]
    why = "Files were changed on the gateway"
    assert cells == ["Drifted", "v12", commit, "3 h ago", "2 files", "", why]
    held = page.get_by_role("row").filter(has_text="line-2-filler")
    assert "anna (Bottling) and ben (Reports)" in held.inner_text()
    assert "git.example.net did not answer" in group(page, "energy/Stoker/utilities")


def test_a_user_who_sees_nothing_reads_why_that_may_be(open_page: OpenPage) -> None:
    with FakeFleetServer.start() as served:
        page = open_page(served.url, token=VIEWER)
        expect(page.get_by_role("heading", level=1)).to_have_text("No resources yet")
        element = page.locator("#nothing")
        expect(element).to_contain_text("your account has no permission to see them")
        expect(element).to_contain_text("signed in as viewer@plant.example")
        served.put(sample_fleets.resource("line-1"))
        expect(page.get_by_role("heading", level=1)).to_have_text("No gateways yet")
        expect(element).to_be_hidden()


def test_a_fleet_in_sync_is_calm(open_page: OpenPage) -> None:
    with FakeFleetServer.start(*sample_fleets.in_step()) as served:
        page = open_page(served.url)
        expect(page.get_by_role("heading", level=1)).to_have_text("All 240 gateways are in sync")
        assert page.locator("#gateways tr.gateway").count() == 0
        page.get_by_role("button", name="Show gateways").first.click()
        assert page.locator("#gateways tr.gateway").count() == 5


def test_a_change_comes_by_itself_and_touches_its_own_line_alone(open_page: OpenPage) -> None:
    with FakeFleetServer.start(*sample_fleets.large(1000)) as served:
        page = open_page(served.url)
        expect(page.locator("#gateways tbody")).to_have_count(200)
        page.evaluate(
            """() => {
                window.touched = new Set();
                const note = (found) => found.forEach(({ target }) => {
                    const body = (target.closest ? target : target.parentElement).closest("tbody");
                    if (body) window.touched.add(body.dataset.id);
                });
                const all = { subtree: true, childList: true, attributes: true, characterData: true };
                new MutationObserver(note).observe(document.getElementById("gateways"), all);
            }"""
        )
        served.put(sample_fleets.numbered(77, "Error", message="no space is left on the data volume"))
        row = page.get_by_role("row").filter(has_text="line-077-filler")
        expect(row).to_contain_text("no space is left on the data volume")
        expect(page.get_by_role("heading", level=1)).to_have_text("1 gateway failed")
        assert page.evaluate("[...window.touched]") == ["site-5/Stoker/line-077"]
        expect(page.locator("#said")).to_have_text("1 gateway failed")
        expect(page.locator("#gateways tbody").first).to_contain_text("line-077")


def test_what_comes_and_goes(fleet: FakeFleetServer, open_page: OpenPage) -> None:
    page = open_page(fleet.url)
    fleet.put(sample_fleets.resource("line-99", sample_fleets.gateway("line-99-filler")))
    expect(page.get_by_role("link", name="line-99", exact=True)).to_be_visible()
    fleet.remove("plant/Stoker/line-99", "plant/GitDestination/live")
    expect(page.get_by_role("link", name="line-99", exact=True)).to_have_count(0)
    expect(page.locator(".destination")).to_have_count(2)


def test_search_and_filter_by_keyboard(fleet: FakeFleetServer, open_page: OpenPage) -> None:
    page = open_page(fleet.url)
    page.keyboard.press("/")
    page.keyboard.type("anna bottling")
    assert names(page) == ["line-2", "line-2-filler"]
    expect(page.locator("#shown")).to_have_text("1 gateway of 53 shown")
    page.keyboard.press("Escape")
    assert len(names(page)) > 20
    page.get_by_role("button", name="failed").press("Enter")
    assert names(page) == ["utilities", "line-1", "line-1-filler"]
    page.keyboard.press("/")
    page.keyboard.type("nobody")
    expect(page.locator("#nothing")).to_contain_text("No gateway matches.")
    page.get_by_role("button", name="Show all gateways").press("Enter")
    assert len(names(page)) > 20


def test_a_gateway_is_opened_and_closed_without_a_mouse(fleet: FakeFleetServer, open_page: OpenPage) -> None:
    page = open_page(fleet.url)
    page.keyboard.press("/")
    page.keyboard.type("line-2-packer")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    expect(page.get_by_role("link", name="line-2-packer")).to_be_focused()
    page.keyboard.press("Enter")
    side = page.get_by_role("complementary")
    expect(side.get_by_role("heading", level=2)).to_be_focused()
    expect(side).to_contain_text("config/resources/core/tags/Line2/tags.json")
    page.keyboard.press("Escape")
    expect(side).to_be_hidden()
    expect(page.locator("#gateways").get_by_role("link", name="line-2-packer")).to_be_focused()


def test_history_and_diffs_of_a_gateway(fleet: FakeFleetServer, open_page: OpenPage) -> None:
    page = open_page(fleet.url)
    page.get_by_role("link", name="line-1-filler").click()
    side = page.get_by_role("complementary")
    entries = side.locator(".history > li")
    expect(entries).to_have_count(4)
    expect(entries.nth(1)).to_contain_text("Gateway unreachable")
    entries.first.get_by_text("14 files: 1 added, 12 changed, 1 deleted").click()
    assert entries.first.locator(".paths li").all_text_contents() == [
        "+added: projects/Bottling/views/Alarms/view.json",
        "~changed: projects/Bottling/views/Main/view.json",
        "\N{MINUS SIGN}deleted: projects/Bottling/scripts/old.py",
        "and 11 more files",
    ]
    expect(side.locator(".snapshots li")).to_have_count(3)
    page.reload()  # the address names what is open
    expect(side.get_by_role("heading", level=2)).to_have_text("line-1-filler")
    page.go_back()
    expect(side).to_be_hidden()


def test_destinations_show_commits_authors_and_lag(fleet: FakeFleetServer, open_page: OpenPage) -> None:
    page = open_page(fleet.url)
    cards = page.locator(".destination")
    expect(cards).to_have_count(3)
    failed, behind, fine = (cards.nth(number).inner_text() for number in range(3))
    assert "Failed" in failed
    assert "did not accept the login" in failed
    assert "3 changes, the oldest has waited for 3 min" in failed
    assert "7 changes, the oldest has waited for 7 min" in behind
    assert "Not in git yet" not in fine
    assert "anna and ben" in fine
    assert "ConfigMap plant/recipes: dose 12 ml" in fine
    assert "anna 2 min ago" in fine


def test_a_reverser_alone_shows_destinations_alone(open_page: OpenPage) -> None:
    with FakeFleetServer.start(*sample_fleets.destinations()) as served:
        page = open_page(served.url)
        expect(page.locator(".destination")).to_have_count(3)
        expect(page.get_by_role("heading", level=1)).to_have_text("1 destination failed")
        expect(page.locator("#verdict-more")).to_have_text("1 failed, 1 behind and 1 up to date")
        expect(page.locator("#tally, #tools, #gateways, #nothing").filter(visible=True)).to_have_count(0)
        assert page.title() == "(1) 1 destination failed · Stoker"
        served.remove(*(one.id for one in sample_fleets.destinations() if one.ready == "False"))
        expect(page.locator("#said")).to_have_text("1 destination behind")


def test_a_failed_destination_is_the_headline_of_a_fleet_in_sync(open_page: OpenPage) -> None:
    with FakeFleetServer.start(sample_fleets.resource("line-1"), *sample_fleets.destinations()) as served:
        page = open_page(served.url)
        expect(page.get_by_role("heading", level=1)).to_have_text("1 destination failed")
        expect(page.locator("#destinations-sum")).to_contain_text("1 failed")


def test_notes_about_a_healthy_destination_are_shown(open_page: OpenPage) -> None:
    fine = sample_fleets.destinations()[0]
    warned = msgspec.structs.replace(fine, warnings=("Secrets are written in clear",), authors=())
    with FakeFleetServer.start(warned) as served:
        page = open_page(served.url)
        card = page.locator(".destination")
        expect(card).to_contain_text("Up to date")
        expect(card.locator(".troubles")).to_have_text("Secrets are written in clear")
        expect(card.locator(".facts")).to_contain_text("Changes byunknown")


def test_unreadable_data_is_explained_in_words(fleet: FakeFleetServer, open_page: OpenPage) -> None:
    page = open_page(fleet.url)
    expect(page.locator("#unseen")).to_be_hidden()
    fleet.set_unseen("GitDestination", "Stoker in plant", "emergency stop")
    missing = page.get_by_role("region", name="Missing data")
    expect(missing).to_contain_text("Cannot watch GitDestination and Stoker in plant")
    expect(missing).to_contain_text("Cannot read whether the emergency stop is on")
    expect(page.locator("#link")).to_have_text("Live")
    fleet.set_unseen()
    expect(missing).to_be_hidden()


def test_a_destination_shows_only_what_is_known(open_page: OpenPage) -> None:
    fine = sample_fleets.destinations()[0]
    with FakeFleetServer.start(msgspec.structs.replace(fine, lag_seconds=90.0)) as served:
        page = open_page(served.url)
        card = page.locator(".destination")
        expect(card).to_contain_text("Up to date")
        expect(card).to_contain_text("1 min from the last change to its push")
        served.put(msgspec.structs.replace(fine, lag_seconds=None, ready="Unknown", reason="NotYetSeen"))
        expect(card).to_contain_text("Not yet seen")
        served.put(msgspec.structs.replace(fine, suspended=True))
        expect(card).to_contain_text("Suspended")


def test_a_gateway_that_was_rolled_back_is_not_called_in_sync(open_page: OpenPage) -> None:
    old = sample_fleets.commit("v11")
    back = sample_fleets.gateway("filler", commit=old, taken_back=True)
    way = RollbackView(to_commit=old, state="Succeeded")
    with FakeFleetServer.start(sample_fleets.resource("line-1", back, rollback=way)) as served:
        past = SyncHistoryView(
            number=1, timestamp=sample_fleets.ago(hours=1), result="RolledBack", commit=old
        )
        served.scene.pasts = lambda resource, name: GatewayHistoryView(gateway=back, history=(past,))
        page = open_page(served.url)
        expect(page.get_by_role("heading", level=1)).to_have_text("1 gateway waiting, none failed")
        expect(page.locator("#gateways .marks")).to_have_text(f"Rolled back to {old[:8]}")
        row = page.get_by_role("row").filter(has_text="does not follow the ref")
        expect(row).to_contain_text("Rolled back")
        page.locator("#gateways").get_by_role("link", name="filler").click()
        side = page.get_by_role("complementary")
        expect(side.locator(".trouble")).to_contain_text("does not follow the ref")
        expect(side.locator(".history [data-standing=failed]")).to_have_count(0)
        expect(side.locator(".history")).to_contain_text("Rolled back")


def test_accounts_of_programs_are_called_by_their_names(open_page: OpenPage) -> None:
    with FakeFleetServer.start(sample_fleets.resource("line-1")) as served:
        name = "system:serviceaccount:plant:shift-lead"
        served.gate.names[EDITOR] = name
        page = open_page(served.url)
        expect(page.locator("#user")).to_have_text("shift-lead")
        page.locator("#menu summary").click()
        expect(page.locator("#who")).to_have_text(f"Signed in as {name}")


def test_a_warning_of_a_gateway_in_sync_is_shown(open_page: OpenPage) -> None:
    warned = sample_fleets.gateway("filler", message="the certificate was not verified")
    with FakeFleetServer.start(sample_fleets.resource("line-1", warned), mode="standalone") as served:
        page = open_page(served.url)
        expect(page.get_by_role("heading", level=1)).to_have_text("filler is in sync")
        expect(page.locator("#lone")).to_contain_text("was not verified")
        expect(page.locator("#place")).to_have_text("on this machine")


def test_text_from_outside_stays_text(open_page: OpenPage) -> None:
    one = sample_fleets.gateway("evil", "Error", ref=EVIL, reason=EVIL, message=EVIL, pod=EVIL)
    past = GatewayHistoryView(
        gateway=one,
        history=sample_fleets.past_of(sample_fleets.resource("any", one), "evil").history[:1],  # type: ignore[union-attr]
    )
    diff = SyncDiffView(added=1, changes=(ChangedPathView(action="added", path=EVIL),))
    entry = msgspec.structs.replace(past.history[0], diff=diff, result=EVIL, ref=EVIL)
    written = DestinationView(
        id="d",
        namespace=EVIL,
        name=EVIL,
        repo=EVIL,
        authors=(EVIL,),
        recent=(CommitView(commit=EVIL, author=EVIL, subject=EVIL, at=sample_fleets.ago(hours=1)),),
        message=EVIL,
        ready="False",
    )
    with FakeFleetServer.start(sample_fleets.resource("line-1", one, message=EVIL), written) as served:
        served.scene.pasts = lambda resource, name: msgspec.structs.replace(past, history=(entry,))
        page = open_page(served.url)
        page.get_by_role("link", name="evil").click()
        page.locator(".history summary").click()
        expect(page.locator(".paths li")).to_have_text(f"+added: {EVIL}")
        expect(page.locator(".recent .subject")).to_have_text(EVIL)
        assert page.locator("img").count() == 0
        assert "Stoker" in page.title()


def test_a_lost_connection_is_shown_and_comes_back(fleet: FakeFleetServer, open_page: OpenPage) -> None:
    with FaultProxy.start(fleet.url) as network:
        page = open_page(f"http://{network.address}", forgiving=True)
        with network.refusing():
            network.inject(Fault(FaultKind.RESET))
            expect(page.locator("#stale")).to_contain_text("Connection lost")
            expect(page.locator("#link")).to_have_text("Not live")
            page.get_by_role("button", name="Approve…").click()
            page.get_by_role("button", name="Approve", exact=True).click()
            expect(page.get_by_role("alert").last).to_contain_text("Nothing was done")
            fleet.put(sample_fleets.numbered(3, "Error"))
        expect(page.locator("#link")).to_have_text("Live")
        expect(page.locator("#stale")).to_be_hidden()
        expect(page.get_by_role("link", name="line-003-filler")).to_be_visible()
        assert fleet.orders == []


def test_a_session_that_ends_leaves_nothing_on_the_page(fleet: FakeFleetServer, open_page: OpenPage) -> None:
    page = open_page(fleet.url)
    fleet.forget_sessions()
    expect(page.locator("#sign-in")).to_be_visible()
    expect(page.locator("#sign-in-error")).to_have_text("Your session has ended. Sign in again.")
    assert "line-1" not in page.content()


def test_signing_in_and_out(fleet: FakeFleetServer, open_page: OpenPage) -> None:
    page = open_page(fleet.url, token="", forgiving=True)
    expect(page.get_by_label("Token")).to_be_focused()
    page.keyboard.type("not-a-token")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_have_text("that token opens nothing here")
    page.get_by_label("Token").fill(EDITOR)
    page.keyboard.press("Enter")
    expect(page.locator("#user")).to_have_text("editor@plant.example")
    page.locator("#menu summary").click()
    page.get_by_role("button", name="Sign out").click()
    expect(page.locator("#sign-in")).to_be_visible()
    page.reload()
    expect(page.locator("#sign-in")).to_be_visible()


def test_a_token_in_the_address_is_taken_out_of_it(fleet: FakeFleetServer, open_page: OpenPage) -> None:
    page = open_page(fleet.url)
    assert page.url == f"{fleet.url}/"
    assert page.evaluate("history.length") <= 2
    assert EDITOR not in page.content()


def test_a_read_only_user_has_no_buttons_and_reads_why(fleet: FakeFleetServer, open_page: OpenPage) -> None:
    page = open_page(fleet.url, token=VIEWER)
    expect(page.locator("#view-only")).to_contain_text("View only")
    page.locator("#gateways .head").get_by_role("link", name="line-1", exact=True).click()
    expect(page.get_by_role("complementary")).to_contain_text(
        "your account has no permission to change Stoker line-1 in namespace plant"
    )
    assert page.locator(":is(.act, .main, .stop):visible").count() == 0


def test_colours_follow_the_device_until_the_user_chooses(
    fleet: FakeFleetServer, open_page: OpenPage
) -> None:
    ground = "getComputedStyle(document.body).backgroundColor"
    page = open_page(fleet.url, scheme="dark")
    dark = page.evaluate(ground)
    page.locator("#menu summary").click()
    page.get_by_role("radio", name="Light").check()
    light = page.evaluate(ground)
    assert light != dark
    page.reload()
    expect(page.get_by_role("heading", level=1)).to_contain_text("failed")
    assert page.evaluate(ground) == light
    page.locator("#menu summary").click()
    page.get_by_role("radio", name="System").check()
    assert page.evaluate(ground) == dark


def test_ages_are_right_on_a_device_whose_clock_is_wrong(fleet: FakeFleetServer, open_page: OpenPage) -> None:
    wrong = "const right = Date.now; Date.now = () => right() - 40 * 3600 * 1000;"
    page = open_page(fleet.url, script=wrong)
    row = page.get_by_role("row").filter(has_text="line-1-filler")
    expect(row.locator("time")).to_have_text("2 days ago")
