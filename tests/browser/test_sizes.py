"""The main states of the dashboard on a phone, at a desk and on a wall, dark and light.

Each is kept as a picture in dist/pictures, for people to look at. What a machine can say
of it is said here: nothing hangs over the edge, the emergency stop can be seen and reached,
everything that can be pressed has a name and is large enough, and all text can be read.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import Page, expect

from stoker.testing.browser import OpenPage
from stoker.testing.sites import fleet_values
from stoker.testing.sites.fleet_scene import EDITOR, ServedFleet

pytestmark = pytest.mark.xdist_group("browser")

PICTURES = Path(__file__).parents[2] / "dist" / "pictures"
SIZES = {"phone": (390, 844), "desk": (1280, 800), "wall": (2560, 1440)}
SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
UNPICTURED = (("wall", "dark"),)
"""Looked over like all others; but a picture of it costs as much as all of a phone."""
CONTRAST = 4.5
"""Of text to what lies behind it, as WCAG 2.2 AA asks."""
SMALLEST = 24
"""Pixels that a target must have in both directions, as WCAG 2.2 AA asks."""

# What is wrong with the page as it stands, in sentences.
LOOK = (Path(__file__).parent / "looking_over.js").read_text()


@pytest.mark.parametrize("size", SIZES)
def test_the_main_states_can_be_read_and_used(open_page: OpenPage, size: str) -> None:
    PICTURES.mkdir(parents=True, exist_ok=True)
    calm = fleet_values.in_step()
    with ServedFleet.start(*calm) as served:
        page = open_page(served.url, token="", size=SIZES[size], forgiving=True)
        look = _Looking(page, size)
        expect(page.locator("#sign-in")).to_be_visible()
        look("sign-in", stop=False)
        page.get_by_label("Token").fill(EDITOR)
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", level=1)).to_have_text("All 240 gateways are in step")
        look("in-step")
        page.get_by_role("button", name="Emergency stop").click()
        look("asked-to-stop", stop=False)
        page.keyboard.press("Escape")
        page.evaluate("document.activeElement.blur()")
        page.mouse.move(0, 0)
        served.remove(*(one.id for one in calm))
        served.put(*(one for one in fleet_values.mixed() if one.approval is None))
        expect(page.get_by_role("heading", level=1)).to_contain_text("1 gateway failed")
        look("fleet")
        served.put(fleet_values.approval(), *fleet_values.destinations())
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


class _Looking:
    """Looks at the page light and dark, takes pictures, and keeps what is wrong."""

    def __init__(self, page: Page, size: str) -> None:
        self._page, self._size = page, size
        self.wrong: dict[str, list[str]] = {}

    def __call__(self, state: str, *, stop: bool = True) -> None:
        for scheme in SCHEMES:
            self._page.emulate_media(color_scheme=scheme)
            name = f"{state}-{self._size}-{scheme}"
            if (self._size, scheme) not in UNPICTURED:
                self._page.screenshot(path=PICTURES / f"{name}.png")
            found = self._page.evaluate(LOOK, {"contrast": CONTRAST, "smallest": SMALLEST, "stop": stop})
            if found:
                self.wrong[name] = found
