"""A Chromium for the tests of the dashboard, and a page that nothing may go wrong on unseen.

Every page here is watched: a request to another origin, a blocked script or style, a script
that failed or an answer that should not have been asked for makes its test fail.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from stoker_testkit.dashboard import sample_fleets
from stoker_testkit.dashboard.chromium import OpenPage, started
from stoker_testkit.dashboard.fake_fleet_server import EDITOR, FakeFleetServer

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

PATIENCE = 30_000
"""Milliseconds until what should come must have come."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Ends with its module: while playwright is up, no test of this process can run a loop of its own."""
    expect.set_options(timeout=PATIENCE)
    with started() as found:
        yield found


@pytest.fixture
def fleet() -> Iterator[FakeFleetServer]:
    """A fleet in which everything happens at once, and three destinations."""
    with FakeFleetServer.start(*sample_fleets.mixed(), *sample_fleets.destinations()) as served:
        yield served


@pytest.fixture
def open_page(browser: Browser) -> Iterator[OpenPage]:
    """Opens the dashboard of a fleet, signed in unless `token` is empty; checks it when the test ends."""
    with ExitStack() as stack:
        troubles: list[str] = []

        def open_page(
            url: str,
            *,
            token: str = EDITOR,
            size: tuple[int, int] = (1280, 800),
            scheme: str = "light",
            script: str = "",
            forgiving: bool = False,
            headers: dict[str, str] | None = None,
            own_time: bool = False,
        ) -> Page:
            context = browser.new_context(
                viewport={"width": size[0], "height": size[1]},
                color_scheme="dark" if scheme == "dark" else "light",
                reduced_motion="reduce",
                extra_http_headers=headers,
            )
            stack.callback(context.close)
            context.set_default_timeout(PATIENCE)
            if script:
                context.add_init_script(script)
            if own_time:
                context.clock.install()
            page = context.new_page()
            if not forgiving:
                page.on(
                    "console", lambda value: troubles.append(value.text) if value.type == "error" else None
                )
            page.on("pageerror", lambda error: troubles.append(str(error)))
            page.on(
                "request", lambda asked: None if asked.url.startswith(url) else troubles.append(asked.url)
            )
            page.goto(f"{url}/#token={token}" if token else url)
            if token or headers:
                page.wait_for_selector("body[data-link=live] #main:not([hidden])")
            return page

        yield open_page
        assert not troubles
