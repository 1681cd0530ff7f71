"""A cluster with the operator in it, and `stoker doctor` that looks for what is wrong there.

The chart is installed by helm on a control plane of its own, because what is broken in it
is broken for the whole cluster; the programs run as processes of this machine, and the
agents of gateways are played.
"""

from __future__ import annotations

import json
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from stoker.cli.commands import cli
from stoker.cli.exit_codes import ExitCode
from stoker_testkit.chart.process_release import HOME, ProcessRelease
from stoker_testkit.cluster.cluster_access import ClusterAccess
from stoker_testkit.cluster.namespace_objects import condition_in, require
from stoker_testkit.environments.controller_environment import Site
from stoker_testkit.secret_leaks.tracked_credentials import planted
from stoker_testkit.wait_until import eventually

SECRET = planted("clinic-token")
HOOKS = "/apis/admissionregistration.k8s.io/v1/{}webhookconfigurations"
LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{HOME}/leases/stoker-controller-0"
_MERGE = "application/merge-patch+json"


@dataclass
class InstalledOperator:
    """A cluster with the operator in it."""

    cluster: ClusterAccess
    release: ProcessRelease

    def look(
        self, *more: str, user: str = "admin", kubeconfig: Path | None = None
    ) -> tuple[int, dict[str, Any]]:
        """Exit code, and the findings by their check."""
        place = kubeconfig or self.cluster.kubeconfig(user)
        done = CliRunner().invoke(cli, ["doctor", f"--kubeconfig={place}", "--output=json", *more])
        assert SECRET not in done.output
        document = json.loads(done.stdout)
        assert document["well"] is (done.exit_code == ExitCode.DONE), done.output
        return done.exit_code, {one["check"]: one for one in document["findings"]}

    def complaint(self, *more: str, code: int = ExitCode.UNVERIFIED, **how: Any) -> tuple[str, str, str, str]:
        """Check, reason, message and fix of the only problem."""
        ended, found = self.look(*more, **how)
        wrong = [one for one in found.values() if one["mark"] == "wrong"]
        assert len(wrong) == 1, found
        assert ended == code, found
        assert wrong[0]["fix"], "it says how to fix it"
        return wrong[0]["check"], wrong[0]["reason"], wrong[0]["message"], wrong[0]["fix"]

    def patch(self, path: str, body: object, kind: str = _MERGE) -> dict[str, Any]:
        return require(self.cluster.request("PATCH", path, body, content_type=kind), 200)

    def get(self, path: str) -> dict[str, Any]:
        return require(self.cluster.request("GET", path), 200)

    def until_led(self) -> None:
        eventually(lambda: self.get(LEASE)["spec"].get("holderIdentity"), 30.0, self.release.log_tail)

    @contextmanager
    def without(self, path: str) -> Iterator[None]:
        """The object is gone for a while."""
        before = self.get(path)
        require(self.cluster.request("DELETE", path), 200)
        try:
            yield
        finally:
            for field in ("resourceVersion", "uid", "managedFields"):
                before["metadata"].pop(field, None)
            require(self.cluster.request("POST", path.rpartition("/")[0], before), 201)

    @contextmanager
    def extra_webhook(self, config: dict[str, Any], *, about: str = "") -> Iterator[str]:
        """A configuration of ours that leads elsewhere; it must be asked about one namespace, or never is."""
        kind = "mutating" if about else "validating"  # the former are asked first
        chosen = {"kubernetes.io/metadata.name": about} if about else {"nobody": "is-asked"}
        body = {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": f"{kind.capitalize()}WebhookConfiguration",
            "metadata": {"name": "stoker-extra"},
            "webhooks": [
                {
                    "name": "extra.stoker.io",
                    "admissionReviewVersions": ["v1"],
                    "sideEffects": "None",
                    "failurePolicy": "Fail" if about else "Ignore",
                    "clientConfig": config,
                    "namespaceSelector": {"matchLabels": chosen},
                    "rules": [
                        {
                            "operations": ["CREATE"],
                            "apiGroups": ["stoker.io"],
                            "apiVersions": ["*"],
                            "resources": ["*"],
                        }
                    ],
                }
            ],
        }
        require(self.cluster.request("POST", HOOKS.format(kind), body), 201)
        try:
            yield f"extra.stoker.io of {kind.capitalize()}WebhookConfiguration stoker-extra"
        finally:
            self.cluster.request("DELETE", f"{HOOKS.format(kind)}/stoker-extra")


@dataclass
class ResourceSite(Site):
    """A namespace with one resource, its Secrets, and a gateway whose agent is played."""

    installed: InstalledOperator = field(kw_only=True)

    def look(self, *more: str, **how: Any) -> tuple[int, dict[str, Any]]:
        return self.installed.look(f"--namespace={self.namespace}", "line-1", *more, **how)

    def complaint(self, *more: str, **how: Any) -> tuple[str, str, str, str]:
        return self.installed.complaint(f"--namespace={self.namespace}", "line-1", *more, **how)

    def replace_secret(self, name: str, **data: str) -> None:
        self.delete("Secret", name)
        self.secret(name, **data)

    def ready(self) -> str:
        return condition_in(self.status("Stoker", "line-1"), "Ready")[0]


@contextmanager
def serving(certificate: Path, key: Path) -> Iterator[int]:
    """A port that shows this certificate and says nothing."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with _listening(lambda connection: context.wrap_socket(connection, server_side=True).close()) as port:
        yield port


@contextmanager
def answering(body: str) -> Iterator[str]:
    """A port that answers every request with this JSON."""

    def answer(connection: socket.socket) -> None:
        connection.recv(65536)
        head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
        connection.sendall(f"{head}\r\nConnection: close\r\n\r\n{body}".encode())

    with _listening(answer) as port:
        yield f"http://127.0.0.1:{port}"


@contextmanager
def _listening(serve: Callable[[socket.socket], object]) -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(0.05)
        over = threading.Event()

        def run() -> None:
            while not over.is_set():
                try:
                    connection, _ = listener.accept()
                except TimeoutError:
                    continue
                with connection:
                    connection.settimeout(5)
                    try:
                        serve(connection)
                    except OSError:
                        continue  # a client that does not like the certificate hangs up

        thread = threading.Thread(target=run)
        thread.start()
        try:
            yield listener.getsockname()[1]
        finally:
            over.set()
            thread.join()
