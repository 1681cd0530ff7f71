"""Network outages on a real node, each with its end: no API server, no git, no answers.

Everything is done to the traffic of pods alone, so that the kubelet's own looks at them
go on, as on a node whose uplink fails.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from urllib.parse import urlsplit

from stoker_testkit.node import cni_network
from stoker_testkit.node.real_node import RealNode

REFUSED = ("REJECT", "--reject-with", "tcp-reset")
SILENT = ("DROP",)


@contextmanager
def api_server_away(node: RealNode) -> Iterator[None]:
    """As during an upgrade of the control plane."""
    node.plane.stop_apiserver()
    try:
        yield
    finally:
        node.plane.start_apiserver()


@contextmanager
def server_down(url: str) -> Iterator[None]:
    """Connections to this server are refused, and those that are open are cut."""
    with _treated((urlsplit(url).port or 80,), REFUSED):
        yield


@contextmanager
def network_stalled(*urls: str) -> Iterator[None]:
    """Drop all packets of pods to these servers, without an error to either side."""
    with _treated([urlsplit(one).port or 80 for one in urls], SILENT):
        yield


@contextmanager
def _treated(ports: Sequence[int], verdict: Sequence[str]) -> Iterator[None]:
    rules = [
        ("INPUT", "--source", cni_network.PODS, "--protocol", "tcp", "--dport", str(port), "--jump", *verdict)
        for port in ports
    ]
    for rule in rules:
        _iptables("--insert", *rule)
    try:
        yield
    finally:
        for rule in rules:
            _iptables("--delete", *rule)


def _iptables(*words: str) -> None:
    subprocess.run(["iptables", "--wait", *words], check=True, capture_output=True)
