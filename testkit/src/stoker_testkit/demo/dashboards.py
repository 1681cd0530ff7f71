"""The dashboard of one of the demo's programs: its link, and what its page gets to see.

What the story says of a gateway is held against it: a page that shows something else
ends the demo with an error.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable
from http.client import HTTPConnection
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from stoker.domain.errors import Stalled
from stoker_testkit.certificates import write_private
from stoker_testkit.demo.output import say
from stoker_testkit.processes import free_port
from stoker_testkit.wait_until import eventually

if TYPE_CHECKING:
    from stoker.dashboard.view_models import DashboardView, GatewayView

PATIENCE_SECONDS = 30.0
SYNCED = "Synced"


class DemoDashboard:
    """One that listens on a local port, and somebody who may come in."""

    def __init__(self, port: int, token: str) -> None:
        self.address = f"127.0.0.1:{port}"
        self._token = token
        self._cookie = self._trouble = ""

    @classmethod
    def with_token_in(cls, file: Path) -> DemoDashboard:
        """One of a program that is told its token by a file."""
        token = secrets.token_urlsafe(24)
        write_private(file, token.encode())
        return cls(free_port(), token)

    @property
    def link(self) -> str:
        return f"http://{self.address}/#token={self._token}"

    def show_gateway(self, name: str, what: str, seen: Callable[[GatewayView], bool]) -> None:
        """Say how the page shows a gateway, as soon as it shows it so."""

        def fits() -> list[GatewayView]:
            gateways = [one for each in self._now().resources for one in each.gateways]
            return [one for one in gateways if one.name == name and seen(one)]

        shown = eventually(
            fits,
            PATIENCE_SECONDS,
            lambda: f"the dashboard shows {name} {what}; it shows {self._now().resources} {self._trouble}",
            interval=0.25,
        )[0]
        why = f" ({shown.reason})" if shown.state != SYNCED else ""
        say(f"{name} is {shown.state}{why} at {shown.commit[:8]}", about="dashboard")

    def show_synced(self, name: str, commit: str) -> None:
        self.show_gateway(name, f"at {commit[:8]}", lambda one: (one.state, one.commit) == (SYNCED, commit))

    def show_written(self, author: str) -> None:
        """Say what the page shows of the last commit of an author, as soon as it does."""

        def written() -> list[str]:
            return [
                f"{each.namespace}/{each.name} got {one.commit[:8]} by {one.author}"
                for each in self._now().destinations
                for one in each.recent[:1]
                if one.author == author
            ]

        shown = eventually(
            written,
            PATIENCE_SECONDS,
            lambda: f"the dashboard shows {author}; it shows {self._now().destinations} {self._trouble}",
            interval=0.25,
        )
        say(shown[0], about="dashboard")

    def _now(self) -> DashboardView:
        """What the page gets; nothing while it is refused, as for a moment on a machine that is busy."""
        from stoker.dashboard.view_models import DashboardView  # noqa: PLC0415 - the rest of the demo needs none of it

        try:
            seen = msgspec.json.decode(self._ask("GET", "/api/picture"), type=DashboardView)
        except (Stalled, OSError) as error:
            self._cookie, self._trouble = "", str(error)
            return DashboardView(version=0, mode="", at="")
        self._trouble = ""
        return seen

    def _ask(self, method: str, path: str, body: object = None) -> bytes:
        if not self._cookie and path != "/api/session":
            self._ask("POST", "/api/session", {"token": self._token})
        connection = HTTPConnection(self.address, timeout=PATIENCE_SECONDS)
        headers = {"Cookie": self._cookie} if self._cookie else {}
        if body is not None:
            headers |= {"Content-Type": "application/json", "Origin": f"http://{self.address}"}
        try:
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            answer = connection.getresponse()
            said = answer.read()
        finally:
            connection.close()
        if answer.status != 200:
            raise Stalled(f"the dashboard answered {answer.status} to {method} {path}: {said.decode()[:300]}")
        self._cookie = (answer.getheader("Set-Cookie") or self._cookie).partition(";")[0]
        return said
