"""The stages with a cluster: a real API server with its controllers, the chart, and one node.

One cluster serves all plays, one after the other; `set_up` brings it to where the next one
begins. Gateways and agents are processes of a kubelet without containers. The programs of
the release run as `ProcessRelease` runs them; no node runs their pods, which are marked as ready
while the programs run, so that `kubectl rollout status` ends.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import threading
from collections.abc import Callable
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import yaml

from stoker_testkit.assets import ensure_binaries as assets
from stoker_testkit.chart.helm import CHART
from stoker_testkit.chart.process_release import HOME, NAME, ProcessRelease
from stoker_testkit.chart.reverser_process import start_reverser
from stoker_testkit.cluster.cluster_access import ClusterAccess, CommandFailed
from stoker_testkit.cluster.control_plane import ControlPlane
from stoker_testkit.docs_checks.server_dry_run import install_kinds_of_others
from stoker_testkit.docs_runner.cluster_manifests import GATEWAYS, NAMESPACE, RESOURCE, objects, stoker
from stoker_testkit.docs_runner.reader_environment import EDIT, REPOSITORY, SHOWN, TOKEN, ReaderFolder
from stoker_testkit.environments.operator_environment import IGNITION
from stoker_testkit.gateway.simulated_gateway import KEY
from stoker_testkit.kubelet.process_containers import GatewayImage, Image, Program
from stoker_testkit.kubelet.process_kubelet import ProcessKubelet
from stoker_testkit.processes import Process
from stoker_testkit.stoppable import Stoppable
from stoker_testkit.wait_until import eventually

PATIENCE = 60.0
EAST = f"{NAMESPACE}-east"
"""The second site of those pages that have two."""
DATA = "/var/lib/ignition/data"
LOOK_SECONDS = 0.1
PODS_EACH = 10
"""So many looks for what helm asks, which costs nothing, to one at pods."""
IMAGE = "registry.example.com/stoker"
VALUES = ("--set", f"image.repository={IMAGE}")
# The reader's helm: when it has installed our chart, it waits until its programs run. Webhook
# configurations name a process in the place of a Service (`ProcessRelease`), and no upgrade could patch both
# in.
HELM = """#!/bin/sh
case "$1 $*" in (upgrade*charts/stoker*)
    for kind in mutating validating; do
        kubectl delete ${{kind}}webhookconfigurations stoker-webhook stoker-reverser --ignore-not-found
    done >/dev/null;;
esac
'{helm}' "$@" || exit $?
case "$1 $*" in (install*charts/stoker*|upgrade*charts/stoker*)
    : > '{asked}'
    while [ -e '{asked}' ]; do sleep 0.1; done;;
