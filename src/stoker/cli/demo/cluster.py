"""The second part of the demo: the eight kinds in a real API server, and two controllers."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

from stoker.api.generate import crd_yaml
from stoker.api.registry import KINDS
from stoker.cli.demo.stage import act, program, say
from stoker.cli.demo.standalone import KEY, TOKEN, Standalone
from stoker.domain.refs import CommitId
from stoker.testing.assets import finding as assets
from stoker.testing.cluster.control_plane import ControlPlane
from stoker.testing.processes import Process
from stoker.testing.waiting import eventually

NAMESPACE = "bottling"
PATIENCE_SECONDS = 90.0

MANIFESTS = """\
apiVersion: stoker.io/v1alpha1
kind: Stoker
metadata: {name: line-1}
spec:
  git:
    repo: "%s"
    ref: main
    auth: {token: {secretRef: {name: git, key: token}}}
  polling: {interval: 1s}
  gateway:
    apiKeySecretRef: {name: gateway-key, key: apiKey}
---
apiVersion: stoker.io/v1alpha1
kind: SyncProfile
metadata: {name: filler}
spec:
  mappings:
    - {source: services/filler/projects, destination: projects, required: true}
    - {source: services/filler/config/resources/core, destination: config/resources/core}
  deploymentMode: {source: services/filler/config/resources/production}
"""


class Cluster:
    """A control plane in which two controllers look after the same repository."""

    def __init__(self, standalone: Standalone, stage: ExitStack) -> None:
        self._folder = standalone.folder
        self._standalone = standalone
        self._stage = stage
        self._leader: Process
        # An API server needs some seconds to be ready; it may take them while the first part is shown.
        self._starting = stage.enter_context(ThreadPoolExecutor(1)).submit(
            ControlPlane.start, self._folder / "cluster"
        )
        stage.callback(lambda: self._starting.result().stop())

    @staticmethod
    def set_up() -> None:
        """Build what a control plane consists of, if this machine has none yet."""
        assets.ensure(assets.CONTROL_PLANE)

    def take_the_kinds(self) -> None:
        act("A real API server takes the eight kinds; a controller resolves the ref of a Stoker")
        self._plane.kubectl("apply", "-f", "-", stdin="---\n".join(map(crd_yaml, KINDS)))
        self._plane.create_namespace(NAMESPACE)
        for name, key, value in (("git", "token", TOKEN), ("gateway-key", "apiKey", KEY)):
            self._kubectl("create", "secret", "generic", name, f"--from-literal={key}={value}")
        self._leader = self._controller("controller-1")
        eventually(self._applied, PATIENCE_SECONDS, "the API server serves the new kinds", interval=0.5)
        self._until_at(self._standalone.repository.tip())
        self._controller("controller-2")
        self._show()
        say("a second controller starts beside it, and waits for its turn")

    def refuse_what_is_wrong(self) -> None:
        act("A manifest that is wrong is refused, with the name of the field")
        wrong = self._manifests.replace("ref: main", "ref: --upload-pack=evil")
        say(self._plane.kubectl("-n", NAMESPACE, "apply", "-f", "-", stdin=wrong, check=False).stderr)

    def lose_the_leader(self) -> None:
        act("The first controller is killed, and git moves on; the second takes over and follows")
        self._leader.kill()
        commit = self._standalone.repository.commit({"README.md": "# Line 1\n"}, message="Say which line")
        say(f"main is at {commit.short}; the lease of the dead one has to run out, which takes up to 15 s")
        self._until_at(commit)
        self._show()
        say(self._kubectl("get", "events", "-o", "custom-columns=REASON:.reason,MESSAGE:.message"))

    @property
    def _plane(self) -> ControlPlane:
        return self._starting.result()

    @property
    def _manifests(self) -> str:
        return MANIFESTS % self._standalone.url

    def _controller(self, name: str) -> Process:
        # Two of them on one machine: neither may want a port for itself.
        flags = [f"--{one}-bind-address=0" for one in ("health-probe", "metrics", "receiver")]
        flags.append("--log-format=json")
        command = [*program(), "controller", f"--kubeconfig={self._plane.kubeconfig()}", *flags]
        # One of them is killed and cannot tidy up: what it leaves must lie where we do.
        environment = os.environ | {"TMPDIR": str(self._folder)}
        log = self._folder / f"{name}.log"
        return self._stage.enter_context(Process.start(name, command, log=log, env=environment))

    def _until_at(self, commit: CommitId) -> None:
        """Wait until the status names the commit."""
        path = f"/apis/stoker.io/v1alpha1/namespaces/{NAMESPACE}/stokers/line-1"
        eventually(
            lambda: f'"lastSyncCommit":"{commit}"'.encode() in self._plane.request("GET", path).body,
            PATIENCE_SECONDS,
            f"the status of Stoker line-1 names commit {commit.short}",
            interval=0.2,
        )

    def _show(self) -> None:
        ready = '.status.conditions[?(@.type=="Ready")].status'
        columns = f"STOKER:.metadata.name,REF:.spec.git.ref,COMMIT:.status.lastSyncCommit,READY:{ready}"
        say(self._kubectl("get", "stokers", "-o", f"custom-columns={columns}"))

    def _applied(self) -> bool:
        done = self._plane.kubectl("-n", NAMESPACE, "apply", "-f", "-", stdin=self._manifests, check=False)
        return done.returncode == 0

    def _kubectl(self, *arguments: str) -> str:
        return self._plane.kubectl("-n", NAMESPACE, *arguments).stdout
