"""The demo without a cluster: a Git repository, and two gateways synced by `stoker sync --watch`."""

from __future__ import annotations

import hashlib
import json
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from stoker.domain.errors import Stalled
from stoker.domain.reasons import Reason
from stoker.domain.refs import CommitId
from stoker.git.auth.credentials import TOKEN_USER
from stoker_testkit.demo.dashboards import DemoDashboard
from stoker_testkit.demo.gateways import show_loaded
from stoker_testkit.demo.machines import DemoMachine
from stoker_testkit.demo.output import say, show_command, stoker, title
from stoker_testkit.repositories.bare_repository import Files, Repository
from stoker_testkit.repositories.git_http_server import GitHttpServer
from stoker_testkit.repositories.sample_ignition_repository import GATEWAYS, VIEWS, plant, view
from stoker_testkit.secret_leaks.tracked_credentials import planted

TOKEN = planted("demo-token")
KEY = f"demo:{planted('demo-key')}"
SCRIPT = "shared/scripts/line/code.py"
LINE_VIEW = f"services/filler/projects/filler/{VIEWS}/Line"
CLEANING = "services/filler/projects/cleaning/project.json"
MANAGED = ("projects", "config")


class StandaloneDemo:
    """A repository, and two machines whose gateways follow it."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self._folder = folder
        self._stack = stack
        self._repository = Repository.create(folder / "repositories" / "plant.git")
        self._machines = {name: DemoMachine(name, folder) for name in GATEWAYS}
        self._dashboard: DemoDashboard
        self._url: str

    def set_up(self) -> None:
        title("Setting up a Git repository of a bottling plant, and two test gateways that follow it")
        self._repository.commit(plant(), message="Line 1 as built")
        root = self._repository.path.parent
        server = self._stack.enter_context(GitHttpServer.start(root, users={TOKEN_USER: TOKEN}))
        self._url = server.url("plant.git")
        key = self._folder / "secrets" / "gateway-key" / "apiKey"
        for path, text in ((self._folder / "secrets" / "git" / "token", TOKEN), (key, KEY)):
            path.parent.mkdir(parents=True)
            path.write_text(text)
        say(f"{self._url}, branch main at {self._repository.tip().short}", about="git")
        for name, machine in self._machines.items():
            self._stack.enter_context(machine.gateway.start(key, self._folder / f"{name}.log"))
        self._dashboard = self._filler.open_dashboard()
        for machine in self._machines.values():
            machine.start(self._stack, self._url)
        show_command(self._filler.command, self._folder)
        for name, machine in self._machines.items():
            done = machine.until("sync.done", commit=self._repository.tip().short)
            say(f"{_counts(done)}. The gateway loaded {len(machine.gateway.loaded())} resources.", about=name)
        self._show_link()

    def push(self, number: int) -> None:
        title("A push to main: both gateways load the new commit", number)
        views, change = f"services/filler/projects/filler/{VIEWS}", dict[str, str | None]()
        for name, text in view("Line 1").items():
            change |= {f"{views}/Line/{name}": text, f"{views}/Overview/{name}": None}
        change[SCRIPT] = plant()[SCRIPT].replace(
            "count * 3600 / seconds", "0 if not seconds else count * 3600 / seconds"
        )
        before = {name: machine.gateway.loaded() for name, machine in self._machines.items()}
        commit, began = self._commit(change, "One view for the whole line"), time.monotonic()
        for name, machine in self._machines.items():
            done = machine.until("sync.done", commit=commit.short)
            after = machine.gateway.loaded_after_scan()
            say(f"{_counts(done)}. Verified {time.monotonic() - began:.1f} s after the push.", about=name)
            show_loaded(name, before[name], after)
        self._dashboard.show_synced("filler", commit)

    def change_by_hand(self, number: int) -> None:
        title("A file is changed by hand on the packer: the drift is found, and the file is restored", number)
        packer = self._machines["packer"]
        file = packer.gateway.data_dir / "projects" / "packer" / VIEWS / "Overview" / "view.json"
        committed = file.read_bytes()
        file.write_text('{"root": {}, "title": "Packer overview, changed by hand"}\n')
        say(f"changed by hand: {file.relative_to(packer.gateway.data_dir)}", about="packer")
        began = time.monotonic()
        done = packer.until("sync.done", commit=self._repository.tip().short, modified=1)
        if file.read_bytes() != committed:
            raise Stalled(f"{file} was not restored")
        say(f"{_counts(done)}. Restored after {time.monotonic() - began:.1f} s.", about="packer")
        say(f"$ stoker verify --data-dir {packer.gateway.data_dir.name}")
        say(stoker("verify", "--data-dir", str(packer.gateway.data_dir)), about="packer")

    def break_one(self, number: int) -> None:
        title("A commit with a project that the filler cannot load: it is rolled back", number)
        gateway, began = self._filler.gateway, time.monotonic()
        before, at = _tree(gateway.data_dir), self._repository.tip()
        change = {f"{LINE_VIEW}/{name}": text for name, text in view("Line 1, with cleaning").items()}
        self._commit({**change, CLEANING: "[]\n"}, "A project for cleaning")
        say("its new project.json is not valid. The gateway is asked twice, seconds apart.", about="filler")
        failed = self._filler.until("sync.failed", reason=str(Reason.AUTO_ROLLBACK))
        if _tree(gateway.data_dir) != before or gateway.projects() != {"filler"}:
            raise Stalled("the filler's files are not what they were before the commit that was rolled back")
        say(f"{failed['reason']}: {failed['error']}", about="filler")
        took = time.monotonic() - began
        say(f"every file is again as at {at.short}, compared by digest, after {took:.0f} s", about="filler")
        reason = str(Reason.AUTO_ROLLBACK)
        self._dashboard.show_gateway("filler", reason, lambda one: one.reason == reason)
        good = self._commit({CLEANING: '{"title": "Cleaning", "enabled": true}\n'}, "Fix the project file")
        done = self._filler.until("sync.done", commit=good.short)
        say(f"{_counts(done)}.", about="filler")
        say(f"projects that the gateway runs: {', '.join(sorted(gateway.projects()))}", about="filler")
        self._dashboard.show_synced("filler", good)

    def show_what_stays(self) -> None:
        say(f"push to {self._repository.path}, branch main, and both gateways follow")
        say(f"change a file below {self._filler.gateway.data_dir}, and it is restored")
        self._show_link()

    @property
    def _filler(self) -> DemoMachine:
        return self._machines["filler"]

    def _show_link(self) -> None:
        say(self._dashboard.link, about="dashboard")

    def _commit(self, files: Files, message: str) -> CommitId:
        commit = self._repository.commit(files, message=message, author="Dana <dana@example.net>")
        say(f'{commit.short} "{message}" by Dana, pushed to main', about="git")
        return commit


def _counts(event: dict[str, Any]) -> str:
    """The result of a sync as text, from its log line."""
    counts = [f"{event[word]} {word}" for word in ("added", "modified", "deleted") if event.get(word)]
    return f"{event['ref']} at {event['commit']}: {', '.join(counts) or 'nothing to change'}"


def _tree(data: Path) -> str:
    """A digest of every file that a sync manages."""
    files = sorted(path for place in MANAGED for path in (data / place).rglob("*") if path.is_file())
    listed = [
        (str(path), path.stat().st_mode, hashlib.sha256(path.read_bytes()).hexdigest()) for path in files
    ]
    return hashlib.sha256(json.dumps(listed).encode()).hexdigest()
