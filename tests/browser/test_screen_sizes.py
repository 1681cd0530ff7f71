"""The main states of the dashboard on a phone, on a desktop and on a wall, dark and light.

Made-up fleets; what real processes show is looked at by `test_real_controller`,
`test_real_reverser` and `test_real_standalone`.
"""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from stoker_testkit.dashboard import sample_fleets
from stoker_testkit.dashboard.chromium import OpenPage
from stoker_testkit.dashboard.fake_fleet_server import EDITOR, FakeFleetServer

from .screenshots import SIZES, ScreenshotRun

pytestmark = pytest.mark.xdist_group("browser")


@pytest.mark.parametrize("size", SIZES)
def test_the_main_states_can_be_read_and_used(open_page: OpenPage, size: str) -> None:
    calm = sample_fleets.in_step()
    with FakeFleetServer.start(*calm) as served:
        page = open_page(served.url, token="", size=SIZES[size], forgiving=True)
        look = ScreenshotRun(page, (size,))
        expect(page.locator("#sign-in")).to_be_visible()
        look("sign-in", stop=False)
        page.get_by_label("Token").fill(EDITOR)
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", level=1)).to_have_text("All 240 gateways are in sync")
        look("in-step")
        page.get_by_role("button", name="Emergency stop").click()
        look("asked-to-stop", stop=False)
        page.keyboard.press("Escape")
        page.evaluate("document.activeElement.blur()")
        page.mouse.move(0, 0)
        served.remove(*(one.id for one in calm))
        served.put(*(one for one in sample_fleets.mixed() if one.approval is None))
        expect(page.get_by_role("heading", level=1)).to_contain_text("1 gateway failed")
        look("fleet")
        served.put(sample_fleets.approval(), *sample_fleets.destinations())
        expect(page.locator("#approvals")).to_be_visible()
        look("approval")
        page.locator("#destinations").scroll_into_view_if_needed()
        look("destinations")
        page.locator("#gateways").get_by_role("link", name="line-1-filler").click()
        page.locator(".history summary").first.click()
        look("gateway")
        page.keyboard.press("Escape")
        served.set_stop(active=True)
        page.get_by_role("heading", name="Emergency stop is on").scroll_into_view_if_needed()
        look("stopped")
    expect(page.locator("#stale")).to_be_visible()
    look("disconnected")
    assert look.wrong == {}
