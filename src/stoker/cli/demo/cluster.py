"""The part of the story in a cluster: a real API server, a controller, an agent, a reverser.

It is raised in a thread of its own while the first act is shown. There is no node: the
agent is a process with the files of a pod, beside a test gateway, and all programs are the
administrator to the API server. `stoker demo --operator` shows them as the chart installs them.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from stoker.agent.sidecar.startup import MARKER
from stoker.api.codegen.generate import crd_yaml
from stoker.api.registry import KINDS
from stoker.cli.demo.commits import PATIENCE_SECONDS, merge_edit
from stoker.cli.demo.dashboards import Dashboard
from stoker.cli.demo.gateways import GatewayProcess
from stoker.cli.demo.cluster_to_git import NAMESPACE as RECIPES
from stoker.cli.demo.cluster_to_git import PERSON, Recipes
from stoker.cli.demo.output import act, program, say, stoker
from stoker.cli.demo.standalone import KEY, TOKEN, Standalone
from stoker.domain.errors import Stalled
from stoker.reverser.authors.admission import PATH
from stoker.testing.assets import ensure_binaries as assets
from stoker.testing.cluster.control_plane import ControlPlane
from stoker.testing.processes import Process, free_port, free_ports
from stoker.testing.progress import Progress
from stoker.testing.repositories.bare_repository import Repository
from stoker.testing.reverser.author_webhook_manifest import without_rules
from stoker.testing.environments.agent_pod import AgentPod
from stoker.testing.environments.controller_environment import Site
from stoker.testing.repositories.sample_ignition_repository import VIEWS, view
from stoker.testing.wait_until import eventually

NAMESPACE, RESOURCE, GATEWAY = "plant", "line-1", "labeler"
BRANCH = f"gateway-changes/{NAMESPACE}/{GATEWAY}"
VIEW = f"projects/{GATEWAY}/{VIEWS}/Overview"
AUTHORS = "authors"
BUILD = "from stoker.testing.assets import finding; finding.ensure(finding.CONTROL_PLANE)"


def labeler() -> dict[str, str]:
    """The gateway that lives in the cluster, as the repository has it."""
    folder = f"services/{GATEWAY}/projects/{GATEWAY}"
    views = {f"{folder}/{VIEWS}/Overview/{name}": text for name, text in view("Labeler overview").items()}
    return {f"{folder}/project.json": '{"title": "Labeler", "enabled": true}\n', **views}


class Cluster:
    """A control plane with one gateway that is kept in both directions, and recipes that go to git."""

    def __init__(self, standalone: Standalone, stage: ExitStack) -> None:
        self.is_built = assets.find(assets.CONTROL_PLANE) is not None
        self.waited = 0.0
        """Seconds for which nothing was shown because of the build."""
        self._folder = standalone.folder / "cluster"
        self._standalone = standalone
        self._repository = standalone.repository
        self._running = ExitStack()
        self._gateway = GatewayProcess(GATEWAY, self._folder / "pod" / "ignition-data")
        self._site: Site
        self._recipes: Recipes
        self._dashboard: Dashboard
        stage.enter_context(self._running)
        pool = stage.enter_context(ThreadPoolExecutor(1))
        self._ending = threading.Event()
        self._raising: Future[None] = pool.submit(self._raise)
        stage.callback(self._ending.set)  # nobody waits minutes for a build after Ctrl-C

    def wait(self) -> None:
        """Return when it is up; on a machine that had no control plane yet, that takes minutes once."""
        if not self.is_built and not self._raising.done():
            act("The rest needs the control plane, which is built from its Go modules: about ten minutes")
            began, progress = time.monotonic(), Progress("building")
            while wait([self._raising], progress.interval).not_done:
                progress.tick()
            progress.done()
            self.waited += time.monotonic() - began
        self._raising.result()

    def edit_on_a_gateway(self, number: int) -> None:
        self.wait()
        act("A designer saves a view on a gateway: git has a branch with it", number)
        say(f"a real API server, stoker controller, and stoker agent beside gateway {GATEWAY}")
        self.show_dashboard()
        for name, text in view("Labeler overview, with a counter of jams").items():
            self._gateway.save(f"{VIEW}/{name}", text)
        say(f"saved {VIEW}/view.json", by=GATEWAY)
        tip = merge_edit(self._repository, BRANCH, f"services/{GATEWAY}/{VIEW}/view.json", self._told)
        self._until_at(str(tip))
        self._dashboard.show_synced(GATEWAY, tip)
        say(stoker("status", "--namespace", NAMESPACE, "--name", RESOURCE, "--kubeconfig", str(self._admin)))

    def change_in_the_cluster(self, number: int) -> None:
        self.wait()
        self._recipes.change(number)
        self._dashboard.show_written(PERSON)

    def show_dashboard(self) -> None:
        say(self._dashboard.link, by="dashboard of the cluster")

    # How it comes up.

    def _raise(self) -> None:
        if not self.is_built:
            self._build()
        plane = self._running.enter_context(ControlPlane.start(self._folder / "plane"))
        plane.kubectl("apply", "-f", "-", stdin="---\n".join(map(crd_yaml, KINDS)))
        plane.create_namespace(NAMESPACE)
        self._site = Site(plane, NAMESPACE, self._folder)
        self._site.secret("git", token=TOKEN)
        self._site.secret("gateway-key", apiKey=KEY)
        eventually(self._applied, PATIENCE_SECONDS, "the API server serves the new kinds", interval=0.2)
        self._start_reverser(plane)
        self._start_controller()
        self._start_gateway()
        self._until_at(str(self._repository.tip()))
        self._recipes.until_known(self._recipes.site.tail)

    def _build(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        log = self._folder.parent / "build.log"
        with Process.start("the build", [sys.executable, "-c", BUILD], log=log) as build:
            while not build.wait(1.0) and not self._ending.is_set():
                pass
            if build.returncode != 0:
                raise Stalled(f"the control plane could not be built: {build.tail()}")

    def _applied(self) -> bool:
        manifest = {
            "apiVersion": "stoker.io/v1alpha1",
            "kind": "Stoker",
            "metadata": {"name": RESOURCE, "namespace": NAMESPACE},
            "spec": {
                "git": {
                    "repo": self._standalone.url,
                    "ref": "main",
                    "auth": {"token": {"secretRef": {"name": "git", "key": "token"}}},
                },
                "polling": {"interval": "1s"},
                "gateway": {
                    "port": 8088,
                    "tls": False,
                    "apiKeySecretRef": {"name": "gateway-key", "key": "apiKey"},
                },
                "bidirectional": {
                    "enabled": True,
                    "watchPaths": ["projects/**"],
                    "debounce": "1s",
                    "createPR": False,
                },
            },
        }
        done = self._site.cluster.kubectl("apply", "-f", "-", stdin=json.dumps(manifest), check=False)
        return done.returncode == 0

    def _start_controller(self) -> None:
        flags = [f"--{one}-bind-address=0" for one in ("health-probe", "metrics", "receiver")]
        flags += [f"--watch-namespaces={NAMESPACE},{RECIPES}", f"--lease-namespace={NAMESPACE}"]
        self._dashboard = Dashboard(free_port(), self._site.cluster.token("admin"))
        flags += [f"--dashboard-bind-address={self._dashboard.address}", "--log-format=json"]
        command = [*program(), "controller", f"--kubeconfig={self._admin}", *flags]
        log = self._folder / "controller.log"
        controller = Process.start("stoker controller", command, log=log, env=self._environment)
        self._running.enter_context(controller)
        self._site.running.append(controller)

    def _start_gateway(self) -> None:
        """A pod without a node: its object in the API server, its programs on this machine."""
        port = free_port()
        service = f"services/{GATEWAY}"
        self._running.enter_context(
            self._gateway.start(self._standalone.key_file, self._folder / "gateway.log", port)
        )
        pod = AgentPod.create(
            self._folder / "pod",
            NAMESPACE,
            name=f"{GATEWAY}-0",
            resource=RESOURCE,
            gateway=GATEWAY,
            annotations={"service-path": service, "gateway-port": str(port)},
        )
        (pod.root / "tmp" / MARKER).touch()
        pod.mount("api-key", {"apiKey": KEY})
        pod.mount("git-credentials", {"token": TOKEN})
        self._site.pod(pod.name, RESOURCE, gateway=GATEWAY, service_path=service, gateway_port=str(port))
        self._gateway.address()
        pod.start(self._admin)
        self._running.enter_context(pod)

    def _start_reverser(self, plane: ControlPlane) -> None:
        repository = Repository.create(self._repository.path.parent / "cluster.git")
        folder = self._folder / "reverser"
        folder.mkdir()
        url = self._standalone.address_of(repository.path)
        self._recipes = Recipes(plane, folder, repository, url)
        self._recipes.describe(TOKEN)
        outer, inner = free_ports(2)
        plane.kubectl(
            "create",
            "-f",
            "-",
            stdin=json.dumps(without_rules(AUTHORS, f"https://127.0.0.1:{outer}{PATH}")),
        )
        self._running.enter_context(self._recipes.site)
        self._recipes.site.start(
            "--enable-author-webhook=true",
            "--webhook-host=127.0.0.1",
            f"--webhook-port={outer}",
            f"--peers-port={inner}",
            f"--peers-service=127.0.0.1:{inner}",
            f"--webhook-configuration={AUTHORS}",
            "--webhook-cert-secret=reverser-tls",
            "--webhook-cert-name=127.0.0.1",
            "--drain-seconds=0",
            env=self._environment,
        )

    # What there is to see.

    @property
    def _admin(self) -> Path:
        return self._site.cluster.kubeconfig()

    @property
    def _environment(self) -> dict[str, str]:
        """What a program leaves behind must lie where we do."""
        return os.environ | {"TMPDIR": str(self._folder)}

    def _until_at(self, commit: str) -> None:
        """Wait until the status says that the gateway has the commit."""

        def there() -> bool:
            gateways: list[dict[str, Any]] = self._site.status("Stoker", RESOURCE).get(
                "discoveredGateways", []
            )
            return any(
                (one.get("syncedCommit"), one.get("syncStatus")) == (commit, "Synced") for one in gateways
            )

        eventually(
            there, PATIENCE_SECONDS, lambda: f"{GATEWAY} at {commit[:8]}: {self._told()}", interval=0.1
        )

    def _told(self) -> str:
        return f"{self._site.status('Stoker', RESOURCE)}\n{self._site.tail()}"
