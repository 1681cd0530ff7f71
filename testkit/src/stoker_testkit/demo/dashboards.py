"""The dashboard of one of the demo's processes: its link, and the data that its page receives.

The demo compares what it prints about a gateway to the dashboard: a page that shows something else ends the
demo with an error.
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
    """A dashboard on a local port, with a token that is valid for it."""

    def __init__(self, port: int, token: str) -> None:
        self.address = f"127.0.0.1:{port}"
        self._token = token
        self._cookie = self._trouble = ""

    @classmethod
    def with_token_in(cls, file: Path) -> DemoDashboard:
        """The dashboard of a process that reads its token from a file."""
        token = secrets.token_urlsafe(24)
        write_private(file, token.encode())
        return cls(free_port(), token)

    @property
    def link(self) -> str:
        return f"http://{self.address}/#token={self._token}"

    def show_gateway(self, name: str, what: str, seen: Callable[[GatewayView], bool]) -> None:
        """Wait until the dashboard shows the gateway as `seen` expects, then print that."""

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
        """Wait until the dashboard shows an author's commit, then print that."""

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
        """The page's data; empty while a request is refused, which happens briefly on a busy machine."""
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
            content = answer.read()
        finally:
            connection.close()
        if answer.status != 200:
            raise Stalled(
                f"the dashboard answered {answer.status} to {method} {path}: {content.decode()[:300]}"
            )
        self._cookie = (answer.getheader("Set-Cookie") or self._cookie).partition(";")[0]
        return content
