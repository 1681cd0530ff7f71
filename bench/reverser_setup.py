"""What the reverser is measured on, and with: a cluster, a remote, and what a user would run instead."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from agent_setup import PATIENCE, Usage
from harness import HERE
from stoker.kube.client.client import KubeClient
from stoker.kube.client.errors import AlreadyExists
from stoker.kube.client.objects import ObjectHeader
from stoker.kube.client.resources import CONFIG_MAPS, NAMESPACES
from stoker.kube.config.config import load_config
from stoker_testkit.cluster.cluster_access import ClusterAccess
from stoker_testkit.processes import Process
from stoker_testkit.repositories.bare_repository import Repository, git_environment
from stoker_testkit.stoppable import Stoppable
from stoker_testkit.wait_until import eventually
from sync import as_installed

HOME = "reverser-home"
GROUP = "configbutler.ai/v1alpha1"
BASE = "clusters/bench"
NAMESPACE_COUNT = 10
AT_ONCE = 24

INSTEAD = """set -e
cd "$1"
git fetch --quiet origin
for namespace in $3; do
  kubectl --kubeconfig "$2" -n "$namespace" get configmaps -o yaml > "$namespace.yaml"
done
git add --all
git -c user.name=cron -c user.email=cron@localhost commit --quiet --message "the cluster, now"
git push --quiet origin HEAD:main
"""
"""What a user would run every minute, in a shell; one file to a namespace, and all of its noise in it."""


class Place(NamedTuple):
    """A ConfigMap."""

    namespace: str
    name: str


def places(count: int) -> list[Place]:
    return [Place(f"bench-{number % NAMESPACE_COUNT}", f"map-{number:05}") for number in range(count)]


def body(place: Place, turn: int) -> dict[str, object]:
    """About 1 KB, another one with each turn."""
    lines = "\n".join(f"line {number} of {place.name}: value {turn}-{number * 7919}" for number in range(18))
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": place.name, "namespace": place.namespace, "labels": {"app": "bench"}},
        "data": {"settings": lines, "turn": str(turn)},
    }


class Cluster:
    """Whoever changes the objects: one client that stays connected."""

    def __init__(self, access: ClusterAccess) -> None:
        self._access = access
        self._loop = asyncio.new_event_loop()
        self._client = KubeClient(load_config(access.kubeconfig()), user_agent="bench")
        self._loop.run_until_complete(self._client.__aenter__())

    def close(self) -> None:
        self._loop.run_until_complete(self._client.__aexit__(None, None, None))
        self._loop.close()

    def fill(self, wanted: Sequence[Place]) -> None:
        """Namespaces and ConfigMaps, as many at once as the API server likes."""

        async def all_of_them() -> None:
            names = {place.namespace for place in wanted}
            await _side_by_side(self._namespace(name) for name in sorted(names))
            await _side_by_side(
                self._client.create(CONFIG_MAPS, body(place, 0), place.namespace, into=ObjectHeader)
                for place in wanted
            )

        self._loop.run_until_complete(all_of_them())

    def change(self, place: Place, turn: int) -> float:
        """When it was sent."""
        sent = time.monotonic()
        self._loop.run_until_complete(self._replace(place, turn))
        return sent

    def change_steadily(self, wanted: Sequence[Place], turn: int, seconds: float) -> float:
        """One after another in equal distances; when the last was stored."""

        async def drip() -> float:
            begun, tasks = time.monotonic(), []
            for number, place in enumerate(wanted):
                await asyncio.sleep(max(0.0, begun + number * seconds / len(wanted) - time.monotonic()))
                tasks.append(asyncio.ensure_future(self._replace(place, turn)))
            await asyncio.gather(*tasks)
            return time.monotonic()

        return self._loop.run_until_complete(drip())

    async def _replace(self, place: Place, turn: int) -> None:
        await self._client.replace(
            CONFIG_MAPS, body(place, turn), place.name, place.namespace, into=ObjectHeader
        )

    async def _namespace(self, name: str) -> None:
        spec = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        with suppress(AlreadyExists):
            await self._client.create(NAMESPACES, spec, into=ObjectHeader)


async def _side_by_side(work: Iterable[Awaitable[object]]) -> None:
    waiting = iter(work)

    async def one_after_another() -> None:
        for each in waiting:
            await each

    await asyncio.gather(*(one_after_another() for _ in range(AT_ONCE)))


class Remote:
    """The bare repository behind the server, looked at where it lies."""

    def __init__(self, repository: Repository) -> None:
        self._repository = repository
        self._ref = repository.path / "refs/heads/main"

    def tip(self) -> str:
        return self._ref.read_text().strip() if self._ref.exists() else ""

    def blobs(self) -> dict[str, str]:
        """Path to blob id of what was exported."""
        if not self.tip():
            return {}
        lines = self._repository.git("ls-tree", "-r", "--full-tree", "main", BASE).decode().splitlines()
        parts = (line.split(None, 3) for line in lines)
        return {path: blob for _, _, blob, path in parts if "/configmaps/" in path}

    def until_moved(self, before: str) -> float:
        return _until(lambda: self.tip() != before, "a push")

    def until_complete(self, wanted: int, unlike: dict[str, str]) -> float:
        """When so many files are others than they were."""
        seen = ""
        while True:
            moment = self.until_moved(seen)
            seen = self.tip()
            if sum(unlike.get(path) != blob for path, blob in self.blobs().items()) >= wanted:
                return moment


def _until(condition: Callable[[], bool], what: str) -> float:
    """Looked at every two milliseconds; when it came true."""
    end = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > end:
            raise SystemExit(f"waited {PATIENCE:g} s in vain for {what}")
        time.sleep(0.002)
    return time.monotonic()


class Reverser(Stoppable):
    """One `stoker reverser`, its modules compiled as in an image."""

    def __init__(self, access: ClusterAccess, folder: Path) -> None:
        folder.mkdir()
        command = [
            *(sys.executable, "-m", "stoker", "reverser"),
            f"--kubeconfig={access.kubeconfig()}",
            f"--namespace={HOME}",
            f"--work-dir={folder / 'work'}",
            "--identity=bench",
            "--health-port=0",
            "--metrics-port=0",
            "--log-format=json",
        ]
        environment = {"PYTHONPYCACHEPREFIX": as_installed()["PYTHONPYCACHEPREFIX"]}
        self._process = Process.start("stoker reverser", command, log=folder / "log", env=environment)

    @property
    def pid(self) -> int:
        return self._process.pid

    def stop(self) -> None:
        self._process.stop()

    def cpu_seconds(self) -> float:
        """Its own and that of every child that has ended."""
        return Usage.of(self.pid).cpu_seconds


class Peak:
    """The most memory that a process and its children held at one moment."""

    def __init__(self) -> None:
        self.mb = 0.0


@contextmanager
def watched(pid: int) -> Iterator[Peak]:
    """Looks fifty times a second."""
    peak, over = Peak(), threading.Event()

    def look() -> None:
        while not over.wait(0.02):
            peak.mb = max(peak.mb, _held_mb(pid))

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield peak
    finally:
        over.set()
        thread.join()


def _held_mb(pid: int, told: bytes = b"") -> float:
    """What it and its children hold; one that is between fork and exec holds nothing of its own."""
    folder = Path("/proc", str(pid))
    try:
        command = (folder / "cmdline").read_bytes()
        pages = int((folder / "statm").read_text().split()[1])
        children = [child for task in folder.glob("task/*/children") for child in task.read_text().split()]
    except (OSError, IndexError):
        return 0.0  # it has just ended
    if command == told:
        return 0.0
    return pages * 4096 / (1 << 20) + sum(_held_mb(int(child), command) for child in set(children))


class Setting:
    """The three objects that make a reverser write ConfigMaps of all namespaces."""

    def __init__(self, access: ClusterAccess, url: str, max_wait: str) -> None:
        self._access = access
        spec: dict[str, object] = {"repoUrl": url, "allowedBranches": ["main"]}
        self._put(f"/namespaces/{HOME}/gitrepoconfigs/repo", "GitRepoConfig", "repo", spec)
        spec = {
            "repoRef": {"name": "repo", "namespace": HOME},
            "branch": "main",
            "baseFolder": BASE,
            "batch": {"maxWait": max_wait},
        }
        self._put(f"/namespaces/{HOME}/gitdestinations/bench", "GitDestination", "bench", spec)
        eventually(self._ready, PATIENCE, "the destination to be ready", interval=0.05)

    def begin(self) -> float:
        """Create the rule; when it was sent."""
        rule = {
            "scope": "Namespaced",
            "resources": ["configmaps"],
            "labelSelector": {"matchLabels": {"app": "bench"}},
        }
        spec = {"destinationRef": {"name": "bench", "namespace": HOME}, "rules": [rule]}
        sent = time.monotonic()
        self._put("/clusterwatchrules/bench", "ClusterWatchRule", "bench", spec)
        return sent

    def end(self) -> None:
        """Take all three away again, and what the reverser holds of them."""
        for place in (
            "/clusterwatchrules/bench",
            f"/namespaces/{HOME}/gitdestinations/bench",
            f"/namespaces/{HOME}/gitrepoconfigs/repo",
        ):
            self._access.request("DELETE", f"/apis/{GROUP}{place}")

    def _ready(self) -> bool:
        place = f"/apis/{GROUP}/namespaces/{HOME}/gitdestinations/bench"
        found = self._access.request("GET", place).json()
        conditions = found.get("status", {}).get("conditions", []) if isinstance(found, dict) else []
        return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)

    def _put(self, place: str, kind: str, name: str, spec: Mapping[str, object]) -> None:
        wire = {"apiVersion": GROUP, "kind": kind, "metadata": {"name": name}, "spec": spec}
        answer = self._access.request(
            "PATCH",
            f"/apis/{GROUP}{place}?fieldManager=bench&force=true",
            wire,
            content_type="application/apply-patch+yaml",
        )
        if answer.status not in (200, 201):
            raise SystemExit(f"the API server refused {kind} {name}: {json.dumps(answer.json())[:400]}")


class Instead:
    """A clone that a shell script keeps."""

    def __init__(self, folder: Path, url: str, access: ClusterAccess) -> None:
        self._binaries = access.binaries
        clone = ["git", "clone", "--quiet", url, str(folder)]
        subprocess.run(clone, check=True, env=git_environment(), stderr=subprocess.DEVNULL)
        subprocess.run(["git", "checkout", "-q", "-B", "main"], cwd=folder, check=True, env=git_environment())
        namespaces = " ".join(f"bench-{number}" for number in range(NAMESPACE_COUNT))
        self._arguments = [str(folder), str(access.kubeconfig()), namespaces]

    def run(self) -> None:
        environment = git_environment()
        environment["PATH"] = f"{self._binaries}:{environment['PATH']}"
        subprocess.run(["/bin/sh", "-c", INSTEAD, "sh", *self._arguments], check=True, env=environment)


CRDS = HERE.parent / "config" / "crd"
