"""A machine of the demo: a test gateway, and `stoker sync --watch` beside it."""

from __future__ import annotations

import json
import os
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from stoker_testkit.demo.dashboards import DemoDashboard
from stoker_testkit.demo.gateways import GatewayProcess
from stoker_testkit.demo.output import program
from stoker_testkit.processes import Process
from stoker_testkit.repositories.sample_ignition_repository import mappings
from stoker_testkit.wait_until import eventually

PATIENCE_SECONDS = 90.0

MANIFEST = """\
apiVersion: stoker.io/v1alpha1
kind: Stoker
metadata: {name: line-1}
spec:
  git:
    repo: "%(url)s"
    ref: main
    auth: {token: {secretRef: {name: git, key: token}}}
  gateway:
    port: %(port)s
    tls: false
    apiKeySecretRef: {name: gateway-key, key: apiKey}
  drift: {mode: restore, interval: 3s}
  deployment:
    autoRollback: {enabled: true, triggers: [projectLoadError]}
---
apiVersion: stoker.io/v1alpha1
kind: SyncProfile
metadata: {name: %(name)s}
spec:
  mappings:
"""


class DemoMachine:
    """One gateway, and the process that syncs it to its ref."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self.gateway = GatewayProcess(name, folder / name)
        self.dashboard: DemoDashboard | None = None
        self._folder = folder
        self._seen = 0
        self._process: Process

    @property
    def command(self) -> list[str]:
        """The command that syncs it, as a user would type it."""
        words = ["stoker", "sync", "--watch", "-f", str(self._folder / f"{self.name}.yaml")]
        words += ["--gateway-name", self.name, "--data-dir", str(self.gateway.data_dir)]
        words += ["--secrets-dir", str(self._folder / "secrets"), "--interval", "1s"]
        if self.dashboard is None:
            return [*words, "--dashboard-address", "0"]
        words += ["--dashboard-address", self.dashboard.address]
        return [*words, "--dashboard-token-file", str(self._token_file)]

    @property
    def _token_file(self) -> Path:
        return self._folder / "dashboard-token"

    def open_dashboard(self) -> DemoDashboard:
        """Make it serve a dashboard."""
        self.dashboard = DemoDashboard.with_token_in(self._token_file)
        return self.dashboard

    def start(self, stack: ExitStack, url: str) -> None:
        """Start `stoker sync --watch` for the running gateway."""
        text = MANIFEST % {"url": url, "port": self.gateway.port(), "name": self.name}
        for source, destination in mappings(self.name):
            text += f"    - {{source: {source}, destination: {destination}}}\n"
        (self._folder / f"{self.name}.yaml").write_text(text)
        quiet = ["--health-address=0", "--metrics-address=0", "--log-format=json"]
        quiet += [f"--cache-dir={self._folder / 'cache'}"]
        environment = os.environ | {"TMPDIR": str(self._folder)}
        self._process = stack.enter_context(
            Process.start(
                f"stoker sync of {self.name}",
                [*program(), *self.command[1:], *quiet],
                log=self._folder / f"{self.name}-sync.log",
                env=environment,
            )
        )

    def until(self, event: str, **wanted: object) -> dict[str, Any]:
        """Wait until it logs this event, after the event of the previous call."""
        return eventually(
            lambda: self._logged(event, wanted),
            PATIENCE_SECONDS,
            lambda: f"{self.name} logs {event} with {wanted}; it logged:\n{self._process.tail()}",
            interval=0.05,
        )

    def _logged(self, event: str, wanted: dict[str, object]) -> dict[str, Any]:
        lines = self._process.log.read_text(errors="replace").splitlines()
        for number, line in enumerate(lines[self._seen :], self._seen + 1):
            entry = _parsed(line)
            if entry.get("event") == event and all(entry.get(name) == it for name, it in wanted.items()):
                self._seen = number
                return entry
        self._process.check()
        return {}


def _parsed(line: str) -> dict[str, Any]:
    try:
        entry = json.loads(line)
    except ValueError:
        return {}
    return entry if isinstance(entry, dict) else {}
