"""A real Kubernetes control plane on this machine: etcd and kube-apiserver, ready in seconds.

Tests and the demo talk to the real API with the real authorizer (RBAC), never to
an imitation. A few users exist from the start, each with its own token and no
rights of its own but for `admin`, so that roles and author capture are tested
with real identities. Everything that a run writes lies in one folder.

Without `controller_manager=True` nothing deletes namespaces, collects garbage by
owner reference or makes service accounts; the ServiceAccount admission plug-in
is off then, because with it no pod could be made. There are no nodes: pods stay
pending.
"""

from __future__ import annotations

import secrets
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from stoker.domain.errors import Misconfigured
from stoker.testing import assets
from stoker.testing.certificates import Authority, private_pem, write_private
from stoker.testing.cluster_access import ClusterAccess
from stoker.testing.processes import GRACE_SECONDS, PortTaken, Process, on_free_ports
from stoker.testing.stopping import Stopped

USERS: Mapping[str, Sequence[str]] = {
    "admin": ("system:masters",),
    "alice": ("developers",),
    "bob": ("developers",),
    "carol": ("operators",),
    "dave": (),
}
"""The users of every control plane and their groups; only `admin` may do anything by itself."""

CONTROLLER_MANAGER_USER = "system:kube-controller-manager"
READY_SECONDS = 60.0
ISSUER = "https://kubernetes.default.svc"


class ControlPlane(ClusterAccess, Stopped):
    """A control plane that this process started and will stop.

    `with ControlPlane.start(folder) as plane: …`, or `start` and `stop` by hand.
    """

    def __init__(
        self,
        folder: Path,
        binaries: Path,
        *,
        controller_manager: bool,
        users: Mapping[str, Sequence[str]],
        apiserver_flags: Sequence[str],
    ) -> None:
        tokens = {user: secrets.token_urlsafe(24) for user in (*users, CONTROLLER_MANAGER_USER)}
        super().__init__(folder, url="", tokens=tokens, binaries=binaries)
        self._controller_manager = controller_manager
        self._flags = tuple(apiserver_flags)
        self._ports: list[int] = []
        self._processes: dict[str, Process] = {}
        self._is_temporary = False
        self._write_credentials(users)

    @classmethod
    def start(
        cls,
        folder: Path | None = None,
        *,
        controller_manager: bool = False,
        users: Mapping[str, Sequence[str]] = USERS,
        apiserver_flags: Sequence[str] = (),
    ) -> Self:
        """Start one in an empty folder (a temporary one unless given) and return when it is ready."""
        binaries = assets.ensure(assets.ALL if controller_manager else assets.CONTROL_PLANE)
        home = folder if folder is not None else Path(tempfile.mkdtemp(prefix="stoker-control-plane-"))
        home.mkdir(parents=True, exist_ok=True)
        if any(home.iterdir()):
            raise Misconfigured(f"{home} is not empty; a control plane needs a folder of its own")
        plane = cls(
            home,
            binaries,
            controller_manager=controller_manager,
            users=users,
            apiserver_flags=apiserver_flags,
        )
        plane._is_temporary = folder is None
        try:
            on_free_ports(4, plane._start_all)
        except BaseException:
            plane.stop()
            raise
        plane.save()
        return plane

    def stop(self) -> None:
        """End all servers, last started first; a temporary folder goes with them."""
        self._end_all(GRACE_SECONDS)
        if self._is_temporary:
            shutil.rmtree(self.folder, ignore_errors=True)

    def stop_apiserver(self) -> None:
        """Take the API server away, as an upgrade or a crash does; etcd keeps the objects."""
        self._processes.pop("kube-apiserver").stop()

    def start_apiserver(self) -> None:
        """Bring it back at the same address."""
        self._start_apiserver()

    def restart_apiserver(self, *, flags: Sequence[str] | None = None) -> None:
        """Restart it at the same address, with other extra flags if given."""
        self.stop_apiserver()
        if flags is not None:
            self._flags = tuple(flags)
        self._start_apiserver()

    def _write_credentials(self, users: Mapping[str, Sequence[str]]) -> None:
        authority = Authority("stoker control plane")
        authority.save(self.folder)
        authority.server().save(self.folder, "apiserver")
        write_private(self.folder / "service-accounts.key", private_pem())
        groups = {**users, CONTROLLER_MANAGER_USER: ()}
        lines = (f'{token},{user},{user},"{",".join(groups[user])}"\n' for user, token in self.tokens.items())
        write_private(self.folder / "tokens.csv", "".join(lines).encode())

    def _start_all(self, ports: list[int]) -> None:
        self._ports = ports
        self.url = f"https://127.0.0.1:{ports[2]}"
        try:
            self._start_etcd()
            self._start_apiserver()
            if self._controller_manager:
                self._start_controller_manager()
        except PortTaken:
            self._end_all(grace=0)
            shutil.rmtree(self.folder / "etcd", ignore_errors=True)
            raise

    def _end_all(self, grace: float) -> None:
        while self._processes:
            self._processes.popitem()[1].stop(grace)

    def _start_etcd(self) -> None:
        client, peer = (f"http://127.0.0.1:{port}" for port in self._ports[:2])
        self._run(
            "etcd",
            f"--data-dir={self.folder / 'etcd'}",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
            "--unsafe-no-fsync",
        )

    def _start_apiserver(self) -> None:
        server = self._run(
            "kube-apiserver",
            f"--etcd-servers=http://127.0.0.1:{self._ports[0]}",
            f"--secure-port={self._ports[2]}",
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            f"--tls-cert-file={self.folder / 'apiserver.crt'}",
            f"--tls-private-key-file={self.folder / 'apiserver.key'}",
            f"--client-ca-file={self.ca_file}",
            f"--token-auth-file={self.folder / 'tokens.csv'}",
            f"--service-account-issuer={ISSUER}",
            f"--service-account-key-file={self.folder / 'service-accounts.key'}",
            f"--service-account-signing-key-file={self.folder / 'service-accounts.key'}",
            "--authorization-mode=RBAC",
            "--service-cluster-ip-range=10.96.0.0/16",
            "--allow-privileged=true",
            "--endpoint-reconciler-type=none",
            *(() if self._controller_manager else ("--disable-admission-plugins=ServiceAccount",)),
            *self._flags,
        )
        server.wait_ready(lambda: self._answers("/readyz"), READY_SECONDS)

    def _start_controller_manager(self) -> None:
        manager = self._run(
            "kube-controller-manager",
            f"--kubeconfig={self.kubeconfig(CONTROLLER_MANAGER_USER)}",
            f"--service-account-private-key-file={self.folder / 'service-accounts.key'}",
            f"--root-ca-file={self.ca_file}",
            f"--tls-cert-file={self.folder / 'apiserver.crt'}",
            f"--tls-private-key-file={self.folder / 'apiserver.key'}",
            f"--secure-port={self._ports[3]}",
            "--bind-address=127.0.0.1",
            "--use-service-account-credentials",
            "--leader-elect=false",
        )
        # It works once it has made what it makes for every namespace.
        account = "/api/v1/namespaces/default/serviceaccounts/default"
        manager.wait_ready(lambda: self._answers(account), READY_SECONDS)

    def _run(self, name: str, *flags: str) -> Process:
        log = self.folder / f"{name}.log"
        process = Process.start(name, [self.binaries / name, *flags], log=log, cwd=self.folder)
        self._processes[name] = process
        return process

    def _answers(self, path: str) -> bool:
        for process in self._processes.values():  # without etcd the API server would never be ready
            process.check()
        try:
            return self.request("GET", path, timeout=2.0).status == 200
        except OSError:
            return False
