"""A reader's folder, which every environment has, and the environment without a cluster.

`docs/contributing/documentation.md` says what is on each stage. Git and all programs of ours
are real; the gateway is a test gateway.
"""

from __future__ import annotations

import os
import sys
from contextlib import ExitStack
from pathlib import Path

from stoker.git.auth.credentials import TOKEN_USER
from stoker_testkit.certificates import Authority
from stoker_testkit.docs_checks.markdown_page import ROOT
from stoker_testkit.gateway.simulated_gateway import KEY, SimulatedGateway
from stoker_testkit.repositories.bare_repository import Repository
from stoker_testkit.repositories.git_http_server import GitHttpServer
from stoker_testkit.repositories.sample_ignition_repository import plant
from stoker_testkit.secret_leaks.tracked_credentials import planted
from stoker_testkit.stoppable import Stoppable

TOKEN = planted("stage-token")
REPOSITORY = "https://git.example.net/plant/config.git"
"""As pages call the plant's."""
SHOWN = ("charts", "config", "deploy", "examples")
"""The files of the repository that the reader has."""
GITCONFIG = """[user]
    name = Reader
    email = reader@plant.example
[credential]
    helper = store
"""
PUSH = """#!/bin/sh
set -e
clone=$(mktemp -d)
git clone --quiet '{repository}' "$clone"
for gateway in filler packer; do
    printf '{{"title": "%s", "enabled": true, "description": "%s"}}\\n' "$gateway" "$clone" \\
        > "$clone/services/$gateway/projects/$gateway/project.json"
done
git -C "$clone" commit --quiet --all --message 'Describe both projects'
git -C "$clone" push --quiet
rm -rf "$clone"
"""
EDIT = """#!/bin/sh
for _ in $(seq 300); do  # the gateway may have been started a moment ago
    file=$(find '{root}' -path '*/projects/filler/project.json' -not -path '*/.sync-*' 2>/dev/null)
    [ -z "$file" ] || break
    sleep 0.2
done
echo '{{"title": "Edited by hand", "enabled": true}}' > "$file"
"""
"""The actions of other users, by the words of a mark `first`."""


class ReaderFolder:
    """A reader's own: a folder, a home, a PATH with the programs, git with the plant's repository."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.folder = folder / "here"
        self._etc = folder / "etc" / "stoker"
        self._bin = folder / "bin"
        home = folder / "home"
        for made in (self.folder, self._etc, self._bin, home):
            made.mkdir(parents=True)
        for name in SHOWN:
            (self.folder / name).symlink_to(ROOT / name)
        for name in ("stoker", "kubectl-stoker"):
            self.program(Path(sys.executable).parent / name)
        self.repository = Repository.create(folder / "repositories" / "plant" / "config.git")
        self.repository.commit(plant(), message="Line 1 as built")
        self.repository.git("tag", "v12")
        users = {TOKEN_USER: TOKEN}
        root = folder / "repositories"
        self._server = stack.enter_context(GitHttpServer.start(root, users=users, public=True))
        address = self._server.url("plant/config.git")
        (home / ".gitconfig").write_text(GITCONFIG)
        (home / ".git-credentials").write_text(address.replace("://", f"://{TOKEN_USER}:{TOKEN}@") + "\n")
        self.script("another-user-pushes", PUSH.format(repository=address))
        self.secret("token", TOKEN)
        self.secret("api-key", KEY)
        self.secret("secrets/git-credentials/token", TOKEN)
        self.secret("secrets/ignition-api-key/apiKey", KEY)
        self.names = {
            REPOSITORY: address,
            "/etc/stoker": str(self._etc),
        }
        kept = {name: text for name, text in os.environ.items() if not name.lower().endswith("_proxy")}
        path = f"{self._bin}{os.pathsep}{os.environ['PATH']}"
        self.environment = {**kept, "PATH": path, "HOME": str(home), "GIT_TERMINAL_PROMPT": "0"}
        for name in ("XDG_CACHE_HOME", "KUBECONFIG"):
            self.environment.pop(name, None)

    def program(self, path: Path) -> None:
        """Have a program on the PATH."""
        (self._bin / path.name).symlink_to(path)

    def script(self, name: str, text: str) -> None:
        """Have a program on the PATH that is made here."""
        (self._bin / name).write_text(text)
        (self._bin / name).chmod(0o700)

    def secret(self, name: str, text: str) -> None:
        path = self._etc / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o600)


class Standalone(Stoppable):
    """A machine with a gateway, and no cluster."""

    def __init__(self, folder: Path) -> None:
        self._stack = ExitStack()
        reader = ReaderFolder(folder, self._stack)
        pair = Authority().server().save(folder, "gateway")
        self.gateway = self._stack.enter_context(
            SimulatedGateway.start(folder / "data", tls=pair, scan_seconds=0.0)
        )
        reader.script("another-user-edits", EDIT.format(root=self.gateway.data_dir))
        port = self.gateway.url.rpartition(":")[2]
        self.folder, self.environment = reader.folder, reader.environment
        self.names = {
            **reader.names,
            "localhost:8043": f"https://localhost:{port}",  # 8043 means TLS; another port has to say so
            "port: 8043": f"port: {port}",
            "/var/lib/ignition/data": str(self.gateway.data_dir),
            "/mnt/git-mirror": str(folder / "git-mirror"),
        }

    def describe(self) -> str:
        return "\n".join(map(str, self.gateway.requests[-5:]))

    def stop(self) -> None:
        self._stack.close()
