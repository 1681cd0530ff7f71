"""A real Kubernetes control plane on this machine: etcd and kube-apiserver, ready in seconds.

Tests and the demo talk to the real API with the real authorizer (RBAC), never to
an imitation. A few users exist from the start, each with its own token and no
rights of its own but for `admin`, so that roles and author capture are tested
with real identities. Everything that a run writes is in one folder.

Without `controller_manager=True` nothing deletes namespaces, collects garbage by
owner reference or makes service accounts; the ServiceAccount admission plug-in
is off then, because with it no pod could be made. There are no nodes: pods stay
pending, unless a test starts a kubelet. For a real one the API server is given the
`address` under which pods and the node reach it (`stoker_testkit.node`).
"""

from __future__ import annotations

import secrets
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from stoker.domain.errors import Misconfigured
from stoker_testkit.assets import ensure_binaries as assets
from stoker_testkit.certificates import LOCAL_NAMES, Authority, private_pem, write_private
from stoker_testkit.cluster.cluster_access import ClusterAccess
from stoker_testkit.processes import GRACE_SECONDS, PortTaken, Process, on_free_ports
from stoker_testkit.secret_leaks.tracked_credentials import known
from stoker_testkit.stoppable import Stoppable

USERS: Mapping[str, Sequence[str]] = {
    "admin": ("system:masters",),
    "alice": ("developers",),
    "bob": ("developers",),
    "carol": ("operators",),
    "dave": (),
}
"""The users of every control plane and their groups; only `admin` may do anything by itself."""

CONTROLLER_MANAGER_USER = "system:kube-controller-manager"
NODE_USERS = ("system:kube-scheduler", "system:kube-proxy")
"""The other components of a cluster that runs pods; they have the API server's own roles."""
SERVICES = "10.96.0.0/16"
SERVICE_NAMES = ("10.96.0.1", "kubernetes", "kubernetes.default", "kubernetes.default.svc")
"""The names under which pods know the API server: the first address of the range, and its Service."""
READY_SECONDS = 60.0
ISSUER = "https://kubernetes.default.svc"


class ControlPlane(ClusterAccess, Stoppable):
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
        address: str,
    ) -> None:
        everybody = (*users, CONTROLLER_MANAGER_USER, *NODE_USERS)
        tokens = {user: known(f"token of {user}", secrets.token_urlsafe(24)) for user in everybody}
        super().__init__(folder, url="", tokens=tokens, binaries=binaries)
        self._controller_manager = controller_manager
        self._address = address
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
        address: str = "",
    ) -> Self:
        """Start one in an empty folder (a temporary one unless given) and return when it is ready.

        With an `address` of this machine it is also reached there, by nodes and their pods.
        """
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
            address=address,
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
        if "kube-apiserver" in self._processes:
            self.keep_objects()
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
        names = (*LOCAL_NAMES, self._address, *SERVICE_NAMES) if self._address else LOCAL_NAMES
        authority.server(names).save(self.folder, "apiserver")
        authority.client("kube-apiserver", ["system:masters"]).save(self.folder, "kubelet-client")
        write_private(self.folder / "service-accounts.key", private_pem())
        groups = {user: ",".join(users.get(user, ())) for user in self.tokens}
        lines = (f'{token},{user},{user},"{groups[user]}"\n' for user, token in self.tokens.items())
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
            *self._reached(),
            f"--tls-cert-file={self.folder / 'apiserver.crt'}",
            f"--tls-private-key-file={self.folder / 'apiserver.key'}",
            f"--client-ca-file={self.ca_file}",
            f"--token-auth-file={self.folder / 'tokens.csv'}",
            f"--service-account-issuer={ISSUER}",
            f"--service-account-key-file={self.folder / 'service-accounts.key'}",
            f"--service-account-signing-key-file={self.folder / 'service-accounts.key'}",
            f"--service-cluster-ip-range={SERVICES}",
            "--allow-privileged=true",
            *(() if self._controller_manager else ("--disable-admission-plugins=ServiceAccount",)),
            *self._flags,
        )
        server.wait_ready(lambda: self._answers("/readyz"), READY_SECONDS)

    def _reached(self) -> tuple[str, ...]:
        """Its address: for this machine alone, or for nodes and pods as well."""
        if not self._address:
            return (
                "--bind-address=127.0.0.1",
                "--advertise-address=127.0.0.1",
                "--authorization-mode=RBAC",
                "--endpoint-reconciler-type=none",
            )
        return (
            "--bind-address=0.0.0.0",
            f"--advertise-address={self._address}",
            "--authorization-mode=Node,RBAC",
            "--kubelet-preferred-address-types=InternalIP",
            f"--kubelet-client-certificate={self.folder / 'kubelet-client.crt'}",
            f"--kubelet-client-key={self.folder / 'kubelet-client.key'}",
        )

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
