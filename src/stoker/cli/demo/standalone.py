"""The first part of the demo: a repository, and two gateways that follow it without a cluster."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from pathlib import Path

from stoker.cli.demo.gateways import GatewayProcess
from stoker.cli.demo.stage import act, say, show_command, stoker
from stoker.domain.errors import Stalled
from stoker.git.opening.access import TOKEN_USER
from stoker.testing.repositories.bare import Repository
from stoker.testing.repositories.git_http import GitHttpServer
from stoker.testing.sites.plant import GATEWAYS, VIEWS, mappings, plant, view

TOKEN = "demo-token"  # noqa: S105 - it opens a server that lives as long as the demo
KEY = "demo:key"
DRIFTED = 10
SCRIPT = "shared/scripts/line/code.py"


class Standalone:
    """A repository, and two gateways whose data folders are kept at it."""

    def __init__(self, folder: Path, stage: ExitStack) -> None:
        self.folder = folder
        self._stage = stage
        self.repository = Repository.create(folder / "repositories" / "plant.git")
        self.url = ""
        self._gateways: dict[str, GatewayProcess] = {}

    def open_repository(self) -> None:
        act("A repository of a bottling plant, served over HTTP to whoever has the token")
        self.repository.commit(plant(), message="Line 1 as built")
        root = self.repository.path.parent
        server = self._stage.enter_context(GitHttpServer.start(root, users={TOKEN_USER: TOKEN}))
        self.url = server.url("plant.git")
        (self.folder / "token").write_text(TOKEN)
        say(f"{self.url}, branch main at {self.repository.tip().short}, {len(plant())} files")
        say("two gateways, scripts and UDTs that they share, an overlay for production")

    def start_gateways(self) -> None:
        act("Two test gateways start on empty folders")
        key = self.folder / "api-key"
        key.write_text(KEY)
        for name in GATEWAYS:
            gateway = GatewayProcess(name, self.folder / name)
            self._stage.enter_context(gateway.start(sys.executable, key, self.folder / f"{name}.log"))
            self._gateways[name] = gateway
        for name, gateway in self._gateways.items():
            say(f"{gateway.address()} with {len(gateway.loaded())} resources", by=name)

    def sync_both(self) -> None:
        act("stoker sync brings both to that commit: lock, write, scan, verify")
        show_command(["stoker", "sync", *self._wanted("filler"), *self._reached("filler")], self.folder)
        for name in self._gateways:
            self._sync(name)

    def follow_a_change(self) -> None:
        act("A commit changes a shared script and replaces a view; stoker plan --diff shows it first")
        views, change = f"services/filler/projects/filler/{VIEWS}", dict[str, str | None]()
        for name, text in view("Line 1").items():
            change |= {f"{views}/Line/{name}": text, f"{views}/Overview/{name}": None}
        change[SCRIPT] = plant()[SCRIPT].replace(
            "count * 3600 / seconds", "0 if not seconds else count * 3600 / seconds"
        )
        self.repository.commit(change, message="One view for the whole line")
        planned = stoker("plan", "--diff", *self._wanted("packer"))
        say(planned, by="packer")
        act("stoker sync moves what the plan named, and a second run finds nothing to do")
        for name in self._gateways:
            self._sync(name)
        say(stoker("sync", *self._wanted("filler"), *self._reached("filler")), by="filler")

    def mend_what_was_broken(self) -> None:
        act("Somebody edits a file on the packer by hand; stoker verify finds it, stoker sync mends it")
        data = self._gateways["packer"].data_dir
        broken = data / "projects" / "packer" / VIEWS / "Overview" / "view.json"
        right = broken.read_bytes()
        broken.write_text('{"root": {}, "title": "Packer overview, edited by hand"}\n')
        say(stoker("verify", "--data-dir", str(data), ends=DRIFTED), by="packer")
        say(f"stoker verify ended with exit code {DRIFTED}", by="packer")
        self._sync("packer")
        if broken.read_bytes() != right:
            raise Stalled(f"{broken} was not mended")
        say(stoker("verify", "--data-dir", str(data)), by="packer")

    def _sync(self, name: str) -> None:
        """One run of `stoker sync`, and what the gateway makes of it after its scan."""
        gateway = self._gateways[name]
        before = gateway.loaded()
        said = stoker("sync", *self._wanted(name), *self._reached(name))
        say(said.strip().splitlines()[-1], by=name)
        after = gateway.loaded_after_scan()
        for path in sorted(before.keys() | after.keys()):
            if before.get(path) != after.get(path):
                say(f"gateway {_moved(before.get(path), after.get(path))} {path}", by=name)

    def _wanted(self, name: str) -> list[str]:
        arguments = ["--repo", self.url, "--ref", "main", "--token-file", str(self.folder / "token")]
        arguments += ["--data-dir", str(self._gateways[name].data_dir)]
        arguments += ["--cache-dir", str(self.folder / "cache")]
        for source, destination in mappings(name):
            arguments += ["--map", f"{source}:{destination}"]
        return arguments

    def _reached(self, name: str) -> list[str]:
        return ["--gateway", self._gateways[name].address(), "--api-key-file", str(self.folder / "api-key")]


def _moved(before: str | None, after: str | None) -> str:
    if after is None:
        return "dropped"
    return "loaded" if before is None else "reloaded"
