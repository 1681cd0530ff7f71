"""Checks a page on a phone, on a desktop and on a wall, dark and light, and keeps screenshots of it.

The screenshots are in dist/pictures, for people to look at. What can be checked by a program is
in `layout_checks.js`: nothing hangs over the edge, the emergency stop can be seen and
reached, everything that can be pressed has a name and is large enough, all text can be read.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from playwright.sync_api import Page

PICTURES = Path(__file__).parents[2] / "dist" / "pictures"
SIZES = {"phone": (390, 844), "desk": (1280, 800), "wall": (2560, 1440)}
SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
UNPICTURED = (("wall", "dark"),)
"""Looked over like all others; but a picture of it costs as much as all of a phone."""
CONTRAST = 4.5
"""The contrast of text to its background, as WCAG 2.2 AA requires."""
SMALLEST = 24
"""Pixels that a target must have in both directions, as WCAG 2.2 AA asks."""

# The problems of the page, in sentences.
LOOK = (Path(__file__).parent / "layout_checks.js").read_text()


class ScreenshotRun:
    """Looks at the page light and dark, takes pictures, and keeps what is wrong."""

    def __init__(self, page: Page, sizes: Iterable[str] = tuple(SIZES), *, whole: bool = False) -> None:
        """`whole` pictures reach to the end of the page, and not of the screen."""
        self._page, self._sizes, self._whole = page, tuple(sizes), whole
        self.wrong: dict[str, list[str]] = {}
        PICTURES.mkdir(parents=True, exist_ok=True)

    def __call__(self, state: str, *, stop: bool = True) -> None:
        for size in self._sizes:
            width, height = SIZES[size]
            if self._page.viewport_size != {"width": width, "height": height}:
                self._page.set_viewport_size({"width": width, "height": height})
            for scheme in SCHEMES:
                self._look(state, size, scheme, stop=stop)

    def _look(self, state: str, size: str, scheme: Literal["light", "dark"], *, stop: bool) -> None:
        self._page.emulate_media(color_scheme=scheme)
        name = f"{state}-{size}-{scheme}"
        if (size, scheme) not in UNPICTURED:
            self._page.screenshot(path=PICTURES / f"{name}.png", full_page=self._whole)
        found = self._page.evaluate(LOOK, {"contrast": CONTRAST, "smallest": SMALLEST, "stop": stop})
        if found:
            self.wrong[name] = found
