"""What the agent is measured on, and with: files, servers, the map, and what a user would run instead."""

from __future__ import annotations

import json
import os
import random
import resource
import ssl
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from http.client import HTTPSConnection
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from agent_servers import SCANNED
from harness import HERE
from stoker.domain.intent.intent import SyncResourceKind
from stoker.domain.protocol import metadata_map_name, resource_labels
from stoker.ignition.client.api_key import HEADER
from stoker_testkit.cluster.cluster_access import ClusterAccess
from stoker_testkit.environments.agent_environment import SERVICE
from stoker_testkit.gateway.simulated_gateway import KEY
from stoker_testkit.processes import Process
from stoker_testkit.repositories.bare_repository import git_environment
from stoker_testkit.repositories.sample_ignition_repository import VIEWS
from stoker_testkit.repositories.sample_ignition_repository import resource as signed_resource
from stoker_testkit.stoppable import Stoppable
from stoker_testkit.wait_until import eventually
from sync import as_installed, content

PATIENCE = 180.0
PROJECTS = 10
WITH_CODE = 90
"""Views of three files, one of which each commit takes away."""
TOUCHED = 16

Changes = dict[str, str | bytes | None]

_IMPORT_ALL = """
from importlib import import_module
from pkgutil import walk_packages
import stoker.cli.run.agent
for room in ("agent", "fs", "git", "ignition", "kube", "telemetry"):
    package = import_module("stoker." + room)
    for module in walk_packages(package.__path__, package.__name__ + "."):
        import_module(module.name)
"""

INSTEAD = """set -e
git -C "$1" fetch --quiet origin main
git -C "$1" checkout --quiet --detach FETCH_HEAD
rsync -a --delete "$1/$2/projects/" "$3/projects/"
curl -sSf -o /dev/null -X POST -H @"$5" "$4/data/api/v1/scan/projects"
curl -sSf -o /dev/null -X POST -H @"$5" "$4/data/api/v1/scan/config"
"""
"""What a user would run for each commit, in a shell; the key stands in a file."""


class Moment(NamedTuple):
    """A line of one of the servers."""

    what: str
    begun: float
    ended: float


@dataclass(frozen=True, slots=True)
class Server(Stoppable):
    """A server of `agent_servers.py`, and what it was asked."""

    process: Process
    url: str

    @classmethod
    def start(cls, log: Path, kind: str, *arguments: str | Path) -> Server:
        argv = [sys.executable, HERE / "agent_servers.py", kind, *arguments]
        process = Process.start(kind, argv, log=log)
        process.wait_ready(lambda: "\n" in log.read_text(), PATIENCE)
        return cls(process, log.read_text().splitlines()[0])

    def stop(self) -> None:
        self.process.stop()

    def since(self, moment: float) -> list[Moment]:
        lines = self.process.log.read_text().splitlines()[1:]
        found = (Moment(**json.loads(line)) for line in lines if line.endswith("}"))
        return [one for one in found if one.begun >= moment]

    def scans_since(self, moment: float) -> int:
        return sum(one.what == SCANNED for one in self.since(moment))


class MapWriter:
    """Writes a metadata map as a controller does: over a connection that already stands."""

    def __init__(self, cluster: ClusterAccess, namespace: str) -> None:
        name = metadata_map_name(SyncResourceKind.STOKER, "plant")
        self._path = f"/api/v1/namespaces/{namespace}/configmaps/{name}"
        self._meta = {
            "name": name,
            "namespace": namespace,
            "labels": resource_labels(SyncResourceKind.STOKER, "plant"),
        }
        self._headers = {
            "Authorization": f"Bearer {cluster.token('admin')}",
            "Content-Type": "application/json",
        }
        trust = ssl.create_default_context(cafile=str(cluster.ca_file))
        self._connection = HTTPSConnection(urlsplit(cluster.url).netloc, context=trust, timeout=30)

    def write(self, data: Mapping[str, str]) -> tuple[float, float]:
        """When it was sent, and when the API server had it."""
        body = json.dumps(
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": self._meta, "data": dict(data)}
        )
        self._connection.close()  # the server may have, after a while without questions
        self._ask("GET", None)
        sent = time.time()
        self._ask("PUT", body)
        return sent, time.time()

    def _ask(self, method: str, body: str | None) -> None:
        self._connection.request(method, self._path, body, self._headers)
        answer = self._connection.getresponse()
        said = answer.read()
        if answer.status != 200:
            raise SystemExit(f"the API server answered {answer.status} to {method}: {said[:300]!r}")


