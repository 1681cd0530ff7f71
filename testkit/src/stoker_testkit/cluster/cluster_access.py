"""Access to a running control plane: its address, its users and their credentials.

`ControlPlane` writes one of these when it is up; other processes (the workers of
a test run, a demo's second terminal) load it from the same folder and use the
same cluster. It starts and stops nothing. A user is named, never a token: the
files that `kubeconfig` writes are what `kubectl` and the product read.
"""

from __future__ import annotations

import base64
import json
import ssl
import subprocess
import tempfile
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from stoker.domain.errors import InvalidValue, StokerError
from stoker_testkit.certificates import Authority, KeyPair, write_private
from stoker_testkit.secret_leaks.captured_output import keep_objects
from stoker_testkit.secret_leaks.tracked_credentials import known

STATE_FILE = "control-plane.json"
REQUEST_SECONDS = 30.0
COMMAND_SECONDS = 240.0


@dataclass(frozen=True, slots=True)
class ApiAnswer:
    """The API server's response to one plain request."""

    status: int
    body: bytes
    warnings: tuple[str, ...] = ()
    """Warnings of the server, such as a deprecated version."""

    def json(self) -> object:
        return json.loads(self.body)


class CommandFailed(StokerError):
    """A command that had to succeed did not; the message holds what it printed."""


@dataclass
class ClusterAccess:
    """One control plane as its users see it."""

    folder: Path
    url: str
    tokens: dict[str, str] = field(repr=False)
    binaries: Path

    @classmethod
    def load(cls, folder: Path) -> ClusterAccess:
        """The control plane whose state is kept in `folder`."""
        return msgspec.json.decode(
            (folder / STATE_FILE).read_bytes(), type=cls, dec_hook=lambda kind, value: kind(value)
        )

    def save(self) -> None:
        write_private(self.folder / STATE_FILE, msgspec.json.encode(self, enc_hook=str))

    @property
    def ca_file(self) -> Path:
        """The certificate of the authority that signed the API server's."""
        return self.folder / "ca.crt"

    @property
    def authority(self) -> Authority:
        """Signs whatever else is needed: a client's certificate, that of a proxy in front."""
        return Authority.load(KeyPair(self.ca_file, self.folder / "ca.key"))

    def token(self, user: str) -> str:
        """The bearer token of one of the users that the control plane was started with."""
        if user not in self.tokens:
            raise InvalidValue(f"the control plane was started without a user {user!r}")
        return self.tokens[user]

    def kubeconfig(self, user: str = "admin", *, namespace: str = "default", server: str = "") -> Path:
        """A kubeconfig file for a user; `server` replaces the address, for a proxy in front."""
        return self._write_kubeconfig(user, {"token": self.token(user)}, namespace, server)

    def service_account_kubeconfig(self, namespace: str, name: str) -> Path:
        """A kubeconfig with a real token of an existing service account, as a pod would hold."""
        account = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        answer = self.request("POST", account, request)
        if answer.status != 201:
            raise CommandFailed(f"no token for service account {namespace}/{name}: {answer.body.decode()}")
        token = known("account-token", str(msgspec.json.decode(answer.body)["status"]["token"]))
        return self._write_kubeconfig(f"serviceaccount-{namespace}-{name}", {"token": token}, namespace)

    def certificate_kubeconfig(self, user: str, pair: KeyPair, *, namespace: str = "default") -> Path:
        """A kubeconfig for a user that a client certificate names (see `authority`)."""
        credentials = {
            "client-certificate-data": _base64(pair.certificate),
            "client-key-data": _base64(pair.key),
        }
        return self._write_kubeconfig(f"certificate-{user}", credentials, namespace)

    def kubectl(
        self, *args: str, user: str = "admin", stdin: str | None = None, check: bool = True
    ) -> subprocess.CompletedProcess[str]:
        """Run the real kubectl as a user; a failure raises with its words unless `check` is off."""
        done = subprocess.run(
            [
                self.binaries / "kubectl",
                f"--kubeconfig={self.kubeconfig(user)}",
                f"--cache-dir={self.folder / 'kubectl-cache'}",
                *args,
            ],
            input=stdin,
            text=True,
            capture_output=True,
            check=False,
            timeout=COMMAND_SECONDS,
        )
        if check and done.returncode:
            raise CommandFailed(f"kubectl {' '.join(args)} as {user}: {done.stderr.strip()}")
        return done

    def request(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        user: str = "admin",
        timeout: float = REQUEST_SECONDS,
        content_type: str = "application/json",
    ) -> ApiAnswer:
        """One plain request, past every client of ours; any status is an answer, not an error."""
        request = urllib.request.Request(  # noqa: S310 - the address is our own server's
            self.url + path,
            method=method,
            data=None if body is None else msgspec.json.encode(body),
            headers={"Authorization": f"Bearer {self.token(user)}", "Content-Type": content_type},
        )
        trust = urllib.request.HTTPSHandler(context=ssl.create_default_context(cafile=str(self.ca_file)))
        # A proxy that the environment names for the wide world knows no server on this machine.
        opener = urllib.request.build_opener(trust, urllib.request.ProxyHandler({}))
        try:
            with opener.open(request, timeout=timeout) as answer:
                return ApiAnswer(answer.status, answer.read(), tuple(answer.headers.get_all("Warning") or ()))
        except urllib.error.HTTPError as error:
            with error:
                return ApiAnswer(error.code, error.read())

    def keep_objects(self) -> None:
        """Have what is in it now looked through when the run of tests is over, should it go before."""
        if "admin" in self.tokens:
            keep_objects(self.url, self.tokens["admin"], self.ca_file)

    def create_namespace(self, name: str) -> None:
        """Make a namespace as admin."""
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        answer = self.request("POST", "/api/v1/namespaces", body)
        if answer.status != 201:
            raise CommandFailed(f"cannot create namespace {name}: {answer.body.decode()}")

    def _write_kubeconfig(
        self, user: str, credentials: dict[str, str], namespace: str, server: str = ""
    ) -> Path:
        address = server or self.url
        name = "-".join(("kubeconfig", user, namespace, urlsplit(address).netloc)).replace(":", "-")
        path = self.folder / name
        cluster = {"server": address, "certificate-authority-data": _base64(self.ca_file)}
        context = {"cluster": "stoker", "user": user, "namespace": namespace}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "stoker",
            "clusters": [{"name": "stoker", "cluster": cluster}],
            "users": [{"name": user, "user": credentials}],
            "contexts": [{"name": "stoker", "context": context}],
        }
        # Many tests ask for the same file at once; a reader must never find half of one.
        with tempfile.NamedTemporaryFile(prefix=f"{name}.", dir=self.folder, delete=False) as file:
            file.write(msgspec.json.encode(config))
        return Path(file.name).rename(path)


def _base64(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()
