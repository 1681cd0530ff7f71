"""The part of the story that needs no cluster: a repository, and two gateways that follow it."""

from __future__ import annotations

import hashlib
import json
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from stoker.cli.demo.dashboards import Dashboard
from stoker.cli.demo.gateways import show_moves
from stoker.cli.demo.machines import Machine
from stoker.cli.demo.output import act, say, show_command, stoker
from stoker.domain.errors import Stalled
from stoker.domain.reasons import Reason
from stoker.domain.refs import CommitId
from stoker.git.auth.credentials import TOKEN_USER
from stoker.testing.repositories.bare_repository import Files, Repository
from stoker.testing.repositories.git_http_server import GitHttpServer
from stoker.testing.secret_leaks.tracked_credentials import planted
from stoker.testing.repositories.sample_ignition_repository import GATEWAYS, VIEWS, plant, view

TOKEN = planted("demo-token")
KEY = f"demo:{planted('demo-key')}"
SCRIPT = "shared/scripts/line/code.py"
LINE_VIEW = f"services/filler/projects/filler/{VIEWS}/Line"
CLEANING = "services/filler/projects/cleaning/project.json"
MANAGED = ("projects", "config")


class Standalone:
    """A repository, and two machines whose gateways are kept at it."""

    def __init__(self, folder: Path, stage: ExitStack) -> None:
        self.folder = folder
        self._stage = stage
        self.repository = Repository.create(folder / "repositories" / "plant.git")
        self._server: GitHttpServer
        self._machines = {name: Machine(name, folder) for name in GATEWAYS}
        self._dashboard: Dashboard

    @property
    def url(self) -> str:
        return self._server.url("plant.git")

    @property
    def filler(self) -> Machine:
        return self._machines["filler"]

    @property
    def key_file(self) -> Path:
        return self.folder / "secrets" / "gateway-key" / "apiKey"

    def address_of(self, repository: Path) -> str:
        return self._server.url(repository.name)

    def open_repository(self, more: dict[str, str]) -> None:
        """Serve a plant, with the files of whoever else lives in it."""
        self.repository.commit(plant() | more, message="Line 1 as built")
        root = self.repository.path.parent
        self._server = self._stage.enter_context(GitHttpServer.start(root, users={TOKEN_USER: TOKEN}))
        for path, text in ((self.folder / "secrets" / "git" / "token", TOKEN), (self.key_file, KEY)):
            path.parent.mkdir(parents=True)
            path.write_text(text)

    def set_the_stage(self) -> None:
        act("The stage: a repository of a bottling plant, and two gateways that follow it without a cluster")
        say(f"{self.url}, branch main at {self.repository.tip().short}", by="git")
        for name, machine in self._machines.items():
            log = self.folder / f"{name}.log"
            self._stage.enter_context(machine.gateway.start(self.key_file, log))
        self._dashboard = self.filler.open_dashboard()
        for machine in self._machines.values():
            machine.start(self._stage, self.url)
        show_command(self.filler.command, self.folder)
        for name, machine in self._machines.items():
            said = machine.until("sync.done", commit=self.repository.tip().short)
            loaded = len(machine.gateway.loaded())
            say(f"{_counts(said)}; the gateway shows {loaded} resources", by=name)
        self.show_dashboard()

    def show_dashboard(self) -> None:
        say(self._dashboard.link, by="dashboard of the filler")

    def show_what_stays(self) -> None:
        say(f"push to {self.repository.path}, branch main, and both gateways follow")
        say(f"edit below {self.filler.gateway.data_dir}, and it is put back")
        self.show_dashboard()

    def push(self, number: int) -> None:
        act("A push: both gateways follow", number)
        views, change = f"services/filler/projects/filler/{VIEWS}", dict[str, str | None]()
        for name, text in view("Line 1").items():
            change |= {f"{views}/Line/{name}": text, f"{views}/Overview/{name}": None}
        change[SCRIPT] = plant()[SCRIPT].replace(
            "count * 3600 / seconds", "0 if not seconds else count * 3600 / seconds"
        )
        before = {name: machine.gateway.loaded() for name, machine in self._machines.items()}
        commit, began = self._commit(change, "One view for the whole line"), time.monotonic()
        for name, machine in self._machines.items():
            said = machine.until("sync.done", commit=commit.short)
            after = machine.gateway.loaded_after_scan()
            say(f"{_counts(said)}, and verified after {time.monotonic() - began:.1f} s", by=name)
            show_moves(name, before[name], after)
        self._dashboard.show_synced("filler", commit)

    def edit_by_hand(self, number: int) -> None:
        """What there is of the second act without a cluster: an edit is no way into git, and is put back."""
        act("Somebody edits a file on the packer by hand: it is found and put back", number)
        packer = self._machines["packer"]
        edited = packer.gateway.data_dir / "projects" / "packer" / VIEWS / "Overview" / "view.json"
        right = edited.read_bytes()
        edited.write_text('{"root": {}, "title": "Packer overview, edited by hand"}\n')
        said = packer.until("sync.done", commit=self.repository.tip().short, modified=1)
        if edited.read_bytes() != right:
            raise Stalled(f"{edited} was not put back")
        say(f"{_counts(said)}: {edited.relative_to(packer.gateway.data_dir)}", by="packer")
        say(stoker("verify", "--data-dir", str(packer.gateway.data_dir)), by="packer")
        say("with a cluster such an edit becomes a branch: stoker demo without --no-cluster")

    def break_one(self, number: int) -> None:
        act("A commit with a project that the filler cannot load: taken back by itself", number)
        gateway, began = self.filler.gateway, time.monotonic()
        before, at = _tree(gateway.data_dir), self.repository.tip()
        change = {f"{LINE_VIEW}/{name}": text for name, text in view("Line 1, with cleaning").items()}
        bad = self._commit({**change, CLEANING: "[]\n"}, "A project for cleaning")
        say("no project.json is a list; the gateway is asked twice, some seconds apart", by="filler")
        said = self.filler.until("sync.failed", reason=str(Reason.AUTO_ROLLBACK))
        if _tree(gateway.data_dir) != before or gateway.projects() != {"filler"}:
            raise Stalled("the filler is not what it was before the commit that was taken back")
        say(f"{said['reason']}: {said['error']}", by="filler")
        say(f"as it was at {at.short}, bit for bit, after {time.monotonic() - began:.0f} s", by="filler")
        reason = str(Reason.AUTO_ROLLBACK)
        self._dashboard.show_gateway("filler", reason, lambda one: one.reason == reason)
        good = self._commit({CLEANING: '{"title": "Cleaning", "enabled": true}\n'}, "A project is an object")
        said = self.filler.until("sync.done", commit=good.short)
        say(f"{_counts(said)}; {bad.short} is forgotten", by="filler")
        say(f"projects of the gateway: {', '.join(sorted(gateway.projects()))}", by="filler")
        self._dashboard.show_synced("filler", good)

    def _commit(self, files: Files, message: str) -> CommitId:
        commit = self.repository.commit(files, message=message, author="Dana <dana@example.net>")
        say(f"{commit.short} {message} (main)", by="git")
        return commit


def _counts(said: dict[str, Any]) -> str:
    """What a sync says that it changed."""
    told = ", ".join(f"{said[word]} {word}" for word in ("added", "modified", "deleted") if said.get(word))
    return f"{said['ref']} is at {said['commit']}: {told or 'nothing to do'}"


def _tree(data: Path) -> str:
    """A digest of every file that a sync manages."""
    files = sorted(path for place in MANAGED for path in (data / place).rglob("*") if path.is_file())
    listed = [
        (str(path), path.stat().st_mode, hashlib.sha256(path.read_bytes()).hexdigest()) for path in files
    ]
    return hashlib.sha256(json.dumps(listed).encode()).hexdigest()
