"""Sessions on a test gateway: Designers by project, and browsers with Perspective sessions."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Designer:
    """A Designer with a project open."""

    id: str
    user: str
    project: str
    address: str = "10.0.0.7"


@dataclass(frozen=True, slots=True)
class PerspectiveBrowser:
    """A Perspective session of a project."""

    id: str
    user: str
    project: str
    address: str = "10.0.0.8"
    scope: str = "browser"
    """`designer` is a Designer's own preview, which the list of sessions shows, too."""
    leaves_after: float | None = 0.2
    """Seconds from the message that asks it to go until it has gone; None does not listen."""


@dataclass(frozen=True, slots=True)
class SessionMessage:
    """A message that a session has shown."""

    session: str
    text: str


class Sessions:
    """All that are open; lives in the gateway's event loop."""

    def __init__(self) -> None:
        self.designers: dict[str, Designer] = {}
        self.browsers: dict[str, PerspectiveBrowser] = {}
        self.messages: list[SessionMessage] = []
        self._since: dict[str, float] = {}

    def open_designer(self, designer: Designer) -> None:
        self.designers[designer.id] = designer
        self._since[designer.id] = time.monotonic()

    def open_browser(self, browser: PerspectiveBrowser) -> None:
        self.browsers[browser.id] = browser
        self._since[browser.id] = time.monotonic()

    def uptime_ms(self, session: str) -> int:
        return int((time.monotonic() - self._since.get(session, time.monotonic())) * 1000)

    def end_designer(self, session: str) -> bool:
        """Whether there was one."""
        return self.designers.pop(session, None) is not None

    def close_browser(self, session: str, text: str = "") -> bool:
        """End it at once, with a message for its user; return whether there was one."""
        if self.browsers.pop(session, None) is None:
            return False
        if text:
            self.messages.append(SessionMessage(session, text))
        return True

    def message(self, session: str, text: str) -> bool:
        """Show words; who listens goes a while later. Whether there is such a session."""
        browser = self.browsers.get(session)
        if browser is None:
            return False
        self.messages.append(SessionMessage(session, text))
        if browser.leaves_after is not None:
            loop = asyncio.get_running_loop()
            loop.call_later(browser.leaves_after, self.browsers.pop, session, None)
        return True

    def end_all(self) -> None:
        """A gateway that restarts has no sessions."""
        self.designers.clear()
        self.browsers.clear()
