"""A test gateway as a process, what it says that it has loaded, and a Designer who saves on it."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from stoker.cli.demo.output import say
from stoker.domain.errors import Stalled
from stoker.testing.processes import Process
from stoker.testing.wait_until import eventually

PATIENCE_SECONDS = 30.0


class Loaded(msgspec.Struct, frozen=True, rename="camel"):
    """What the gateway shows of itself to tests: digests by resource, and how its scans go."""

    projects: dict[str, dict[str, str]]
    config: dict[str, str]
    scans: int
    scan_active: bool


class GatewayProcess:
    """One gateway over one data folder."""

    def __init__(self, name: str, data_dir: Path) -> None:
        self.name = name
        self.data_dir = data_dir
        self._log: Path
        self._scans = 0

    def start(self, key: Path, log: Path, port: int = 0) -> Process:
        """Start it; `port` where somebody has to know it before."""
        self.data_dir.mkdir(parents=True, exist_ok=True)
        self._log = log
        flags = ["--data-dir", str(self.data_dir), "--key-file", str(key), "--name", self.name]
        flags += ["--port", str(port)]
        return Process.start(
            self.name, [sys.executable, "-m", "stoker.testing.gateway.simulated_gateway", *flags], log=log
        )

    def address(self) -> str:
        """Its first line, as soon as it has printed it."""
        return eventually(
            lambda: self._log.read_text().partition("\n")[0],
            PATIENCE_SECONDS,
            lambda: f"gateway {self.name} says its address; its log: {self._log.read_text()[-2000:]}",
        )

    def port(self) -> int:
        return urlsplit(self.address()).port or 0

    def loaded(self) -> dict[str, str]:
        """The digest of each resource that it has loaded."""
        said = self._seen()
        self._scans = said.scans
        return {
            **{
                f"projects/{project}/{path}": digest
                for project, resources in said.projects.items()
                for path, digest in resources.items()
            },
            **{f"config/resources/{path}": digest for path, digest in said.config.items()},
        }

    def loaded_after_scan(self) -> dict[str, str]:
        """The same once the scans that were asked for have ended."""

        def ended() -> bool:
            said = self._seen()
            return said.scans >= self._scans + 2 and not said.scan_active

        eventually(ended, PATIENCE_SECONDS, f"gateway {self.name} has scanned projects and configuration")
        return self.loaded()

    def projects(self) -> set[str]:
        return set(self._seen().projects)

    def save(self, path: str, text: str) -> None:
        """What a Designer does who presses save."""
        said = json.loads(self._ask("POST", "/testing/save", {"path": path, "text": text}))
        if not said.get("written"):
            raise Stalled(f"gateway {self.name} did not write {path}")

    def _seen(self) -> Loaded:
        return msgspec.json.decode(self._ask("GET", "/testing/loaded"), type=Loaded)

    def _ask(self, method: str, path: str, body: Mapping[str, str] | None = None) -> bytes:
        connection = HTTPConnection(urlsplit(self.address()).netloc, timeout=PATIENCE_SECONDS)
        try:
            connection.request(method, path, None if body is None else json.dumps(body))
            return connection.getresponse().read()
        finally:
            connection.close()


def show_moves(name: str, before: Mapping[str, str], after: Mapping[str, str]) -> None:
    """What a gateway loaded, dropped and loaded anew."""
    for path in sorted(before.keys() | after.keys()):
        old, new = before.get(path), after.get(path)
        if old != new:
            did = "dropped" if new is None else "loaded" if old is None else "reloaded"
            say(f"gateway {did} {path}", by=name)
