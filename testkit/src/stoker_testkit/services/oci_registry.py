"""A real registry: distribution's, with its blobs in a folder, ready in a second.

    with Registry.start(folder) as registry:
        registry.push("plant", "v1", published.flux({"projects/a.json": "1"}))
        url = registry.url("plant")

It can want a password (the registry makes one up) or a token of a service of its own,
and speak TLS. Blobs are files below `registry.blobs`, so a test can look at what is
there and damage it.
"""

from __future__ import annotations

import base64
import json
import re
import ssl
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any, Literal, Self
from urllib.parse import urljoin

from stoker_testkit.assets import ensure_binaries as assets
from stoker_testkit.certificates import Authority
from stoker_testkit.processes import Process, on_free_ports
from stoker_testkit.secret_leaks.tracked_credentials import known
from stoker_testkit.services.oci_artifacts import PublishedArtifact
from stoker_testkit.services.registry_token_service import TokenService
from stoker_testkit.stoppable import Stoppable

READY_SECONDS = 30.0
Auth = Literal["none", "basic", "token"]


class Registry(Stoppable):
    """One running registry."""

    def __init__(self, folder: Path, auth: Auth, authority: Authority | None) -> None:
        self.blobs = folder / "storage/docker/registry/v2/blobs/sha256"
        self.username, self.password = "", ""
        self.host = ""
        self.log = folder / "registry.log"
        self.authority = authority
        self._folder = folder
        self._auth = auth
        self._tokens = TokenService.start(folder) if auth == "token" else None
        self._process: Process | None = None
        self._port = 0

    @classmethod
    def start(cls, folder: Path, *, auth: Auth = "none", authority: Authority | None = None) -> Self:
        """Start it in a folder and return when it answers; with an authority it speaks TLS."""
        folder.mkdir(parents=True, exist_ok=True)
        registry = cls(folder, auth, authority)
        try:
            on_free_ports(1, lambda ports: registry._start(ports[0]))
        except BaseException:
            registry.stop()
            raise
        return registry

    def stop(self) -> None:
        self.pause()
        if self._tokens is not None:
            self._tokens.stop()

    def pause(self) -> None:
        """Take it away; `resume` brings it back at the same address with all that it had."""
        if self._process is not None:
            self._process.stop()
            self._process = None

    def resume(self) -> None:
        self._start(self._port)

    def url(self, name: str) -> str:
        return f"oci://{self.host}/{name}" + ("" if self.authority is not None else "?plainHttp=true")

    def push(self, name: str, tag: str, artifact: PublishedArtifact) -> str:
        """Publish under a tag; the digest of the manifest, without `sha256:`."""
        for digest, content in artifact.blobs.items():
            status, headers, _ = self._ask("POST", f"/v2/{name}/blobs/uploads/", b"", name=name)
            assert status == 202, status  # noqa: S101 - a test's own part
            place = urljoin(f"{self._base}/", headers["Location"])
            join = "&" if "?" in place else "?"
            kind = {"Content-Type": "application/octet-stream"}
            status, _, body = self._ask("PUT", f"{place}{join}digest={digest}", content, kind, name=name)
            assert status == 201, body  # noqa: S101
        for inner in artifact.inner:
            self.push(name, inner.digest, inner)
        status, _, body = self._ask(
            "PUT",
            f"/v2/{name}/manifests/{tag}",
            artifact.manifest,
            {"Content-Type": artifact.media_type},
            name=name,
        )
        assert status == 201, body  # noqa: S101
        return artifact.digest.removeprefix("sha256:")

    def blob(self, digest: str) -> Path:
        """The path of a blob."""
        digest = digest.removeprefix("sha256:")
        return self.blobs / digest[:2] / digest / "data"

    def requests(self) -> list[str]:
        """The method and path of every request that was answered, in order."""
        return re.findall(r'"((?:GET|HEAD|PUT|POST) /v2/\S*) HTTP', self.log.read_text(errors="replace"))

    @property
    def _base(self) -> str:
        return f"{'http' if self.authority is None else 'https'}://{self.host}"

    def _start(self, port: int) -> None:
        self._port, self.host = port, f"127.0.0.1:{port}"
        config = self._folder / "config.json"
        config.write_text(json.dumps(self._config(port)))
        self._process = Process.start(
            "registry",
            [assets.registry(), "serve", config],
            log=self.log,
            env={"OTEL_TRACES_EXPORTER": "none"},
            cwd=self._folder,
        )
        self._process.wait_ready(self._answers, READY_SECONDS)
        if self._tokens is not None:
            self.username, self.password = self._tokens.username, self._tokens.password
        elif self._auth == "basic" and not self.password:
            self.username, self.password = "docker", _made_up(self.log.read_text(errors="replace"))

    def _config(self, port: int) -> dict[str, Any]:
        http: dict[str, Any] = {"addr": f"127.0.0.1:{port}", "secret": "of no worth"}
        if self.authority is not None:
            pair = self.authority.server().save(self._folder, "server")
            http["tls"] = {"certificate": str(pair.certificate), "key": str(pair.key)}
        config: dict[str, Any] = {
            "version": "0.1",
            "log": {"level": "info", "accesslog": {"disabled": False}},
            "storage": {
                "filesystem": {"rootdirectory": str(self._folder / "storage")},
                "delete": {"enabled": True},
            },
            "http": http,
        }
        if self._auth == "basic":
            config["auth"] = {"htpasswd": {"realm": "plant", "path": str(self._folder / "htpasswd")}}
        elif self._tokens is not None:
            config["auth"] = {"token": self._tokens.settings()}
        return config

    def _answers(self) -> bool:
        try:
            return self._ask("GET", "/v2/", None)[0] in (200, 401)
        except OSError:
            return False

    def _ask(
        self,
        method: str,
        path: str,
        body: bytes | None,
        headers: dict[str, str] | None = None,
        *,
        name: str = "",
    ) -> tuple[int, dict[str, str], bytes]:
        url = path if path.startswith("http") else f"{self._base}{path}"
        request = urllib.request.Request(url, body, headers or {}, method=method)  # noqa: S310 - our own
        if self._tokens is not None and name:
            request.add_header("Authorization", f"Bearer {self._tokens.token(name, ('pull', 'push'))}")
        elif self.password:
            both = base64.b64encode(f"{self.username}:{self.password}".encode()).decode()
            request.add_header("Authorization", f"Basic {both}")
        context = None
        if self.authority is not None:
            context = ssl.create_default_context(cadata=self.authority.pem.decode())
        try:
            with urllib.request.urlopen(request, timeout=10.0, context=context) as answer:  # noqa: S310
                return answer.status, dict(answer.headers), answer.read()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, dict(error.headers), error.read()


def _made_up(log: str) -> str:
    """The default password of the registry's only user."""
    found = re.search(r'password="?([A-Za-z0-9_=-]+)"?', log)
    assert found is not None, log  # noqa: S101
    return known("registry-password", found[1])
