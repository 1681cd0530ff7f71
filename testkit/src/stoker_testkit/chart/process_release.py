"""A release of the chart, installed by the real helm, whose programs run as processes of this machine.

Accounts, roles, arguments and configurations are the chart's. A cluster would resolve
Services and mount volumes; here the API server gets the address of the webhook's
process, and files are in a folder. Nothing runs the pods that the cluster makes, so what
the chart does before an uninstall runs here as a process, too.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from stoker_testkit.chart.helm import Helm
from stoker_testkit.cluster.cluster_access import ClusterAccess
from stoker_testkit.processes import Process, free_ports
from stoker_testkit.stoppable import Stoppable
from stoker_testkit.wait_until import eventually

PATIENCE = 60.0
NAME, HOME = "stoker", "stoker-system"
CONFIGURATION = "stoker-webhook"
CONFIGURATIONS = {
    "webhook": {"mutating": CONFIGURATION, "validating": CONFIGURATION},
    "reverser": {"validating": "stoker-reverser"},
}
"""The webhook configurations of each program that the API server calls."""
REMOVE_FINALIZERS = "remove-finalizers"
SHARD = "stoker.io/shard"
ADDRESSES = (
    "health-probe-bind-address",
    "metrics-bind-address",
    "receiver-bind-address",
    "dashboard-bind-address",
    "health-port",
    "metrics-port",
)
PORTS = ("webhook-port", "peers-port")
"""Options that are a number; the others may name an address as well."""


@dataclass
class ProcessRelease(Stoppable):
    """The operator of a cluster; `install` it, and `stop` or start its programs as a story needs."""

    cluster: ClusterAccess
    folder: Path
    values: Mapping[str, object] = field(default_factory=dict)
    running: dict[str, Process] = field(default_factory=dict)
    ports: dict[str, dict[str, int]] = field(default_factory=dict)
    pods: dict[str, dict[str, Any]] = field(default_factory=dict)
    """The pod's spec of each program, by its verb; a further shard of the controller by its number, too."""
    _remove_finalizers: dict[str, Any] | None = None

    @property
    def helm(self) -> Helm:
        return Helm(self.folder, self.cluster)

    @property
    def image(self) -> str:
        """The product's image in the chart."""
        return str(self.pods["webhook"]["containers"][0]["image"])

    @property
    def receiver(self) -> str:
        """The address for webhooks of git servers."""
        return f"http://127.0.0.1:{self.ports['controller']['receiver-bind-address']}"

    def install(self) -> str:
        """Have it in the cluster, with nothing running yet; what helm says."""
        log_tail = self.helm.install(NAME, HOME, self.values, "--create-namespace")
        self._take(self.helm.template(self.values, name=NAME, namespace=HOME))
        return log_tail

    def adopt(self) -> None:
        """Take over one that another process has installed; what already runs of it goes on."""
        objects = yaml.safe_load_all(self.helm.run("get", "manifest", NAME, f"--namespace={HOME}").stdout)
        hooks = yaml.safe_load_all(self.helm.run("get", "hooks", NAME, f"--namespace={HOME}").stdout)
        self._take([one for one in (*objects, *hooks) if one is not None])

    def _take(self, objects: Iterable[Mapping[str, Any]]) -> None:
        """Find the programs among the objects of the chart."""
        for one in objects:
            if one["kind"] == "ConfigMap" and "defaults.yaml" in one["data"]:
                (self.folder / "defaults.yaml").write_text(one["data"]["defaults.yaml"])
            if one["kind"] == "Deployment":
                pod = one["spec"]["template"]["spec"]
                verb, shard = pod["containers"][0]["args"][0], one["metadata"]["labels"].get(SHARD, "0")
                self.pods[verb if shard == "0" else f"{verb}-{shard}"] = pod
            if one["kind"] == "Job":
                self._remove_finalizers = one["spec"]["template"]["spec"]

    def start(self, *verbs: str, reachable: bool = True) -> None:
        """Start programs, all of them unless some are named, and return when they do their work.

        Not `reachable`: the configurations stay as the chart has them, and the webhook is not called.
        """
        for verb in verbs or tuple(self.pods):
            self.running[verb] = self._run(verb, self.pods[verb])
        for verb in CONFIGURATIONS if reachable else ():
            if verb in self.running:
                self._lead_to(verb)
        if "webhook" in self.running and reachable:
            eventually(
                self._is_asked, PATIENCE, lambda: f"pods are looked at:\n{self.log_tail()}", interval=0.2
            )

    def stop_program(self, verb: str) -> None:
        self.running.pop(verb).stop()

    def uninstall(self) -> None:
        """Take it away; what the chart does before that is done."""
        with ThreadPoolExecutor(1) as pool:
            going = pool.submit(self.helm.uninstall, NAME, HOME)
            self.remove_finalizers(going.done)
            going.result()

    def remove_finalizers(self, ended: Callable[[], bool]) -> None:
        """Do what the chart does before an uninstall, when helm asks for it, or has `ended`."""
        if self._remove_finalizers is not None:
            self._play_hook(self._remove_finalizers, ended)

    def stop(self) -> None:
        while self.running:
            self.running.popitem()[1].stop()

    def log_tail(self, verb: str = "") -> str:
        """The end of what the programs have logged."""
        return "\n".join(one.tail() for name, one in self.running.items() if verb in ("", name))

    def logged(self) -> str:
        """All that every program has logged since the beginning."""
        return "\n".join(one.read_text(errors="replace") for one in sorted(self.folder.glob("*.log")))

    def _run(self, verb: str, pod: Mapping[str, Any]) -> Process:
        account = self.cluster.service_account_kubeconfig(HOME, pod["serviceAccountName"])
        names = (*ADDRESSES, *PORTS)
        ports = self.ports.setdefault(verb, dict(zip(names, free_ports(len(names)), strict=True)))
        changed = {f"--{name}": f"127.0.0.1:{ports[name]}" for name in ADDRESSES}
        changed |= {f"--{name}": str(ports[name]) for name in PORTS}
        changed |= {"--defaults": str(self.folder / "defaults.yaml"), "--work-dir": str(self.folder / "work")}
        changed["--peers-service"] = f"127.0.0.1:{ports['peers-port']}"
        words = [
            f"{flag}={changed[flag]}" if (flag := word.partition("=")[0]) in changed else word
            for word in pod["containers"][0]["args"]
        ]
        if verb in CONFIGURATIONS:
            name = "cert-name" if verb == "webhook" else "webhook-cert-name"
            words += [f"--{name}=127.0.0.1", "--webhook-host=127.0.0.1", "--drain-seconds=0"]
        command = [sys.executable, "-m", "stoker", *words, f"--kubeconfig={account}"]
        log = self.folder / f"{verb}.log"
        return Process.start(f"stoker {verb}", command, log=log)

    def _play_hook(self, pod: Mapping[str, Any], ended: Callable[[], bool]) -> None:
        """Run the pod of the Job that helm waits for, and say how it ended, as a kubelet would."""
        path = f"/api/v1/namespaces/{HOME}/pods"
        selector = "labelSelector=app.kubernetes.io%2Fcomponent%3Dremove-finalizers"

        def made() -> list[str]:
            found: Any = self.cluster.request("GET", f"{path}?{selector}").json()
            return [one["metadata"]["name"] for one in found["items"]] or ([""] if ended() else [])

        name = eventually(made, PATIENCE, "the hook's pod is made", interval=0.1)[0]
        if not name:
            return  # helm has printed the reason
        with self._run(REMOVE_FINALIZERS, pod) as process:
            process.wait(PATIENCE)
            code = process.returncode
        status = {"status": {"phase": "Succeeded" if code == 0 else "Failed"}}
        self.cluster.request(
            "PATCH", f"{path}/{name}/status", status, content_type="application/merge-patch+json"
        )

    def _lead_to(self, verb: str) -> None:
        """Name the process where the chart names its Service."""
        base = f"https://127.0.0.1:{self.ports[verb]['webhook-port']}"
        for kind, configuration in CONFIGURATIONS[verb].items():
            path = f"/apis/admissionregistration.k8s.io/v1/{kind}webhookconfigurations/{configuration}"
            found: Any = self.cluster.request("GET", path).json()
            patch = []
            for number, one in enumerate(found.get("webhooks", ())):
                service = one["clientConfig"].get("service")
                if service is not None:
                    place = f"/webhooks/{number}/clientConfig"
                    patch += [
                        {"op": "remove", "path": f"{place}/service"},
                        {"op": "add", "path": f"{place}/url", "value": base + service["path"]},
                    ]
            if patch:
                self.cluster.request("PATCH", path, patch, content_type="application/json-patch+json")

    def _is_asked(self) -> bool:
        """Whether the API server asks the webhook about pods, and trusts it."""
        for process in self.running.values():
            process.check()
        controller: Any = self.values.get("controller", {})
        return webhook_is_asked(self.cluster, (*controller.get("watchNamespaces", ()), "default")[0])


def webhook_is_asked(cluster: ClusterAccess, namespace: str = "default") -> bool:
    """Whether the API server calls the webhook for a pod that cannot be injected, and trusts its answer."""
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "probe", "annotations": {"stoker.io/inject": "true"}},
        "spec": {"containers": [{"name": "gateway", "image": "gateway"}]},
    }
    done = cluster.kubectl(
        "-n", namespace, "create", "--dry-run=server", "-f", "-", stdin=json.dumps(pod), check=False
    )
    return "no agent is put into pod" in done.stderr
