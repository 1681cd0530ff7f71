"""`stoker demo`: the main job, done for real on this machine.

Everything is real: a git server that wants a token, `stoker sync` as a process of
its own, an API server with etcd, two controllers. It works in one temporary
folder, and nothing is left running.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

import click

from stoker.api.generate import crd_yaml
from stoker.api.registry import KINDS
from stoker.domain.errors import Stalled
from stoker.git.credentials import TOKEN_USER
from stoker.testing.control_plane import ControlPlane
from stoker.testing.git_http import GitHttpServer
from stoker.testing.plant import plant, view
from stoker.testing.processes import Process
from stoker.testing.repositories import Repository
from stoker.testing.waiting import eventually

TOKEN = "demo-token"  # noqa: S105 - it opens a server that lives as long as the demo
NAMESPACE = "bottling"
PATIENCE_SECONDS = 90.0
VIEWS = "projects/filler/com.inductiveautomation.perspective/views"

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


@click.command("demo")
@click.option("--no-cluster", is_flag=True, help="Only what needs no API server.")
def demo_command(no_cluster: bool) -> None:
    """See configuration flow from Git to two gateways' folders, and through a real API server."""
    with tempfile.TemporaryDirectory(prefix="stoker-demo-") as folder, ExitStack() as stage:
        standalone = Standalone(Path(folder), stage)
        standalone.open_repository()
        standalone.sync_both_gateways()
        standalone.follow_a_change()
        if not no_cluster:
            cluster = Cluster(standalone, stage)
            cluster.start()
            cluster.refuse_what_is_wrong()
            cluster.lose_the_leader()
        _act("Done. Nothing was left running. To try next")
        _say("stoker sync --help               the same for a gateway of yours")
        _say("kubectl apply -f config/crd      the eight kinds in a cluster of yours")
        _say("kubectl explain stoker.spec.git  what each field means")


class Standalone:
    """A repository, and two gateways' data folders that follow it."""

    def __init__(self, folder: Path, stage: ExitStack) -> None:
        self.folder = folder
        self._stage = stage
        self.repository = Repository.create(folder / "repositories" / "plant.git")
        self.url = ""

    def open_repository(self) -> None:
        _act("A repository of a bottling plant, served over HTTP to whoever has the token")
        self.repository.commit(plant(), message="Line 1 as built")
        root = self.repository.path.parent
        server = self._stage.enter_context(GitHttpServer.start(root, users={TOKEN_USER: TOKEN}))
        self.url = server.url("plant.git")
        (self.folder / "token").write_text(TOKEN)
        _say(f"{self.url}, branch main at {self.repository.tip().short}, {len(plant())} files")

    def sync_both_gateways(self) -> None:
        _act("Two gateways' folders are brought to that commit, without a cluster")
        self._sync("filler")
        self._sync("packer")

    def follow_a_change(self) -> None:
        _act("One view is replaced by another in git; the second run finds nothing left to do")
        views, change = f"services/filler/{VIEWS}", dict[str, str | None]()
        for name, text in view("Line 1").items():
            change |= {f"{views}/Line/{name}": text, f"{views}/Overview/{name}": None}
        self.repository.commit(change, message="One view for the whole line")
        self._sync("filler")
        self._sync("filler")

    def _sync(self, gateway: str) -> None:
        data = self.folder / gateway
        data.mkdir(exist_ok=True)
        service = f"services/{gateway}"
        arguments = ["--repo", self.url, "--ref", "main", "--token-file", str(self.folder / "token")]
        arguments += ["--data-dir", str(data), "--cache-dir", str(self.folder / "cache")]
        for source, destination in (
            (f"{service}/projects", "projects"),
            (f"{service}/config/resources/core", "config/resources/core"),
            (f"{service}/config/resources/production", "config/resources/core"),
            ("shared/scripts", f"projects/{gateway}/ignition/script-python"),
            ("shared/udts", "config/resources/core/ignition/tag-type-definition/default"),
        ):
            arguments += ["--map", f"{source}:{destination}"]
        done = subprocess.run(
            [*_stoker(), "sync", *arguments], capture_output=True, text=True, check=False, timeout=120
        )
        if done.returncode:
            raise Stalled(f"stoker sync of {gateway} ended with {done.returncode}: {done.stderr.strip()}")
        for line in done.stdout.strip().splitlines():
            _say(f"{gateway}: {line}")


