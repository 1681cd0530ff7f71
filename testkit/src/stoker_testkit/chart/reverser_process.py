"""The reverser of a release as a process of this machine, with the account and the arguments of the chart.

Where the chart names a Service or a volume, there is a port or a folder here, and the API
server gets the address of the process.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from stoker_testkit.chart.process_release import HOME
from stoker_testkit.cluster.cluster_access import ClusterAccess, CommandFailed
from stoker_testkit.processes import Process, free_ports

CONFIGURATION = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/stoker-reverser"


def start_reverser(cluster: ClusterAccess, pod: Mapping[str, Any], folder: Path) -> Process:
    """`pod` is the spec of the pods of its Deployment."""
    outer, inner = free_ports(2)
    here = {
        "--identity": "replica-0",
        "--work-dir": str(folder / "work"),
        "--webhook-port": str(outer),
        "--peers-port": str(inner),
        "--peers-service": f"127.0.0.1:{inner}",
        "--health-port": "0",
        "--metrics-port": "0",
        "--batch-max-wait": "0s",
    }
    words = [
        f"{flag}={here[flag]}" if (flag := word.partition("=")[0]) in here else word
        for word in pod["containers"][0]["args"]
    ]
    words += ["--webhook-host=127.0.0.1", "--webhook-cert-name=127.0.0.1", "--drain-seconds=0"]
    account = cluster.service_account_kubeconfig(HOME, pod["serviceAccountName"])
    command = [sys.executable, "-m", "stoker", *words, f"--kubeconfig={account}"]
    lead_to(cluster, "service", "url", f"https://127.0.0.1:{outer}/process-validating-webhook")
    return Process.start("stoker reverser", command, log=folder / "reverser.log")


def lead_to(cluster: ClusterAccess, away: str, to: str, value: object) -> None:
    """Have the API server look for its webhook elsewhere."""
    place = "/webhooks/0/clientConfig"
    patch = [
        {"op": "remove", "path": f"{place}/{away}"},
        {"op": "add", "path": f"{place}/{to}", "value": value},
    ]
    answer = cluster.request("PATCH", CONFIGURATION, patch, content_type="application/json-patch+json")
    if answer.status != 200:
        raise CommandFailed(f"the reverser's webhook cannot be led to {value}: {answer.body.decode()}")
