"""Two replicas of a reverser on one cluster, each behind a network of its own that can be broken.

    replica 0 ── network ──┐                         ┌── git, behind a network, too
                           ├── API server ── door ── one of the replicas: who is asked about authors
    replica 1 ── network ──┘

A network passes bytes on; where answers are to be broken as well, it leads through a
second proxy for a while. The door takes the place of the Service in front of the webhook.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from stoker.reverser.authors.admission import PATH
from stoker_testkit.certificates import KeyPair
from stoker_testkit.cluster.cluster_access import ClusterAccess
from stoker_testkit.faults.http_fault_proxy import HttpFaultProxy
from stoker_testkit.faults.stream_faults import Fault, FaultKind
from stoker_testkit.faults.tcp_fault_proxy import FaultProxy
from stoker_testkit.processes import free_ports
from stoker_testkit.reverser.author_webhook_manifest import without_rules
from stoker_testkit.reverser.fork_server import Replica, ReverserForkServer
from stoker_testkit.stoppable import Stoppable

SIZE = 2
HOME = "reverser-home"
CONFIGURATION = "reverser-authors"
FLAGS = (
    "--qps=1000",
    "--burst=1000",
    "--lease-duration=2s",
    "--lease-renew=600ms",
    "--branch-refresh=1s",
    "--drain-seconds=0",
    "--health-port=0",
    "--metrics-port=0",
    "--log-format=json",
    "--enable-author-webhook",
    "--include-secrets",
    "--webhook-host=127.0.0.1",
    f"--webhook-configuration={CONFIGURATION}",
    "--webhook-cert-secret=reverser-tls",
    "--webhook-cert-name=127.0.0.1",
)
_COMPLAINTS = ('"level":"error"', '"level":"critical"', "object.unreadable", "Traceback")
# A connection that is cut in the middle of a message; its readers are woken as well.
_CUT = ("SSL protocol", "ConnectionResetError", "BrokenPipeError")


@dataclass
class ReplicaNetwork:
    """The way from one replica to the API server."""

    server: str
    outer: FaultProxy
    inner: HttpFaultProxy

    def reset(self) -> None:
        """Break every connection."""
        self.outer.inject(Fault(FaultKind.RESET))

    def go_through_answers(self) -> None:
        """From now on what is armed at the inner proxy counts."""
        self.outer.turn_to(self.inner.url)
        self.reset()

    def fix(self) -> None:
        """Be a network again; who waits in a connection that was held up learns that it is broken."""
        self.inner.lift()
        self.outer.lift()
        self.outer.turn_to(self.server)
        self.reset()


class ReplicaFleet(Stoppable):
    """The replicas, and the proxies between them and the servers."""

    def __init__(self, cluster: ClusterAccess, fork_server: ReverserForkServer, folder: Path) -> None:
        self.folder = folder
        self._cluster = cluster
        self._fork_server = fork_server
        self._stack = ExitStack()
        self.ports = free_ports(2 * SIZE)
        tls = KeyPair(cluster.folder / "apiserver.crt", cluster.folder / "apiserver.key")
        self.networks: list[ReplicaNetwork] = []
        for _ in range(SIZE):
            inner = HttpFaultProxy.start(cluster.url, ca_file=cluster.ca_file, tls=tls)
            outer = FaultProxy.start(cluster.url)
            self._stack.callback(inner.stop)
            self._stack.callback(outer.stop)
            self.networks.append(ReplicaNetwork(cluster.url, outer, inner))
        self.door = self._stack.enter_context(FaultProxy.start(f"127.0.0.1:{self.ports[0]}"))
        self.replicas: list[Replica | None] = [None] * SIZE
        self.starts = 0
        self.pauses: dict[Path, int] = {}
        """Files that replicas make where they are to stand still; one may come there runs later."""
        self._read = [0] * SIZE
        self._install()

    def start(self, number: int, failures: Sequence[str] = ()) -> None:
        """Start a replica, which fails at the given failpoints (`stoker_testkit.faults.failpoints`)."""
        server = f"https://{self.networks[number].outer.address}"
        outer, inner = self.ports[2 * number : 2 * number + 2]
        peers = ",".join(f"127.0.0.1:{port}" for port in self.ports[1::2])
        flags = (
            f"--kubeconfig={self._cluster.kubeconfig('admin', namespace=HOME, server=server)}",
            f"--namespace={HOME}",
            f"--work-dir={self.folder / f'work-{number}'}",
            f"--identity=replica-{number}",
            f"--webhook-port={outer}",
            f"--peers-service={peers}",
            f"--peers-port={inner}",
        )
        self.starts += 1
        arguments = [*FLAGS, *flags]
        self.replicas[number] = self._fork_server.start(arguments, log=self._log(number), failures=failures)

    def ask(self, number: int) -> None:
        """Let the API server ask this replica about authors."""
        self.door.turn_to(f"127.0.0.1:{self.ports[2 * number]}")
        self.door.inject(Fault(FaultKind.RESET))

    def lives(self, number: int) -> bool:
        replica = self.replicas[number]
        return replica is not None and replica.running

    def complaints(self) -> list[str]:
        """Internal errors that a replica logged since the last check."""
        found: list[str] = []
        for number in range(SIZE):
            with self._log(number).open("rb") as log:
                log.seek(self._read[number])
                lines = log.read().decode(errors="replace").splitlines()
                self._read[number] = log.tell()
            bad = (line for line in lines if any(word in line for word in _COMPLAINTS))
            found += (line for line in bad if not any(word in line for word in _CUT))
        return found

    def _log(self, number: int) -> Path:
        return self.folder / f"reverser-{number}.log"

    def stop_replicas(self) -> list[bool]:
        """End them all as a cluster does; whether each was willing."""
        return [replica.stop() for replica in self.replicas if replica is not None]

    def stop(self) -> None:
        for replica in self.replicas:
            if replica is not None:
                replica.kill()
        self._stack.close()

    def _install(self) -> None:
        """As the chart does: one webhook, where it is, and no rules."""
        body = without_rules(CONFIGURATION, f"https://{self.door.address}{PATH}")
        path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
        answer = self._cluster.request("POST", path, body)
        assert answer.status == 201, answer.body  # noqa: S101