class Cluster:
    """A control plane in which two controllers look after the same repository."""

    def __init__(self, standalone: Standalone, stage: ExitStack) -> None:
        self._folder = standalone.folder
        self._repository = standalone.repository
        self._manifests = MANIFESTS % standalone.url
        self._stage = stage
        self._plane: ControlPlane
        self._leader: Process

    def start(self) -> None:
        _act("A real API server takes the eight kinds; a controller resolves the ref")
        self._plane = self._stage.enter_context(ControlPlane.start(self._folder / "cluster"))
        self._plane.kubectl("apply", "-f", "-", stdin="---\n".join(map(crd_yaml, KINDS)))
        self._plane.create_namespace(NAMESPACE)
        for name, key, value in (("git", "token", TOKEN), ("gateway-key", "apiKey", "demo:key")):
            self._kubectl("create", "secret", "generic", name, f"--from-literal={key}={value}")
        eventually(self._applied, PATIENCE_SECONDS, "the API server serves the new kinds", interval=0.5)
        self._leader = self._controller("controller-1")
        self._until_at(self._repository.tip())
        _say(self._kubectl("get", "stokers,syncprofiles"))

    def refuse_what_is_wrong(self) -> None:
        _act("A manifest that is wrong is refused, with the name of the field")
        wrong = self._manifests.replace("ref: main", "ref: --upload-pack=evil")
        _say(self._plane.kubectl("-n", NAMESPACE, "apply", "-f", "-", stdin=wrong, check=False).stderr)

    def lose_the_leader(self) -> None:
        _act("A second controller waits for the lease; the first is killed; the next commit is followed")
        self._controller("controller-2")
        self._leader.kill()
        self._until_at(self._repository.commit({"README.md": "# Line 1\n"}, message="Say which line"))
        _say(self._kubectl("get", "events", "-o", "custom-columns=REASON:.reason,MESSAGE:.message"))

    def _controller(self, name: str) -> Process:
        flags = ["--health-probe-bind-address=0", "--metrics-bind-address=0", "--log-format=json"]
        command = [*_stoker(), "controller", f"--kubeconfig={self._plane.kubeconfig()}", *flags]
        # One of them is killed and cannot tidy up: what it leaves must lie where we do.
        environment = os.environ | {"TMPDIR": str(self._folder)}
        log = self._folder / f"{name}.log"
        return self._stage.enter_context(Process.start(name, command, log=log, env=environment))

    def _until_at(self, commit: str) -> None:
        """Wait until the status names the commit."""
        eventually(
            lambda: (
                self._kubectl("get", "stoker", "line-1", "-o", "jsonpath={.status.lastSyncCommit}") == commit
            ),
            PATIENCE_SECONDS,
            f"the status of Stoker line-1 names commit {commit[:8]}",
            interval=0.5,
        )

    def _applied(self) -> bool:
        done = self._plane.kubectl("-n", NAMESPACE, "apply", "-f", "-", stdin=self._manifests, check=False)
        return done.returncode == 0

    def _kubectl(self, *arguments: str) -> str:
        return self._plane.kubectl("-n", NAMESPACE, *arguments).stdout


def _stoker() -> list[str]:
    """This very program, as another process."""
    return [sys.executable, "-m", "stoker"]


def _act(title: str) -> None:
    click.echo()
    click.secho(title, bold=True)


def _say(text: str) -> None:
    for line in text.strip("\n").splitlines():
        click.echo(f"  {line}")
