"""A test gateway as a process, and what it says that it has loaded."""

from __future__ import annotations

from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from stoker.testing.processes import Process
from stoker.testing.waiting import eventually

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

    def start(self, python: str, key: Path, log: Path) -> Process:
        self.data_dir.mkdir()
        self._log = log
        flags = ["--data-dir", str(self.data_dir), "--key-file", str(key), "--name", self.name]
        return Process.start(self.name, [python, "-m", "stoker.testing.gateway.simulated", *flags], log=log)

    def address(self) -> str:
        """Its first line, as soon as it has printed it."""
        return eventually(
            lambda: self._log.read_text().partition("\n")[0],
            PATIENCE_SECONDS,
            lambda: f"gateway {self.name} says its address; its log: {self._log.read_text()[-2000:]}",
        )

    def loaded(self) -> dict[str, str]:
        """The digest of each resource that it has loaded."""
        said = self._ask()
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
            said = self._ask()
            return said.scans >= self._scans + 2 and not said.scan_active

        eventually(ended, PATIENCE_SECONDS, f"gateway {self.name} has scanned projects and configuration")
        return self.loaded()

    def _ask(self) -> Loaded:
        connection = HTTPConnection(urlsplit(self.address()).netloc, timeout=PATIENCE_SECONDS)
        try:
            connection.request("GET", "/testing/loaded")
            return msgspec.json.decode(connection.getresponse().read(), type=Loaded)
        finally:
            connection.close()
