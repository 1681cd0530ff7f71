"""The controller as a process, with many resources and gateways on a real API server.

`make bench-controller` prints the tables and keeps them in docs/benchmarks.md. The controller
runs with the chart's arguments and rights; gateways are pods without nodes, and one process
plays all of their agents (`controller_load`). What the controller asks is counted by the API
server itself, in its audit log.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import hmac
import json
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import aiohttp

from agent_setup import Usage
from controller_load import (
    GATEWAYS,
    KEY,
    TOKEN,
    Agents,
    Place,
    Requests,
    furnish,
    places,
    repositories,
)
from harness import HERE, keep, table
from stoker.git.auth.credentials import TOKEN_USER
from stoker.kube.client.client import KubeClient
from stoker.kube.config.config import load_config
from stoker_testkit.chart.process_release import ProcessRelease
from stoker_testkit.cluster import audit_log
from stoker_testkit.cluster.control_plane import ControlPlane
from stoker_testkit.processes import Process
from stoker_testkit.repositories.bare_repository import Repository
from stoker_testkit.wait_until import eventually_async

PATIENCE = 300.0
CALM = 10.0
"""Seconds without a write after which everything is as it should be."""
SETTLED = 65.0
"""Seconds after a start in which looks at repositories are spread over their interval, which is a minute."""


def git_server(folder: Path) -> tuple[Process, str]:
    """In a process of its own, whose work is billed to nobody."""
    script = (
        "import sys, signal\nfrom pathlib import Path\n"
        "from stoker_testkit.repositories.git_http_server import GitHttpServer\n"
        "signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})\n"
        "with GitHttpServer.start(Path(sys.argv[1]), users={sys.argv[2]: sys.argv[3]}) as server:\n"
        "    print(server.url('').rstrip('/'), flush=True)\n    signal.sigwait({signal.SIGTERM})\n"
    )
    log = folder / "git.log"
    argv = [sys.executable, "-c", script, str(folder / "served"), TOKEN_USER, TOKEN]
    process = Process.start("git server", argv, log=log)
    process.wait_ready(lambda: "\n" in log.read_text(), 30)
    return process, log.read_text().splitlines()[0]


class Bench:
    """One cluster with everything in it."""

    def __init__(
        self,
        plane: ControlPlane,
        folder: Path,
        client: KubeClient,
        options: argparse.Namespace,
        wanted: list[Place],
        shards: int = 1,
    ) -> None:
        self.folder, self.options = folder, options
        values = {"webhook": {"enabled": False}, "controller": {"replicas": 1, "shards": shards}}
        self.release = ProcessRelease(plane, folder, values)
        self.places = wanted
        self.agents = Agents(client, self.places)
        self.client = client
        self.repositories: dict[str, Repository] = {}

    @property
    def process(self) -> Process:
        return self.release.running["controller"]

    def usage(self) -> Usage:
        self.process.check()
        return Usage.of(self.process.pid)

    def requests(self, since: float, until: float | None = None) -> Requests:
        return Requests.between(self.folder, since, time.time() if until is None else until)

    async def prepare(self, git_url: str) -> None:
        self.release.install()
        self.repositories = repositories(self.folder / "served", self.places)
        await furnish(self.client, self.places, git_url)

    async def start(self) -> float:
        """Seconds until every resource says that all of its gateways are synced."""
        begun = time.monotonic()
        self.release.start("controller")
        await self.agents.until(self.agents.all_synced, PATIENCE, "waiting for all to be synced")
        return time.monotonic() - begun

    async def calm(self) -> None:
        """Wait until it has written nothing for a while: the last Events are out."""
        await eventually_async(
            lambda: not self.requests(time.time() - CALM).writes,
            PATIENCE,
            lambda: f"it to be calm; it still writes {self.requests(time.time() - CALM).writes}",
            interval=1.0,
        )


class Steady:
    """A time in which nothing changes."""

    def __init__(self, seconds: float, cpu: float, own_cpu: float, requests: Requests, usage: Usage) -> None:
        self.seconds, self.cpu, self.own_cpu = seconds, cpu, own_cpu
        self.requests, self.usage = requests, usage

    @classmethod
    async def watch(cls, bench: Bench, seconds: float) -> Steady:
        own, all_ = _own_cpu(bench.process.pid), bench.usage()
        since = time.time()
        await bench.agents.live(seconds)
        asked, after = bench.requests(since), bench.usage()
        lasted = time.time() - since
        return cls(
            lasted,
            (after.cpu_seconds - all_.cpu_seconds) / lasted,
            (_own_cpu(bench.process.pid) - own) / lasted,
            asked,
            after,
        )


def _own_cpu(pid: int) -> float:
    """Without the children that it has waited for."""
    fields = Path("/proc", str(pid), "stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:13])) / 100


async def webhooks(
    bench: Bench, count: int, ask: Callable[[Place, int], tuple[dict[str, str], object, str]]
) -> list[float]:
    """Seconds from before each call until the watch shows the map with the commit, one after the other."""
    took = []
    async with aiohttp.ClientSession() as session:
        for number in range(count):
            place = bench.places[number * 7 % len(bench.places)]
            headers, body, commit = ask(place, number)
            content = json.dumps(body).encode()
            signed = hmac.new(KEY.encode(), content, hashlib.sha256).hexdigest()
            headers |= {"Content-Type": "application/json", "X-Hub-Signature-256": f"sha256={signed}"}
            url = f"{bench.release.receiver}/webhook/{place.namespace}/{place.name}"
            sent = time.monotonic()
            async with session.post(url, data=content, headers=headers) as answer:
                said = await answer.json()
                if answer.status != 202 or not said["accepted"]:
                    raise SystemExit(f"the receiver answered {answer.status}: {said}")
            await bench.agents.until(
                lambda place=place, commit=commit: bench.agents.told[place][0] == commit,  # type: ignore[misc]
                PATIENCE,
                "waiting for a map",
            )
            took.append(bench.agents.told[place][1] - sent)
            await asyncio.sleep(bench.options.pause)
    return took


def pushes(bench: Bench) -> Callable[[Place, int], tuple[dict[str, str], object, str]]:
    """Pushes to the branch that a resource follows, as GitHub tells of them."""

    def ask(place: Place, number: int) -> tuple[dict[str, str], object, str]:
        commit = bench.repositories[place.namespace].commit(
            {"README.md": f"push {number}"}, branch=place.name
        )
        return {"X-GitHub-Event": "push"}, {"ref": f"refs/heads/{place.name}", "after": commit}, commit

    return ask


def releases(bench: Bench) -> Callable[[Place, int], tuple[dict[str, str], object, str]]:
    """New tags, by a plain call."""

    def ask(place: Place, number: int) -> tuple[dict[str, str], object, str]:
        repository = bench.repositories[place.namespace]
        commit = repository.commit({"README.md": f"release {number}"}, branch=f"release-{number}")
        repository.tag(f"v1.{number}", commit)
        return {}, {"ref": f"v1.{number}"}, commit

    return ask


def quantile(values: Sequence[float], part: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))]


def ms(seconds: float) -> str:
    return f"{seconds * 1000:,.0f} ms"


def named(counts: dict[str, int]) -> str:
    return (
        ", ".join(f"{count} {what}" for what, count in sorted(counts.items(), key=lambda one: -one[1]))
        or "none"
    )


async def measure(bench: Bench, git_url: str) -> str:
    options = bench.options
    count = len(bench.places)
    print(f"making {count} resources with {count * GATEWAYS} gateways …", flush=True)
    await bench.prepare(git_url)
    playing = asyncio.create_task(bench.agents.run())
    try:
        rows = [[f"{count} resources, {count * GATEWAYS:,} gateways", "measured", "target"]]
        since = time.time()
        first = await bench.start()
        cold_cpu = bench.usage().cpu_seconds
        await bench.calm()
        made = bench.requests(since)
        rows += [
            ["first start until every status says that all gateways are synced", f"{first:.1f} s", ""],
            ["… CPU, with that of git", f"{cold_cpu:.1f} s", ""],
            ["… writes", f"{made.writes.total():,} ({made.writes.total() / count:.1f} a resource)", ""],
        ]
        print(table(rows), flush=True)

        bench.release.stop_program("controller")
        bench.agents.synced.clear()
        since = time.time()
        bench.release.start("controller")
        await asyncio.sleep(SETTLED)
        await bench.calm()
        again = bench.requests(since)
        lists = again.of("list")
        lists["list configmaps"] -= 1  # of its own namespace, the one that pauses everything
        rows += [
            ["restart: most lists of one kind", str(max(lists.values())), "1"],
            ["… kinds, and further pages of 500", f"{len(lists)}, {again.of('page').total()}", ""],
            ["restart: writes", named(again.writes), "none"],
        ]
        print(f"idle for {options.idle:g} s …", flush=True)
        steady = await Steady.watch(bench, options.idle)
        minute = 60 / steady.seconds
        polls = sum(steady.requests.of("get").values())
        rows += [
            [
                f"nothing changes, {options.idle:g} s: CPU of one core, with that of git",
                f"{100 * steady.cpu:.1f} %",
                "",
            ],
            ["… without git", f"{100 * steady.own_cpu:.1f} %", ""],
            ["… requests a minute", f"{steady.requests.total * minute:.0f}", ""],
            ["… of these Secrets, one for each look at a repository", f"{polls * minute:.0f}", ""],
            ["… writes", named(steady.requests.writes), "none"],
            ["… lists", named(steady.requests.of("list")), "none"],
            ["RSS", f"{steady.usage.rss_mb:.0f} MB", "≤ 150 MB"],
        ]
        print(table(rows), flush=True)
        latency = [["from a signed webhook to the map, seen by a watch", "median", "p99", "max", "target"]]
        kinds = (("a push to the branch that is followed", pushes), ("a new tag", releases))
        for what, ask in kinds:
            print(f"{options.calls} times: {what} …", flush=True)
            took = await webhooks(bench, options.calls, ask(bench))
            shown = [ms(statistics.median(took)), ms(quantile(took, 0.99)), ms(max(took))]
            latency.append([what, *shown, "p99 < 300 ms"])
        rows.append(["RSS after that", f"{bench.usage().rss_mb:.0f} MB", "≤ 150 MB"])
        return "\n\n".join((table(rows), table(latency)))
    finally:
        playing.cancel()
        with suppress(asyncio.CancelledError):
            await playing


async def main(options: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory(prefix="stoker-bench-") as home:
        folder = Path(home)
        with ControlPlane.start(folder / "plane", apiserver_flags=audit_log.flags(folder)) as plane:
            process, url = git_server(folder)
            with process:
                async with KubeClient(load_config(plane.kubeconfig()), user_agent="bench") as client:
                    bench = Bench(plane, folder, client, options, places(options.resources))
                    with bench.release:
                        found = await measure(bench, url)
    print(found)
    if not options.only_look:
        keep("controller", found)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--resources", type=int, default=500)
    parser.add_argument("--idle", type=float, default=60.0, help="seconds in which nothing changes")
    parser.add_argument("--calls", type=int, default=200, help="webhooks of each sort")
    parser.add_argument("--pause", type=float, default=0.05, help="seconds between two webhooks")
    parser.add_argument("--only-look", action="store_true", help="print, and keep nothing")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that everything is ended in order
    sys.path.insert(0, str(HERE))
    asyncio.run(main(parser.parse_args()))
