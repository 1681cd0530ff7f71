"""A data folder that a real `stoker sync --watch` keeps, with a repository behind it and its log at hand."""

from __future__ import annotations

import json
import os
import signal
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from stoker_testkit.processes import Process
from stoker_testkit.repositories.bare_repository import Repository
from stoker_testkit.repositories.git_http_server import GitHttpServer
from stoker_testkit.secret_leaks.tracked_credentials import planted
from stoker_testkit.wait_until import ConditionTimeout, eventually

PATIENCE = 30.0
SECRET = planted("webhook-key")


class WatchedFolder:
    """One folder, which one process at a time keeps."""

    def __init__(self, place: Path, server: GitHttpServer) -> None:
        self.place = place
        self.server = server
        self.repository = Repository.create(server.root / "plant.git")
        self.repository.commit({"s/a": "1"})
        self.url = server.url("plant.git")
        self.data = place / "data"
        self.data.mkdir()
        self.log = place / "log"
        (place / "secret").write_text(f"{SECRET}\n")

    def content(self, name: str = "a") -> str:
        path = self.data / "projects/P" / name
        return path.read_text() if path.is_file() else ""

    @contextmanager
    def watching(self, *more: str, flags: bool = True, interval: str = "1h") -> Iterator[WatchProcess]:
        command = [sys.executable, "-m", "stoker", "sync", "--watch", f"--data-dir={self.data}"]
        command += [f"--cache-dir={self.place / 'cache'}", "--log-format=json"]
        command += ["--health-address=127.0.0.1:0", "--metrics-address=127.0.0.1:0"]
        if not any(one.startswith("--dashboard-address") for one in more):
            command.append("--dashboard-address=0")
        if flags:
            command += [f"--repo={self.url}", "--ref=main", "--map=s:projects/P", f"--interval={interval}"]
        with Process.start("watch", [*command, *more], log=self.log) as process:
            yield WatchProcess(self, process)


class WatchProcess:
    """The process, by what it writes and answers."""

    def __init__(self, site: WatchedFolder, process: Process) -> None:
        self.site = site
        self.process = process

    def lines(self) -> list[dict[str, object]]:
        whole, _, _ = self.site.log.read_text().rpartition("\n")  # the last line may be half written
        return [json.loads(line) for line in whole.splitlines() if line.startswith("{")]

    def events(self) -> list[object]:
        return [line["event"] for line in self.lines() if "event" in line]

    def until(self, name: str, content: str) -> None:
        eventually(
            lambda: self.alive() and self.site.content(name) == content, PATIENCE, f"{name} is {content}"
        )

    def until_logged(self, event: str) -> dict[str, object]:
        def found() -> dict[str, object] | None:
            self.alive()
            return next((line for line in self.lines() if line.get("event") == event), None)

        line = eventually(found, PATIENCE, f"{event} is logged")
        if line is None:
            raise ConditionTimeout(event)
        return line

    def alive(self) -> bool:
        self.process.check()
        return True

    def port(self, path: str) -> object:
        def found() -> object:
            listening = [line for line in self.lines() if line.get("event") == "probe.listening"]
            return next((line["port"] for line in listening if path in line["paths"]), None)  # type: ignore[operator]

        return eventually(found, PATIENCE, f"{path} is served")

    def ask(self, path: str) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port(path)}{path}", timeout=10) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    def signal(self, number: signal.Signals) -> None:
        os.kill(self.process.pid, number)

    def stop(self) -> int | None:
        self.signal(signal.SIGTERM)
        if not self.process.wait(PATIENCE):
            raise ConditionTimeout("the watch did not end")
        return self.process.returncode
