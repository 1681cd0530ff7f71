"""Half an hour of a plant's life on a real node, with faults: `make soak`, SOAK_MINUTES to change how long.

Gateways follow a repository and the reverser writes to another, while agents are killed, the
API server goes away, git refuses connections and the network is silent. What must hold: every
change arrives on every gateway and in git, memory stays flat, and of the changes no more than
the error budget allows are late. The table is printed in the end; the exit code says whether
all of it held.
"""

from __future__ import annotations

import itertools
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path

from stoker.domain.refs import CommitId
from stoker_testkit.chart.process_release import HOME
from stoker_testkit.environments.agent_environment import project
from stoker_testkit.environments.operator_environment import GATEWAY
from stoker_testkit.node import network_outages
from stoker_testkit.node.memory_growth import MIB, MemoryLog
from stoker_testkit.node.operator_cluster import NodeOperatorCluster, TimedSteps
from stoker_testkit.node.operator_node_environment import NodeSite
from stoker_testkit.node.unshare import STATE
from stoker_testkit.repositories.bare_repository import Repository
from stoker_testkit.repositories.git_http_server import GitHttpServer
from stoker_testkit.reverser.reverser_environment import ReverserSite, files_of
from stoker_testkit.wait_until import eventually

GATEWAYS = ("filler", "capper", "labeler")
NAMESPACE, RESOURCE = "bottling", "line"
IN_TIME_SECONDS = 60.0
"""What is asked of a change, from the moment on when nothing is broken any more."""
IN_TIME_SHARE = 0.95
"""Of all arrivals; the rest is the error budget."""
LOST_SECONDS = 300.0
"""A change that has not arrived by then is lost."""
OUTAGE_SECONDS = 15.0
SAMPLE_SECONDS = 3.0
GROWTH_MIB = 12.0
"""What a container may grow by, along the line through its samples after the first third."""


@dataclass
class Change:
    """One commit for the gateways and one object for the reverser."""

    fault: str
    synced_seconds: float
    written_seconds: float


