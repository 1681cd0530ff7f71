"""A real Chromium without a window, for tests and benchmarks of the dashboard.

The browser is the machine's own (`make assets` installs it on Debian); playwright
speaks to it and brings none. Only for development: a machine that runs Stoker has neither.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

NAMES = ("chromium", "chromium-browser", "google-chrome")
_QUIET = ("--disable-gpu", "--hide-scrollbars", "--disable-dev-shm-usage")


class OpenPage(Protocol):
    """Opens the dashboard at an address, signed in unless `token` is empty.

    `headers` are what a proxy in front would add; with `own_time` its `clock` can be moved on.
    """

    def __call__(
        self,
        url: str,
        *,
        token: str = ...,
        size: tuple[int, int] = ...,
        scheme: str = ...,
        script: str = ...,
        forgiving: bool = ...,
        headers: dict[str, str] | None = ...,
        own_time: bool = ...,
    ) -> Page: ...


def chromium() -> str:
    """Its path."""
    for name in NAMES:
        found = shutil.which(name)
        if found is not None:
            return found
    raise FileNotFoundError("no Chromium was found; make assets installs it")


@contextmanager
def started() -> Iterator[Browser]:
    """One browser for many pages."""
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - a library of the dev group alone

    # Its sandbox needs rights that root in a container does not have; all pages here are our own.
    sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=[*_QUIET, *sandbox])
        try:
            yield browser
        finally:
            browser.close()
