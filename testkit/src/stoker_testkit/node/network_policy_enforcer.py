"""NetworkPolicies that are heeded on a node: the kernel asks a program about every first packet of a pod.

The program is the one that Kubernetes' own network people write for reference. It judges
what goes to or comes from pods; what a pod says to the node itself, where the servers of
tests listen, and what the node's own programs say to pods, it lets pass.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from urllib.parse import urlsplit

from stoker_testkit.assets.go_build import POLICIES
from stoker_testkit.cluster.control_plane import ControlPlane
from stoker_testkit.node import cni_network
from stoker_testkit.processes import Process, free_ports

USER = "admin"
_QUEUE = 100
# It would make such rules itself, in a form that not every kernel knows.
_RULES = (
    "-m owner --uid-owner 0 -j RETURN",
    *(
        f"{way} {cni_network.PODS} -m conntrack --ctstate NEW -j NFQUEUE --queue-num {_QUEUE}"
        for way in ("--source", "--destination")
    ),
)
# Programs of a cluster look nowhere else. On a node of ours the folder is in a mount of its own.
_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


def enforce(plane: ControlPlane, name: str, binaries: Path, folder: Path) -> Process:
    """Start it on the node of this name."""
    for rule in _RULES:
        subprocess.run(["iptables", "-w", "-t", "mangle", "-A", "POSTROUTING", *rule.split()], check=True)
    _ACCOUNT.mkdir(parents=True)
    (_ACCOUNT / "token").write_text(plane.token(USER))
    (_ACCOUNT / "ca.crt").write_bytes(plane.ca_file.read_bytes())
    url = urlsplit(plane.url)
    (port,) = free_ports(1)
    return Process.start(
        POLICIES,
        [
            binaries / POLICIES,
            f"--hostname-override={name}",
            f"--nfqueue-id={_QUEUE}",
            f"--metrics-bind-address=127.0.0.1:{port}",
            "--disable-nri",
            "--netfilter-bug-1766-fix=false",
        ],
        log=folder / f"{POLICIES}.log",
        env={
            **os.environ,
            "KUBERNETES_SERVICE_HOST": str(url.hostname),
            "KUBERNETES_SERVICE_PORT": str(url.port),
        },
        cwd=folder,
    )