@dataclass
class Soak:
    """The plant and what became of it."""

    stage: NodeOperatorCluster
    site: NodeSite
    reverser: ReverserSite
    plant: Repository
    cluster: Repository
    server: GitHttpServer
    memory: MemoryLog
    changes: list[Change] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    _sampled: float = 0.0
    _victims: Iterator[str] = field(default_factory=lambda: itertools.cycle(GATEWAYS))

    def faults(self) -> Iterator[tuple[str, Callable[[], AbstractContextManager[None]]]]:
        """One after the other, for ever, with nothing in between."""
        node, git = self.stage.node, self.server.url("")
        kinds: list[tuple[str, Callable[[], AbstractContextManager[None]]]] = [
            ("agent killed", self._agent_killed),
            ("API server restarted", lambda: network_outages.api_server_away(node)),
            ("git server down", lambda: network_outages.server_down(git)),
            ("network stalled", lambda: network_outages.network_stalled(git, node.plane.url)),
        ]
        for kind in itertools.cycle(kinds):
            yield "nothing", nullcontext
            yield kind

    def play(self, version: int, name: str, fault: Callable[[], AbstractContextManager[None]]) -> None:
        """Make a change in the middle of a fault, and wait until it has arrived everywhere."""
        with fault():
            commit = self.plant.commit(files(version), message=f"Version {version}")
            if name != "API server restarted":
                self.reverser.config_map("recipe", {"version": f"v{version}"})
            if name != "nothing":
                time.sleep(OUTAGE_SECONDS)  # how long the fault lasts
        began = (
            time.monotonic()
        )  # what is broken cannot be passed; what counts is how long it takes after that
        if name == "API server restarted":
            self.reverser.config_map("recipe", {"version": f"v{version}"})
        wanted = {
            "on all gateways": lambda: self._has(commit, version),
            "in git": lambda: self._written(version),
        }
        synced, written = self._arrivals(version, wanted, began)
        self.changes.append(Change(name, synced, written))
        print(
            f"{name:22} version {version}: {synced:5.1f} s to all gateways, {written:5.1f} s to git",
            flush=True,
        )

    @contextmanager
    def _agent_killed(self) -> Iterator[None]:
        """One at a time and in turn, because a kubelet lets a container wait ever longer that dies again
        within ten minutes; what it lets it wait belongs to the fault."""
        name = next(self._victims)
        before = self.site.agent(name)["restartCount"]
        self.site.crash(name)
        yield
        eventually(
            lambda: (seen := self.site.agent(name))["restartCount"] > before and "running" in seen["state"],
            LOST_SECONDS,
            lambda: f"the kubelet starts the agent of {name} again: {self.site.agent(name)}",
        )

    def _arrivals(self, version: int, wanted: Mapping[str, Callable[[], bool]], began: float) -> list[float]:
        """How long each took from then on; what does not come is lost."""
        taken: dict[str, float] = {}
        while len(taken) < len(wanted):
            now = time.monotonic() - began
            for where, condition in wanted.items():
                if where not in taken and condition():
                    taken[where] = now
                elif where not in taken and now > LOST_SECONDS:
                    self.lost.append(f"version {version} {where}")
                    taken[where] = now
            self._sample()
            time.sleep(0.2)
        return [taken[where] for where in wanted]

    def _has(self, commit: CommitId, version: int) -> bool:
        title = "projects/{0}/project.json"
        files_are = all(
            self.site.file(name, title.format(name)) == project(name, version)[title.format(name)]
            for name in GATEWAYS
        )
        status = self.site.status("Stoker", RESOURCE)
        told = self.site.condition("Stoker", RESOURCE, "AllGatewaysSynced")
        return files_are and status.get("lastSyncCommit") == commit and told[0] == "True"

    def _written(self, version: int) -> bool:
        file = files_of(self.cluster).get(self.reverser.map_path("recipe"), b"")
        return f"version: v{version}\n".encode() in file

    def _sample(self) -> None:
        now = time.monotonic()
        if now - self._sampled >= SAMPLE_SECONDS:
            self._sampled = now
            self.memory.sample(now, (HOME, NAMESPACE))

    def report(self, began: float) -> bool:
        """Print what became of it; whether all of it held."""
        print(
            f"\n{len(self.changes)} changes, {len(self.lost)} lost{''.join(f': {one}' for one in self.lost)}"
        )
        for name in dict.fromkeys(one.fault for one in self.changes):
            mine = [one for one in self.changes if one.fault == name]
            worst = max(max(one.synced_seconds, one.written_seconds) for one in mine)
            print(f"  {name:22} {len(mine):3} changes, the slowest arrived after {worst:.1f} s")
        arrivals = [taken for one in self.changes for taken in (one.synced_seconds, one.written_seconds)]
        late = sum(taken > IN_TIME_SECONDS for taken in arrivals)
        budget = (1 - IN_TIME_SHARE) * len(arrivals)
        print(
            f"error budget: {late} of {len(arrivals)} arrivals took more than {IN_TIME_SECONDS:.0f} s; "
            f"{budget:.1f} may"
        )
        return self._flat(began) and not self.lost and late <= budget

    def _flat(self, began: float) -> bool:
        """Containers that lived through the last two thirds; those that were killed begin anew."""
        now = time.monotonic()
        warm = began + (now - began) / 3
        print(
            "memory after the first third, in the middle of the rest and in the end, where nothing restarted:"
        )
        verdicts = []
        for one in sorted(self.memory.series.values(), key=lambda one: one.name):
            rest = one.since(warm)
            if len(rest.samples) < 3 or one.samples[0][0] > warm or rest.samples[-1][0] < now - 60:
                continue
            fits = rest.growth() <= GROWTH_MIB
            verdicts.append(fits)
            middle = rest.samples[len(rest.samples) // 2][1] / MIB
            sizes = f"{rest.samples[0][1] / MIB:6.1f}, {middle:6.1f}, {one.latest:6.1f} MiB"
            line = f"{sizes}, {rest.slope():+7.1f} MiB/h"
            print(f"  {one.name:62} {line}{'' if fits else '  grows'}")
        if not verdicts:
            print("  none: that was too short to judge")
        return bool(verdicts) and all(verdicts)


def files(version: int) -> dict[str, str]:
    return {
        f"services/{name}/{path}": text for name in GATEWAYS for path, text in project(name, version).items()
    }


def open_soak(stage: NodeOperatorCluster, running: ExitStack, folder: Path) -> Soak:
    repositories = folder / "repositories"
    plant = Repository.create(repositories / "plant.git")
    cluster = Repository.create(repositories / "cluster.git")
    first = plant.commit(files(0))
    server = running.enter_context(GitHttpServer.start(repositories, host=stage.address))
    site = stage.site(NAMESPACE, folder)
    site.apply(
        "Stoker",
        RESOURCE,
        git={"repo": server.url("plant.git"), "ref": "main"},
        gateway=GATEWAY,
        polling={"interval": "5s"},
    )
    for name in GATEWAYS:
        site.gateway_pod(name, service_path=f"services/{name}")
    reverser = ReverserSite(stage.cluster, NAMESPACE, folder, url=server.url("cluster.git"))
    reverser.follow_maps()
    soak = Soak(stage, site, reverser, plant, cluster, server, MemoryLog(stage.node))
    eventually(
        lambda: soak._has(first, 0), LOST_SECONDS, lambda: site.describe("Stoker", RESOURCE), interval=0.5
    )
    return soak


def main() -> int:
    state = os.environ.get(STATE)
    if not state:
        sys.stderr.write("a soak takes a real node\n")
        return 1
    minutes = float(os.environ.get("SOAK_MINUTES") or 30)
    with ExitStack() as running, tempfile.TemporaryDirectory(prefix="stoker-soak-") as folder:
        steps = TimedSteps()
        stage = running.enter_context(NodeOperatorCluster.open(Path(state), steps))
        with steps.step("the first sync of all gateways"):
            soak = open_soak(stage, running, Path(folder))
        began = time.monotonic()
        for version, (name, fault) in enumerate(soak.faults(), start=1):
            soak.play(version, name, fault)
            if time.monotonic() - began > minutes * 60 or soak.lost:
                break
        held = soak.report(began)
        if soak.lost:
            print(soak.site.describe("Stoker", RESOURCE), stage.describe(), sep="\n")
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
