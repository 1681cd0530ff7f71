"""The agent as a process, from a changed metadata map to files in place and a scan that was asked for.

`make bench-agent` prints the tables and keeps them in docs/benchmarks.md. The agent, the
API server, the git server and the gateway are processes of their own on one machine. Beside
the agent stands what a user would take instead for the same commit: a script that fetches,
checks out, copies and asks for the scans. What counts is wall time, because somebody waits
for it; CPU time stands beside it.
"""

from __future__ import annotations

import argparse
import shutil
import signal
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Collection, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

from agent_servers import SCANNED
from agent_setup import PATIENCE, TOUCHED, Instead, MapWriter, Server, Tree, Usage, compiled, in_place
from harness import keep, table
from stoker.controller.cache.gateways import shards_for
from stoker.domain.protocol import AgentMetadata, GatewayReport, SyncState
from stoker.domain.refs import CommitId
from stoker_testkit.cluster.control_plane import ControlPlane
from stoker_testkit.environments.agent_environment import FILES_ONLY, AgentEnvironment
from stoker_testkit.environments.agent_pod import AgentPod
from stoker_testkit.repositories.bare_repository import Repository
from stoker_testkit.stoppable import Stoppable
from stoker_testkit.wait_until import eventually

WARM_UP = 2
GRACE = 10.0
"""Seconds in which a gateway that has just come up is left alone."""
CALM = 0.5
TRIMMED = 6.0
"""Seconds after which an agent has given back what its last pass needed."""
BATCH = 10
FIRST_BOOT = ".sync-state/first-boot"


@dataclass(slots=True)
class Timings:
    """Seconds, update after update."""

    ours: list[float] = field(default_factory=list)
    theirs: list[float] = field(default_factory=list)
    ours_cpu: list[float] = field(default_factory=list)
    theirs_cpu: list[float] = field(default_factory=list)
    steps: defaultdict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    requests: list[int] = field(default_factory=list)

    def put_beside(self, wall: float, cpu: float) -> None:
        self.theirs.append(wall)
        self.theirs_cpu.append(cpu)


class Gatewayed(Stoppable):
    """One agent beside one gateway, over a folder of many files."""

    def __init__(self, plant: AgentEnvironment, tree: Tree, git: Server, folder: Path) -> None:
        self._plant, self._tree, self._git = plant, tree, git
        self._pod = plant.pod()
        self._log = folder / "gateway.log"
        self._gateway: Server | None = None
        self._writer = MapWriter(plant.cluster, plant.namespace)

    @property
    def pid(self) -> int:
        assert self._pod.process is not None
        self._pod.process.check()
        return self._pod.process.pid

    @property
    def gateway(self) -> Server:
        assert self._gateway is not None
        return self._gateway

    def stop(self) -> None:
        self._pod.kill()
        if self._gateway is not None:
            self._gateway.stop()

    def boot(self) -> float:
        """The first sync, then the gateway's first start with its grace; seconds of the first sync."""
        plant, pod = self._plant, self._pod
        commit = plant.commit(self._tree.files())
        plant.repository.git("repack", "-adq")  # as a forge has it
        plant.publish(commit, agent_spec=plant.spec())
        environment, begun = compiled(), time.time()
        pod.start_in_cluster(plant.cluster, environment)
        eventually(lambda: pod.ask("/startupz")[0] == 200, PATIENCE, pod.tail)
        seconds = time.time() - begun
        port = pod.annotations["stoker.io/gateway-port"]
        self._gateway = Server.start(self._log, "gateway", pod.data_dir, port)
        up = time.time()
        plant.until_synced(pod, commit)
        mark = pod.data_dir / FIRST_BOOT
        eventually(lambda: not mark.exists() and time.time() - up > GRACE, PATIENCE, pod.tail)
        return seconds

    def update(self, turn: int, timings: Timings) -> None:
        """One commit, from the map to the report; what it took is put down."""
        plant, pod = self._plant, self._pod
        changes = self._tree.change(turn)
        commit = plant.commit(changes)
        plant.metadata = _at(plant, commit)
        time.sleep(CALM)
        cpu = Usage.of(self.pid).cpu_seconds
        sent, stored = self._writer.write(plant.metadata.data())
        eventually(lambda: self.gateway.scans_since(sent) >= 2, PATIENCE, pod.tail)
        plant.until_synced(pod, commit)
        git, asked = self._git.since(sent), self.gateway.since(sent)
        posts = [one for one in asked if one.what.startswith("POST")]
        scans = [one.begun for one in posts if "/scan/" in one.what]
        done = max(*scans, in_place(pod.data_dir, changes))
        timings.ours.append(done - sent)
        timings.ours_cpu.append(Usage.of(self.pid).cpu_seconds - cpu)
        timings.requests.append(sum(one.what != SCANNED and one.begun <= done for one in asked))
        moments = {
            "the API server has it": stored,
            "git server: first request": min(one.begun for one in git),
            "git server: last answer": max(one.ended for one in git),
            "gateway: first question (Designers)": min(one.begun for one in asked),
            "gateway: scan locks held": max(one.begun for one in posts if "/scan-lock/" in one.what),
            "last file in place": in_place(pod.data_dir, changes),
            "gateway: scan of projects": min(scans),
            "gateway: scan of config": max(scans),
        }
        for step, moment in moments.items():
            timings.steps[step].append(moment - sent)


