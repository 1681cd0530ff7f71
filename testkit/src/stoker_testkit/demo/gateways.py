"""A test gateway as a process, and the resources that it reports as loaded."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from stoker_testkit.demo.output import say
from stoker_testkit.processes import Process
from stoker_testkit.wait_until import eventually

PATIENCE_SECONDS = 30.0


class LoadedContent(msgspec.Struct, frozen=True, rename="camel"):
    """What the test gateway reports to tests: digests by resource, and the state of its scans."""

    projects: dict[str, dict[str, str]]
    config: dict[str, str]
    scans: int
    scan_active: bool


class GatewayProcess:
    """One test gateway with one data folder."""

    def __init__(self, name: str, data_dir: Path) -> None:
        self.name = name
        self.data_dir = data_dir
        self._log: Path
        self._scans = 0

    def start(self, key: Path, log: Path) -> Process:
        self.data_dir.mkdir(parents=True, exist_ok=True)
        self._log = log
        flags = ["--data-dir", str(self.data_dir), "--key-file", str(key), "--name", self.name]
        flags += ["--port", "0"]
        return Process.start(
            self.name, [sys.executable, "-m", "stoker_testkit.gateway.simulated_gateway", *flags], log=log
        )

    def address(self) -> str:
        """Wait for the first line of its log, which is its address."""
        return eventually(
            lambda: self._log.read_text().partition("\n")[0],
            PATIENCE_SECONDS,
            lambda: f"gateway {self.name} says its address; its log: {self._log.read_text()[-2000:]}",
        )

    def port(self) -> int:
        return urlsplit(self.address()).port or 0

    def loaded(self) -> dict[str, str]:
        """The digest of each loaded resource."""
        seen = self._seen()
        self._scans = seen.scans
        return {
            **{
                f"projects/{project}/{path}": digest
                for project, resources in seen.projects.items()
                for path, digest in resources.items()
            },
            **{f"config/resources/{path}": digest for path, digest in seen.config.items()},
        }

    def loaded_after_scan(self) -> dict[str, str]:
        """The same once the requested scans have ended."""

        def ended() -> bool:
            seen = self._seen()
            return seen.scans >= self._scans + 2 and not seen.scan_active

        eventually(ended, PATIENCE_SECONDS, f"gateway {self.name} has scanned projects and configuration")
        return self.loaded()

    def projects(self) -> set[str]:
        return set(self._seen().projects)

    def _seen(self) -> LoadedContent:
        return msgspec.json.decode(self._get("/testing/loaded"), type=LoadedContent)

    def _get(self, path: str) -> bytes:
        connection = HTTPConnection(urlsplit(self.address()).netloc, timeout=PATIENCE_SECONDS)
        try:
            connection.request("GET", path)
            return connection.getresponse().read()
        finally:
            connection.close()


def show_loaded(name: str, before: Mapping[str, str], after: Mapping[str, str]) -> None:
    """Print which resources the gateway loaded, reloaded and unloaded."""
    for path in sorted(before.keys() | after.keys()):
        old, new = before.get(path), after.get(path)
        if old != new:
            did = "unloaded" if new is None else "loaded" if old is None else "reloaded"
            say(f"the gateway {did} {path}", about=name)