esac
"""
RESTART = """#!/bin/sh
kubectl delete --wait -f '{pods}' && kubectl apply -f '{pods}' >/dev/null
kubectl wait --for=condition=Ready --timeout=120s -f '{pods}'
"""


class Cluster(Stoppable):
    """All stages with a cluster, by their names."""

    def __init__(self, folder: Path) -> None:
        self._stack = ExitStack()
        enter = self._stack.enter_context
        reader = ReaderFolder(folder, self._stack)
        self.cluster: ClusterAccess = enter(ControlPlane.start(folder / "plane", controller_manager=True))
        install_kinds_of_others(self.cluster, "monitoring.coreos.com")
        self._folder = folder
        self.token = TOKEN
        self._release = enter(ProcessRelease(self.cluster, folder))
        self._reverser: Process | None = None
        self._asked = folder / "asked"
        self._pods = folder / "pods.json"
        self._trouble = ""
        self._leaving = threading.Event()
        self._warden = threading.Thread(target=self._attend, name="warden", daemon=True)
        version = yaml.safe_load((CHART / "Chart.yaml").read_text())["appVersion"]
        self.gateways = GatewayImage()
        self.images: dict[str, Image] = {f"{IMAGE}:{version}": Program(), IGNITION: self.gateways}
        self._kubelet = enter(ProcessKubelet.start(self.cluster, folder / "node", self.images, any_user=True))
        self._kubelet.schedule(NAMESPACE)
        self.reader = reader
        reader.program(self.cluster.binaries / "kubectl")
        helm = folder / "helm"
        helm.write_text(HELM.format(helm=assets.helm(), asked=self._asked))
        helm.chmod(0o700)
        reader.program(helm)
        reader.script("another-user-edits", EDIT.format(root=folder / "node"))
        reader.script("the-gateways-restart", RESTART.format(pods=self._pods))
        machine = folder / "machine"
        machine.mkdir()
        self.folder, self.names = reader.folder, {**reader.names, **_soon(), DATA: str(machine)}
        self.environment = {**reader.environment, "KUBECONFIG": str(self.cluster.kubeconfig())}
        self._warden.start()

    def set_up(self, stage: str) -> None:
        """Bring it to where plays on this stage begin."""
        prepare: dict[str, Callable[[], None]] = {
            "empty-cluster": self._empty,
            "cluster": self._bare,
            "plant": self._fill,
            "cluster-to-git": self._furnish,
        }
        prepare[stage]()

    def describe(self) -> str:
        found = [
            self._trouble,
            self.cluster.kubectl("get", "stokers,pods", "-A", "-o", "wide", check=False).stdout,
            str(self._kubelet.trouble()),
            *(self._kubelet.log(NAMESPACE, name)[-1500:] for name in GATEWAYS),
            self._release.log_tail(),
            self._reverser.tail() if self._reverser else "",
        ]
        return "\n".join(found)

    def stop(self) -> None:
        self._leaving.set()
        self._warden.join()
        self._stack.close()

    # The states in which plays begin.

    def _empty(self) -> None:
        self._clear()
        if self._release.running:
            self._release.uninstall()
            self._release.stop()

    def _bare(self) -> None:
        self._have_release()
        self._clear()

    def _fill(self) -> None:
        """The resource with its two gateways, all of them synced."""
        self._have_release()
        self._tidy()
        address = self.names[REPOSITORY]
        if self.cluster.kubectl("-n", NAMESPACE, "get", "stoker", RESOURCE, check=False).returncode:
            self._clear()
            self._make_namespace()
            self._make_secrets(NAMESPACE)
            made = objects(address)
            self._pods.write_text(
                json.dumps({**made, "items": [one for one in made["items"] if one["kind"] == "Pod"]})
            )
            self.cluster.kubectl("apply", "-f", "-", stdin=json.dumps(made))
        else:
            back = [{"op": "replace", "path": "/spec", "value": stoker(address)}]
            self._kubectl("patch", "stoker", RESOURCE, "--type=json", "-p", json.dumps(back))
            self._kubectl("delete", "pods", "--field-selector", _others(), "--wait")
        eventually(self._is_in_step, PATIENCE, "a resource in step", interval=0.2)

    def _is_in_step(self) -> bool:
        """Ready about the spec of now and both gateways: before any is seen, Ready says little."""
        found: Any = json.loads(
            self.cluster.kubectl("-n", NAMESPACE, "get", "stoker", RESOURCE, "-o", "json").stdout
        )
        status = found.get("status", {})
        by_type = {one["type"]: one for one in status.get("conditions", ())}
        ready = by_type.get("Ready", {}).get("status") == "True"
        synced = str(by_type.get("AllGatewaysSynced", {}).get("message"))
        both = synced.startswith(f"{len(GATEWAYS)} of ")
        return ready and both and bool(status.get("observedGeneration") == found["metadata"]["generation"])

    def _furnish(self) -> None:
        """The reverser, and a namespace with a few objects."""
        self._clear()
        self._make_namespace()
        logins = f"reverser.credentialSecrets.{NAMESPACE}={{git-credentials}}"
        self._have_release("--set", "reverser.enabled=true", "--set", logins)
        self._kubectl("create", "configmap", "settings", "--from-literal=greeting=hello")
        self._kubectl("create", "service", "clusterip", "gateway", "--tcp=8088")
        self._kubectl("create", "secret", "generic", "database", "--from-literal=password=nobody-knows")

    def _have_release(self, *values: str) -> None:
        if self._release.running and not values:
            return
        where = ("--install", NAME, CHART, f"--namespace={HOME}", "--create-namespace")
        done = subprocess.run(
            ["helm", "upgrade", *where, *VALUES, *values],
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=3 * PATIENCE,
        )
        if done.returncode or self._trouble:
            raise CommandFailed(f"helm upgrade: {done.stderr}\n{self._trouble}")

    def _clear(self) -> None:
        """No namespace, nothing of the last reader's."""
        gone = ("--ignore-not-found", "--timeout=60s")
        self.cluster.kubectl("delete", "namespace", NAMESPACE, EAST, *gone)
        self._tidy()

    def _tidy(self) -> None:
        for path in self.folder.iterdir():
            if path.name not in SHOWN:
                shutil.rmtree(path) if path.is_dir() else path.unlink()

    def _make_namespace(self) -> None:
        self.cluster.create_namespace(NAMESPACE)
        account = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/default"
        eventually(lambda: self.cluster.request("GET", account).status == 200, PATIENCE, "its account")

    def _make_secrets(self, namespace: str) -> None:
        for name, key, text in (
            ("git-credentials", "token", self.token),
            ("ignition-api-key", "apiKey", KEY),
        ):
            literal = f"--from-literal={key}={text}"
            self.cluster.kubectl("-n", namespace, "create", "secret", "generic", name, literal)

    def _kubectl(self, *words: str) -> None:
        self.cluster.kubectl("-n", NAMESPACE, *words)

    # What nodes would do for the release.

    def _attend(self) -> None:
        looks = 0
        while not self._leaving.wait(LOOK_SECONDS):
            looks += 1
            try:
                if self._asked.exists():
                    self._answer()
                elif self._release.running and looks % PODS_EACH == 0:
                    self._call_ready()
            except Exception as error:  # told with the play that it spoils
                self._trouble = repr(error)

    def _answer(self) -> None:
        """Do what helm waits for, and let it go on even if that fails."""
        try:
            self._run_programs()
        finally:
            self._asked.unlink()

    def _run_programs(self) -> None:
        """Start what does not run yet, and register its address with the API server."""
        self._release.adopt()
        reverser = self._release.pods.pop("reverser", None)
        if "webhook" in self._release.running:
            self._release.stop_program("webhook")
        self._release.start(*(verb for verb in self._release.pods if verb not in self._release.running))
        if reverser is not None:
            if self._reverser is not None:
                self._reverser.stop()
            self._reverser = self._stack.enter_context(start_reverser(self.cluster, reverser, self._folder))

    def _call_ready(self) -> None:
        place = f"/api/v1/namespaces/{HOME}/pods"
        found: Any = self.cluster.request("GET", place).json()
        condition = {"type": "Ready", "status": "True"}
        status = {"status": {"phase": "Running", "conditions": [condition]}}
        for pod in found["items"]:
            if pod["status"].get("phase") == "Pending":
                path = f"{place}/{pod['metadata']['name']}/status"
                self.cluster.request("PATCH", path, status, content_type="application/merge-patch+json")


def _others() -> str:
    """Selects pods that the plant does not have from the start."""
    return ",".join(f"metadata.name!={name}" for name in GATEWAYS)


def _soon() -> dict[str, str]:
    """Values of a page with shorter waits and a maintenance window in three days."""
    far = (datetime.now(UTC) + timedelta(days=3)).isoweekday()
    return {
        '"0 2 * * 6"': f'"0 2 * * {far}"',
        "postSyncWait: 5m": "postSyncWait: 1s",
        "interval: 5m": "interval: 2s",
    }