def _at(plant: AgentEnvironment, commit: CommitId) -> AgentMetadata:
    return replace(plant.metadata, commit=commit)


def idleness(pid: int, seconds: float) -> tuple[Usage, float]:
    """What an agent holds after so many seconds without work, and its share of one CPU in per cent."""
    time.sleep(TRIMMED)
    before, begun = Usage.of(pid), time.monotonic()
    time.sleep(seconds)
    after = Usage.of(pid)
    return after, 100 * (after.cpu_seconds - before.cpu_seconds) / (time.monotonic() - begun)


class Fleet(Stoppable):
    """Many agents without a gateway, one resource, one API server.

    They report to as many status maps as the controller would give them.
    """

    def __init__(self, plant: AgentEnvironment, count: int) -> None:
        self._plant = plant
        self._pods = {f"g{number}": self._pod(f"g{number}") for number in range(count)}
        self._tree = Tree(views=40, with_code=20)
        self._writer = MapWriter(plant.cluster, plant.namespace)
        self._shards: dict[str, int] = {}

    @property
    def files(self) -> int:
        return self._tree.count

    def stop(self) -> None:
        for pod in self._pods.values():
            pod.kill()

    def _pod(self, name: str) -> AgentPod:
        return self._plant.pod(name, name, talks=False)

    def start(self) -> float:
        """All of them, a few at a time, until each has had its first sync."""
        plant, begun = self._plant, time.monotonic()
        commit = plant.commit(self._tree.files())
        names = list(self._pods)
        self._shards = shards_for(names, {})
        for shard in {0, *self._shards.values()}:
            plant.maps.prepare_status(shard)
        plant.publish(commit, agent_spec=plant.spec(gateway=FILES_ONLY), status_shards=self._shards)
        for first in range(0, len(names), BATCH):
            batch = names[first : first + BATCH]
            for name in batch:
                self._pods[name].start_in_cluster(plant.cluster, compiled())
            self._until(batch, commit, 0.5)
        return time.monotonic() - begun

    def update(self, turn: int) -> float:
        """Seconds from before the map is written until the last of them reports the commit."""
        plant = self._plant
        commit = plant.commit(self._tree.change(turn))
        plant.metadata = _at(plant, commit)
        sent, _ = self._writer.write(plant.metadata.data())
        self._until(list(self._pods), commit, 0.1)
        return time.time() - sent

    def usage(self) -> list[Usage]:
        return [Usage.of(pod.process.pid) for pod in self._pods.values() if pod.process is not None]

    def _until(self, names: Collection[str], commit: CommitId, interval: float) -> None:
        def missing() -> list[str]:
            told: dict[str, str] = {}
            for shard in {0, *self._shards.values()}:
                told |= self._plant.maps.status(shard) or {}
            return [name for name in names if name not in told or not _is_at(told[name], commit)]

        def explained() -> str:
            left = missing()
            return (
                f"{len(left)} of {len(names)} to report; {left[0]}: {self._pods[left[0]].tail()}"
                if left
                else ""
            )

        eventually(lambda: not missing(), PATIENCE, explained, interval=interval)


def _is_at(text: str, commit: CommitId) -> bool:
    report = GatewayReport.parse(text)
    return report.sync_status is SyncState.SYNCED and report.synced_commit == commit


def ms(seconds: float) -> str:
    return f"{seconds * 1000:,.0f} ms"


def spread(seconds: Sequence[float]) -> list[str]:
    return [ms(statistics.median(seconds)), ms(min(seconds)), ms(max(seconds))]


def update_tables(files: int, timings: Timings) -> str:
    wall = statistics.median(timings.ours) / statistics.median(timings.theirs)
    ours, theirs = statistics.mean(timings.ours_cpu), statistics.mean(timings.theirs_cpu)
    script = "git fetch, checkout, rsync, curl"
    rows = [
        ["wall time", "median", "min", "max", "ratio", "CPU, mean", "ratio", "target"],
        [
            "agent: map sent to files in place and both scans posted",
            *spread(timings.ours),
            f"{wall:.2f}",
            ms(ours),
            f"{ours / theirs:.2f}",
            "≤ 150 ms",
        ],
        [script, *spread(timings.theirs), "1", ms(theirs), "1", ""],
    ]
    steps = [["from the map being sent", "median", "min", "max"]]
    steps += [[step, *spread(seconds)] for step, seconds in timings.steps.items()]
    asked = f"Requests to the gateway until then: {statistics.median(timings.requests):.0f}."
    title = f"**{TOUCHED} of {files:,} files changed** ({len(timings.ours)} updates)"
    return "\n\n".join((title, table(rows), table(steps), asked))


