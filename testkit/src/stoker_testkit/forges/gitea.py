"""A real forge: Gitea with one user, in a folder of its own, ready in seconds.

    with Gitea.start(folder) as forge:
        repository = forge.create_repository("plant")
        repository.hook("http://127.0.0.1:8443/webhook/site1/plant", secret="…", events=["push"])
        repository.commit("README.md", b"hello\\n")

Its API, its webhooks with their signatures, its git server over HTTP, protected
branches and pull requests are the real ones; `request` reaches whatever has no method
here. The web pages are not there (`stoker_testkit.assets.gitea_build`).
"""

from __future__ import annotations

import base64
import getpass
import json
import os
import secrets
import subprocess
import tempfile
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from stoker.domain.errors import StokerError
from stoker_testkit.assets import gitea_build
from stoker_testkit.certificates import write_private
from stoker_testkit.processes import Process, on_free_ports
from stoker_testkit.secret_leaks.tracked_credentials import known
from stoker_testkit.stoppable import Stoppable

READY_SECONDS = 60.0
REQUEST_SECONDS = 30.0
USER = "ada"


class GiteaRefused(StokerError):
    """The forge refused the request; the message has its answer."""


class GiteaServer(Stoppable):
    """One running forge."""

    def __init__(self, folder: Path, binary: Path, static: Path) -> None:
        self.folder = folder
        self.url = ""
        self.user = USER
        self.password = secrets.token_urlsafe(16)
        self.token = ""
        self._binary = binary
        self._static = static
        self._process: Process | None = None

    @classmethod
    def start(cls, folder: Path) -> Self:
        """Start it in an empty folder and return when it answers."""
        made = gitea_build.ensure()
        folder.mkdir(parents=True, exist_ok=True)
        forge = cls(folder, made / gitea_build.BINARY, made)
        try:
            on_free_ports(1, forge._start)
            forge._make_user()
        except BaseException:
            forge.stop()
            raise
        return forge

    def stop(self) -> None:
        if self._process is not None:
            self._process.stop()
            self._process = None

    def request(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """Ask the API (`/api/v1` is put before the path) as the user; what it says, or GiteaRefused."""
        asked = urllib.request.Request(  # noqa: S310 - the address is our own
            f"{self.url}/api/v1{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json", "Authorization": f"token {self.token}"},
        )
        try:
            with urllib.request.urlopen(asked, timeout=REQUEST_SECONDS) as answer:  # noqa: S310 - see above
                response = answer.read()
        except urllib.error.HTTPError as error:
            with error:
                words = error.read().decode(errors="replace")
            raise GiteaRefused(f"{method} {path}: {error.code} {words}") from None
        return json.loads(response) if response else None

    def create_repository(self, name: str) -> GiteaRepository:
        """A repository of the user with one commit on `main`."""
        self.request("POST", "/user/repos", {"name": name, "auto_init": True, "default_branch": "main"})
        return GiteaRepository(self, name)

    def _start(self, ports: list[int]) -> None:
        self.url = f"http://127.0.0.1:{ports[0]}"
        write_private(self.folder / "app.ini", self._settings(ports[0]).encode())
        self._process = Process.start(
            "gitea",
            [self._binary, "--config", self.folder / "app.ini", "web"],
            log=self.folder / "gitea.log",
            env=self._environment(),
            cwd=self.folder,
        )
        self._process.wait_ready(self._answers, READY_SECONDS)

    def _settings(self, port: int) -> str:
        return f"""\
RUN_USER = {getpass.getuser()}
RUN_MODE = prod
WORK_PATH = {self.folder}
I_AM_BEING_UNSAFE_RUNNING_AS_ROOT = true
[server]
PROTOCOL = http
HTTP_ADDR = 127.0.0.1
HTTP_PORT = {port}
ROOT_URL = {self.url}/
STATIC_ROOT_PATH = {self._static}
DISABLE_SSH = true
OFFLINE_MODE = true
[database]
DB_TYPE = sqlite3
PATH = {self.folder / "gitea.db"}
[security]
INSTALL_LOCK = true
[webhook]
ALLOWED_HOST_LIST = loopback
[service]
DISABLE_REGISTRATION = true
[log]
LEVEL = Warn
"""

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/api/healthz", timeout=2.0) as answer:  # noqa: S310
                return bool(answer.status == 200)
        except OSError:
            return False

    def _make_user(self) -> None:
        self._admin(
            "user",
            "create",
            "--admin",
            "--must-change-password=false",
            f"--username={self.user}",
            f"--email={self.user}@example.com",
            f"--password={self.password}",
        )
        made = self._admin(
            "user", "generate-access-token", f"--username={self.user}", "--scopes=all", "--raw"
        )
        self.token = known("gitea-token", made.strip().splitlines()[-1])

    def _admin(self, *arguments: str) -> str:
        done = subprocess.run(
            [self._binary, "--config", self.folder / "app.ini", "admin", *arguments],
            env=self._environment(),
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
            timeout=REQUEST_SECONDS,
        )
        if done.returncode:
            raise GiteaRefused(f"gitea admin {' '.join(arguments[:2])}: {done.stderr.strip()}")
        return done.stdout

    def _environment(self) -> dict[str, str]:
        return {"PATH": os.environ["PATH"], "HOME": str(self.folder), "TMPDIR": tempfile.gettempdir()}


@dataclass(frozen=True, slots=True)
class GiteaRepository:
    """One repository of the forge's user."""

    forge: GiteaServer
    name: str

    @property
    def clone_url(self) -> str:
        return f"{self.forge.url}/{self.forge.user}/{self.name}.git"

    def request(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        return self.forge.request(method, f"/repos/{self.forge.user}/{self.name}{path}", body)

    def hook(self, url: str, *, events: Sequence[str], secret: str = "", authorization: str = "") -> int:
        """Have `url` called on these events; its number."""
        body = {
            "type": "gitea",
            "active": True,
            "config": {"url": url, "content_type": "json", "secret": secret},
            "events": list(events),
            "authorization_header": authorization,
        }
        return int(self.request("POST", "/hooks", body)["id"])

    def commit(self, path: str, content: bytes, *, branch: str = "main", new_branch: str = "") -> str:
        """Add a file on a branch, or on a new one beside it; the commit's id."""
        body = {"content": base64.b64encode(content).decode(), "message": f"Add {path}", "branch": branch}
        response = self.request(
            "POST", f"/contents/{path}", body | ({"new_branch": new_branch} if new_branch else {})
        )
        return str(response["commit"]["sha"])

    def tag(self, name: str, target: str = "main") -> None:
        self.request("POST", "/tags", {"tag_name": name, "target": target})

    def release(self, tag: str, *, draft: bool = False, prerelease: bool = False) -> int:
        """Publish a release, which makes its tag; its number."""
        body = {"tag_name": tag, "target_commitish": "main", "name": tag}
        return int(self.request("POST", "/releases", body | {"draft": draft, "prerelease": prerelease})["id"])
