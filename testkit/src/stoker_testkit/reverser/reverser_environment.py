"""A namespace in which a real reverser works: processes, objects as people write them, and what git holds.

Each site serves only the destinations and rules of its own namespace, so that several of
them share a control plane. The repositories are bare ones on disk, reached over
whichever server the test has started.
"""

from __future__ import annotations

import sys
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from stoker_testkit.cluster.cluster_access import ClusterAccess
from stoker_testkit.cluster.namespace_objects import condition_in
from stoker_testkit.processes import Process
from stoker_testkit.repositories.bare_repository import Repository
from stoker_testkit.stoppable import Stoppable
from stoker_testkit.wait_until import eventually

PATIENCE = 45.0
GROUP = "configbutler.ai/v1alpha1"
BASE = "clusters/prod"
AT_ONCE = {"maxWait": "0s"}
PLURALS = {
    "GitRepoConfig": f"apis/{GROUP}/gitrepoconfigs",
    "GitDestination": f"apis/{GROUP}/gitdestinations",
    "WatchRule": f"apis/{GROUP}/watchrules",
    "ClusterWatchRule": f"apis/{GROUP}/clusterwatchrules",
    "ConfigMap": "api/v1/configmaps",
    "Secret": "api/v1/secrets",
    "Service": "api/v1/services",
    "Event": "api/v1/events",
    "Lease": "apis/coordination.k8s.io/v1/leases",
}
_CLUSTER_WIDE = ("ClusterWatchRule",)