def measure_one(plane: ControlPlane, folder: Path, options: argparse.Namespace) -> str:
    """The tables of one agent with its gateway."""
    timings, tree = Timings(), Tree.of(options.files)
    with ExitStack() as stage:
        git = stage.enter_context(Server.start(folder / "git.log", "git", folder / "served"))
        repository = Repository.create(folder / "served/plant.git")
        plane.create_namespace("one")
        url = f"{git.url}/plant.git"
        plant = stage.enter_context(AgentEnvironment.create(plane, "one", folder / "pods", repository, url))
        one = stage.enter_context(Gatewayed(plant, tree, git, folder))
        first = one.boot()
        print(
            f"first sync of {tree.count:,} files after {first:.1f} s, idle for {options.idle:g} s …",
            flush=True,
        )
        idle, share = idleness(one.pid, options.idle)
        instead = stage.enter_context(Instead(folder / "instead", url))
        print(f"{options.updates} updates …", flush=True)
        for turn in range(WARM_UP + options.updates):
            noted = timings if turn >= WARM_UP else Timings()
            one.update(turn, noted)
            noted.put_beside(*instead.run())
        later, _ = idleness(one.pid, 0)
    memory = [
        [f"idle agent after a sync of {tree.count:,} files", "measured", "target"],
        ["RSS", f"{idle.rss_mb:.1f} MB", "≤ 60 MB"],
        ["PSS", f"{idle.pss_mb:.1f} MB", ""],
        [f"RSS after {options.updates + WARM_UP} updates", f"{later.rss_mb:.1f} MB", "≤ 60 MB"],
        [f"CPU in {options.idle:g} s, of one core", f"{share:.3f} %", "≤ 0.2 %"],
    ]
    return "\n\n".join((update_tables(tree.count, timings), table(memory)))


def measure_fleet(plane: ControlPlane, folder: Path, options: argparse.Namespace) -> str:
    """The table of many agents."""
    with ExitStack() as stage:
        git = stage.enter_context(Server.start(folder / "git.log", "git", folder / "served"))
        repository = Repository.create(folder / "served/plant.git")
        plane.create_namespace("fleet")
        url = f"{git.url}/plant.git"
        plant = stage.enter_context(AgentEnvironment.create(plane, "fleet", folder / "pods", repository, url))
        fleet = stage.enter_context(Fleet(plant, options.agents))
        print(f"starting {options.agents} agents …", flush=True)
        started = fleet.start()
        seconds = [fleet.update(turn) for turn in range(options.rounds)]
        time.sleep(TRIMMED)
        held = fleet.usage()
    rows = [
        [f"{options.agents} agents, {fleet.files} files each, no gateway", "measured", "target"],
        [
            f"map sent until the last reports the commit ({TOUCHED} files), median of {options.rounds}",
            f"{statistics.median(seconds):.1f} s",
            "≤ 30 s",
        ],
        ["the slowest round", f"{max(seconds):.1f} s", "≤ 30 s"],
        [f"first syncs, started {BATCH} at a time", f"{started:.0f} s", ""],
        ["RSS of all", f"{sum(one.rss_mb for one in held):,.0f} MB", ""],
        ["PSS of all", f"{sum(one.pss_mb for one in held):,.0f} MB", ""],
    ]
    return table(rows)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--updates", type=int, default=15)
    parser.add_argument("--idle", type=float, default=60.0, help="seconds of idleness")
    parser.add_argument("--agents", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=3, help="commits for all agents")
    parser.add_argument("--volume", type=Path, default=Path(tempfile.gettempdir()))
    parser.add_argument("--only-look", action="store_true", help="print, and keep nothing")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that everything is ended in order
    if missing := [name for name in ("rsync", "curl") if shutil.which(name) is None]:
        raise SystemExit(
            f"{' and '.join(missing)} is what this is measured against: apt-get install rsync curl"
        )
    parts = []
    for number, part in enumerate((measure_one, measure_fleet)):
        if (options.updates, options.agents)[number] < 1:
            continue
        with ControlPlane.start() as plane, tempfile.TemporaryDirectory(dir=options.volume) as folder:
            parts.append(part(plane, Path(folder), options))
        print(parts[-1], flush=True)
    if not options.only_look:
        keep("agent", "\n\n".join(parts))


if __name__ == "__main__":
    main()