class Usage(NamedTuple):
    """What a process and the children that it has waited for have cost so far, and hold now."""

    cpu_seconds: float
    rss_mb: float
    pss_mb: float

    @classmethod
    def of(cls, pid: int) -> Usage:
        folder = Path("/proc", str(pid))
        fields = (folder / "stat").read_text().rpartition(")")[2].split()
        ticks = sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
        sizes = {
            line.split(":")[0]: int(line.split()[1]) / 1024
            for line in (folder / "smaps_rollup").read_text().splitlines()[1:]
        }
        return cls(ticks, sizes["Rss"], sizes["Pss"])


@dataclass(frozen=True, slots=True)
class Tree:
    """The files of a gateway by paths of its data folder: projects of views, signed as a Designer does."""

    views: int
    with_code: int = WITH_CODE

    @classmethod
    def of(cls, files: int) -> Tree:
        return cls((files - PROJECTS - 3 * WITH_CODE) // 2)

    @property
    def count(self) -> int:
        return PROJECTS + 2 * self.views + 3 * self.with_code

    def files(self) -> Changes:
        found: Changes = {
            f"projects/p{number}/project.json": json.dumps({"title": f"Project {number}", "enabled": True})
            for number in range(PROJECTS)
        }
        for number in range(self.views):
            found |= _view(_plain(number), number)
        for number in range(self.with_code):
            found |= _view(_coded(number), 10**5 + number, with_code=True)
        return found

    def change(self, turn: int) -> Changes:
        """10 files of five views changed, 3 deleted, 3 added."""
        found: Changes = {}
        for number in range(5 * turn, 5 * turn + 5):
            found |= _view(_plain(number % self.views), 10**6 * (turn + 1) + number)
        found |= _view(f"projects/p0/{VIEWS}/new/view{turn}", 10**7 + turn, with_code=True)
        found |= dict.fromkeys(_view(_coded(turn), 0, with_code=True))
        if len(found) != TOUCHED or turn >= self.with_code:
            raise SystemExit(f"{len(found)} files would change in turn {turn}, not {TOUCHED}")
        return found


def _plain(number: int) -> str:
    return f"projects/p{number % PROJECTS}/{VIEWS}/area{number // 200}/view{number}"


def _coded(number: int) -> str:
    return f"projects/p{number % PROJECTS}/{VIEWS}/coded/view{number}"


def _view(folder: str, seed: int, *, with_code: bool = False) -> Changes:
    size = random.Random(seed).randint(1_024, 14 * 1_024)  # noqa: S311 - the same in every run
    files = {"view.json": content(seed, size).decode()}
    if with_code:
        files["code.py"] = f"def run():\n\treturn {seed}\n"
    return {f"{folder}/{name}": text for name, text in signed_resource(files).items()}


class Instead(Stoppable):
    """A clone, a folder that rsync fills, and a gateway that reads it."""

    def __init__(self, folder: Path, url: str) -> None:
        self._work, self._data, self._header = folder / "work", folder / "data", folder / "header"
        folder.mkdir()
        (self._data / "projects").mkdir(parents=True)
        self._header.touch(0o600)
        self._header.write_text(f"{HEADER}: {KEY}\n")
        clone = ["git", "clone", "--quiet", "--depth=1", url, str(self._work)]
        subprocess.run(clone, check=True, env=git_environment())
        fill = ["rsync", "-a", f"{self._work}/{SERVICE}/projects/", f"{self._data}/projects/"]
        subprocess.run(fill, check=True)
        self.gateway = Server.start(folder / "gateway.log", "gateway", self._data, "0")

    def stop(self) -> None:
        self.gateway.stop()

    def run(self) -> tuple[float, float]:
        """Wall and CPU seconds."""
        places = (self._work, SERVICE, self._data, self.gateway.url, self._header)
        command = ["/bin/sh", "-c", INSTEAD, "sh", *map(str, places)]
        cpu, begun = _children_cpu(), time.time()
        subprocess.run(command, check=True, env=git_environment())
        wall = time.time() - begun
        eventually(
            lambda: self.gateway.scans_since(begun) >= 2, PATIENCE, "the script's gateway to have read"
        )
        return wall, _children_cpu() - cpu


def _children_cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@cache
def compiled() -> dict[str, str]:
    """Variables with which an agent finds all modules compiled, as in an image: 2 MB less, and quicker."""
    environment = as_installed()
    subprocess.run([sys.executable, "-c", _IMPORT_ALL], check=True, env=environment)
    return {"PYTHONPYCACHEPREFIX": environment["PYTHONPYCACHEPREFIX"]}


def in_place(data_dir: Path, changes: Mapping[str, object]) -> float:
    """When the last of these paths became what it is, told by the file system; raises if one is not."""
    moments = []
    for path, wanted in changes.items():
        place = data_dir / path
        if wanted is None:
            assert not place.exists()
        else:
            assert place.read_bytes() == (wanted if isinstance(wanted, bytes) else str(wanted).encode())
            moments.append(place.stat().st_ctime)
        there = next(one for one in place.parents if one.exists())
        moments.append(there.stat().st_mtime)
    return max(moments)