@dataclass
class ReverserSite(Stoppable):
    """One namespace and the reversers that work in it."""

    cluster: ClusterAccess
    namespace: str
    folder: Path
    url: str = ""
    """The default name of the repository that a GitRepoConfig names."""
    running: list[Process] = field(default_factory=list)

    # The processes.

    def start(
        self,
        *flags: str,
        failpoints: Sequence[str] = (),
        kubeconfig: Path | None = None,
        env: Mapping[str, str] | None = None,
    ) -> Process:
        """A replica; `failpoints` are those of `stoker_testkit.faults.failpoints`."""
        number = len(self.running)
        module = ["stoker_testkit.faults.failpoints", *failpoints, "--"] if failpoints else ["stoker"]
        command = [
            *(sys.executable, "-m", *module, "reverser"),
            f"--kubeconfig={kubeconfig or self.cluster.kubeconfig()}",
            f"--namespace={self.namespace}",
            f"--watch-namespaces={self.namespace}",
            f"--work-dir={self.folder / f'work-{number}'}",
            f"--identity=replica-{number}",
            "--log-format=json",
        ]
        quiet = [
            f"--{name}=0"
            for name in ("health-port", "metrics-port")
            if not any(name in flag for flag in flags)
        ]
        log = self.folder / f"reverser-{number}.log"
        process = Process.start("stoker reverser", [*command, *quiet, *flags], log=log, env=env)
        self.running.append(process)
        return process

    def stop(self) -> None:
        for process in self.running:
            process.stop()

    def tail(self) -> str:
        return "\n".join(process.tail() for process in self.running)

    # What people do.

    def repo_config(self, name: str = "repo", **spec: object) -> None:
        self.apply("GitRepoConfig", name, {"repoUrl": self.url, "allowedBranches": ["main"], **spec})

    def destination(self, name: str = "production", **spec: object) -> None:
        whole = {
            "repoRef": {"name": "repo"},
            "branch": "main",
            "baseFolder": BASE,
            "batch": AT_ONCE,
            **spec,
        }
        self.apply("GitDestination", name, whole)

    def rule(
        self,
        name: str = "maps",
        resources: Sequence[str] = ("configmaps",),
        to: str = "production",
        **rule: object,
    ) -> None:
        spec = {"destinationRef": {"name": to}, "rules": [{"resources": list(resources), **rule}]}
        self.apply("WatchRule", name, spec)

    def cluster_rule(
        self,
        name: str,
        resources: Sequence[str],
        scope: str = "Cluster",
        to: str = "production",
        **rule: object,
    ) -> None:
        ref = {"name": to, "namespace": self.namespace}
        rules = [{"resources": list(resources), "scope": scope, **rule}]
        self.apply("ClusterWatchRule", name, {"destinationRef": ref, "rules": rules})

    def follow_maps(self, **destination: object) -> None:
        """The usual three objects."""
        self.repo_config()
        self.destination("production", **destination)
        self.rule()

    def apply(self, kind: str, name: str, spec: Mapping[str, object]) -> None:
        body = {"apiVersion": GROUP, "kind": kind, "metadata": {"name": name}, "spec": spec}
        place = f"{self.path_of(kind, name)}?fieldManager=test&force=true"
        self._send("PATCH", place, body, "application/apply-patch+yaml")

    def config_map(self, name: str, data: Mapping[str, str] | None = None, **metadata: object) -> None:
        """Made, or as it is to be from now on."""
        body = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": name, **metadata},
            "data": dict(data or {"key": "value"}),
        }
        place = f"{self.path_of('ConfigMap', name)}?fieldManager=test&force=true"
        self._send("PATCH", place, body, "application/apply-patch+yaml")

    def secret(self, name: str, **data: str) -> None:
        body = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": name},
            "stringData": {key.replace("_", "-"): value for key, value in data.items()},
        }
        place = f"{self.path_of('Secret', name)}?fieldManager=test&force=true"
        self._send("PATCH", place, body, "application/apply-patch+yaml")

    def patch(self, kind: str, name: str, body: Mapping[str, object]) -> None:
        self._send("PATCH", self.path_of(kind, name), body, "application/merge-patch+json")

    def delete(self, kind: str, name: str = "") -> None:
        """One object, or all of a kind in the namespace."""
        self._send("DELETE", self.path_of(kind, name), None, "application/json")

    # What there is to see.

    def get(self, kind: str, name: str = "") -> dict[str, Any]:
        answer = self.cluster.request("GET", self.path_of(kind, name))
        found = answer.json() if answer.status == 200 else {}
        return found if isinstance(found, dict) else {}

    def status(self, kind: str, name: str) -> dict[str, Any]:
        found: dict[str, Any] = self.get(kind, name).get("status", {})
        return found

    def condition(self, kind: str, name: str, type_: str) -> tuple[str, str, str]:
        """Status, reason and message; empty where there is no such condition."""
        return condition_in(self.status(kind, name), type_)

    def until(
        self, kind: str, name: str, reason: str, type_: str = "Ready", patience: float = PATIENCE
    ) -> str:
        """Wait until a condition has this reason; its message."""
        eventually(
            lambda: self.condition(kind, name, type_)[1] == reason,
            patience,
            lambda: f"{type_} of {name} becomes {reason}; it is {self.status(kind, name)}\n{self.tail()}",
            interval=0.05,
        )
        return self.condition(kind, name, type_)[2]

    def events(self) -> list[tuple[str, str, str]]:
        """Kind of the object, reason and message of every Event of the namespace."""
        items = self.get("Event").get("items", [])
        return [(one["involvedObject"]["kind"], one["reason"], one["message"]) for one in items]

    def until_event(self, kind: str, reason: str) -> None:
        eventually(
            lambda: any(one[:2] == (kind, reason) for one in self.events()),
            PATIENCE,
            lambda: f"an event {reason} on a {kind}; there are {self.events()}",
            interval=0.1,
        )

    def map_path(self, name: str, base: str = BASE) -> str:
        return f"{base}/core/v1/configmaps/{self.namespace}/{name}.yaml"

    def until_files(
        self,
        repository: Repository,
        wanted: Mapping[str, str | None],
        branch: str = "main",
        patience: float = PATIENCE,
    ) -> dict[str, bytes]:
        """Wait until files hold these texts; None: until they are not there."""

        def fits() -> bool:
            files = files_of(repository, branch)
            return all(
                path not in files if text is None else text.encode() in files.get(path, b"")
                for path, text in wanted.items()
            )

        eventually(
            fits,
            patience,
            lambda: f"{dict(wanted)}; there are {sorted(files_of(repository, branch))}\n{self.tail()}",
            interval=0.05,
        )
        return files_of(repository, branch)

    def path_of(self, kind: str, name: str = "") -> str:
        root, _, plural = PLURALS[kind].rpartition("/")
        where = "" if kind in _CLUSTER_WIDE else f"namespaces/{self.namespace}/"
        return f"/{root}/{where}{plural}" + (f"/{name}" if name else "")

    def _send(self, method: str, path: str, body: object, content_type: str) -> None:
        answer = self.cluster.request(method, path, body, content_type=content_type)
        assert answer.status in (200, 201, 202), (path, answer.status, answer.body[:500])  # noqa: S101


def metric_of(port: int, name: str) -> float:
    """The sum over all labels of a metric of the process whose page is at this port; 0 if it is not there."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        page: str = answer.read().decode()
    return sum(float(line.rpartition(" ")[2]) for line in page.splitlines() if line.startswith(f"{name}{{"))


def files_of(repository: Repository, branch: str = "main") -> dict[str, bytes]:
    """All files of a branch; none where there is no such branch yet."""
    # By its commit, because the branch may move on while the files are read.
    return repository.files(repository.tip(f"refs/heads/{branch}")) if repository.has_branch(branch) else {}
