"""How cost grows with size, within the requests and limits that the chart gives by default.

`make bench-scale` prints the tables and keeps them in docs/capacity.md. The controller is
that of `bench/controller.py`, with 10 to 500 resources and 50 to 1,000 gateways, and at the
last size also divided into two shards; the reverser is that of `bench/reverser.py`, with
1,000 to 20,000 objects. Both run in a cgroup with the chart's limits, where one can be made.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from agent_setup import Usage
from cgroup_limits import Held, Limits
from controller import PATIENCE, Bench, git_server, ms, pushes, quantile, webhooks
from controller_load import places
from harness import HERE, keep, table
from reverser import Bench as ReverserBench
from reverser_setup import CRDS, HOME, Peak, Reverser, Setting, watched
from reverser_setup import places as objects
from stoker.kube.client.client import KubeClient
from stoker.kube.config.config import load_config
from stoker_testkit.chart.helm import Helm
from stoker_testkit.cluster import audit_log
from stoker_testkit.cluster.control_plane import ControlPlane

SIZES = "10/50,50/200,100/500,500/1000,500/1000/2"
OBJECTS = "1000,5000,20000"


class Size(NamedTuple):
    """Resources, all gateways, and shards of the controller."""

    resources: int
    gateways: int
    shards: int = 1

    @classmethod
    def parse(cls, text: str) -> Size:
        size = cls(*map(int, text.split("/")))
        if size.gateways % size.resources:
            raise SystemExit(f"{text}: gateways cannot be divided evenly among resources")
        return size

    def __str__(self) -> str:
        sharded = f", {self.shards} shards" if self.shards > 1 else ""
        return f"{self.resources:,} / {self.gateways:,}{sharded}"


@dataclass
class Watch:
    """The processes that are measured: what they cost together, and what one of them holds at most."""

    held: dict[int, Held] = field(default_factory=dict)
    peaks: dict[int, Peak] = field(default_factory=dict)

    @contextmanager
    def over(self, limits: Limits, *pids: int) -> Iterator[None]:
        with ExitStack() as stack:
            for pid in pids:
                self.held[pid] = Held.to(limits, pid)
                self.peaks[pid] = stack.enter_context(watched(pid))
            yield

    def release(self) -> None:
        for held in self.held.values():
            held.release()

    def cpu(self) -> float:
        return sum(Usage.of(pid).cpu_seconds for pid in self.held)

    def rss(self) -> float:
        return max(Usage.of(pid).rss_mb for pid in self.held)

    def peak(self) -> float:
        return max(peak.mb for peak in self.peaks.values())

    def throttled(self) -> float:
        return sum(held.throttled_seconds() for held in self.held.values())

    @property
    def for_real(self) -> bool:
        return all(held.for_real for held in self.held.values())


def share(cores: float, limits: Limits) -> str:
    """CPU at rest, and how much of what was asked for that is."""
    return f"{1000 * cores:.0f}m ({100 * cores / limits.request_cores:.0f} %)"


def memory(mb: float, limits: Limits) -> str:
    return f"{mb:.0f} MB ({100 * mb * (1 << 20) / limits.bytes:.0f} %)"


class Figures(NamedTuple):
    """One row, and under which limits it was measured."""

    row: list[str]
    limits: Limits
    for_real: bool


CONTROLLER = [
    "resources / gateways",
    "start to steady",
    "CPU of that",
    "CPU at rest (of the request)",
    "RSS (of the limit)",
    "peak with git",
    "webhook to map, median",
    "p99",
    "throttled",
]
REVERSER = [
    "objects",
    "rule to complete push",
    "CPU of that",
    "CPU at rest (of the request)",
    "RSS (of the limit)",
    "peak with git",
    "change to push, median",
    "max",
    "throttled",
]


async def controller(size: Size, options: argparse.Namespace) -> Figures:
    """One cluster of one size."""
    wanted = places(size.resources, size.gateways // size.resources)
    with tempfile.TemporaryDirectory(prefix="stoker-bench-") as home:
        folder = Path(home)
        with ControlPlane.start(folder / "plane", apiserver_flags=audit_log.flags(folder)) as plane:
            process, url = git_server(folder)
            with process:
                async with KubeClient(load_config(plane.kubeconfig()), user_agent="bench") as client:
                    bench = Bench(plane, folder, client, options, wanted, size.shards)
                    with bench.release:
                        await bench.prepare(url)
                        return await _measured(bench, size, options)


async def _measured(bench: Bench, size: Size, options: argparse.Namespace) -> Figures:
    release, watch = bench.release, Watch()
    limits = Limits.of(release.pods["controller"]["containers"][0]["resources"])
    playing = asyncio.create_task(bench.agents.run())
    begun = time.monotonic()
    release.start()
    pids = [process.pid for process in release.running.values()]
    try:
        with watch.over(limits, *pids):
            await bench.agents.until(bench.agents.all_synced, PATIENCE, "waiting for all to be synced")
            steady, spent = time.monotonic() - begun, watch.cpu()
            await asyncio.sleep(options.settle)
            await bench.calm()
            cpu, since = watch.cpu(), time.monotonic()
            await bench.agents.live(options.idle)
            rest = (watch.cpu() - cpu) / (time.monotonic() - since)
            took = await webhooks(bench, options.calls, pushes(bench))
            for process in release.running.values():
                process.check()
            row = [
                str(size),
                f"{steady:.1f} s",
                f"{spent:.1f} s",
                share(rest, limits),
                memory(watch.rss(), limits),
                f"{watch.peak():.0f} MB",
                ms(statistics.median(took)),
                ms(quantile(took, 0.99)),
                f"{watch.throttled():.1f} s",
            ]
            return Figures(row, limits, watch.for_real)
    finally:
        playing.cancel()
        with suppress(asyncio.CancelledError):
            await playing
        release.stop()
        watch.release()


def reverser(counts: list[int], options: argparse.Namespace) -> Iterator[Figures]:
    """One cluster that is filled further and further, and a reverser that begins anew with each size."""
    with (
        ControlPlane.start() as plane,
        tempfile.TemporaryDirectory() as home,
        ExitStack() as stage,
    ):
        folder = Path(home)
        limits = _reversers(folder)
        plane.kubectl("apply", "--server-side", "-f", str(CRDS))
        plane.create_namespace(HOME)
        bench = ReverserBench(plane, folder, stage, options.changes)
        filled = 0
        for count in counts:
            wanted = objects(count)
            bench.fill(wanted[filled:])
            filled = count
            remote, url = bench.repository(f"objects-{count}")
            watch = Watch()
            try:
                with (
                    Reverser(plane, folder / f"objects-{count}") as process,
                    watch.over(limits, process.pid),
                ):
                    setting = Setting(plane, url, "0s")
                    before = watch.cpu()
                    begun = setting.begin()
                    ended = remote.until_complete(count, {})
                    spent = watch.cpu() - before
                    walls, _ = bench.singly(remote, process, wanted)
                    cpu, since = watch.cpu(), time.monotonic()
                    time.sleep(options.idle)
                    rest = (watch.cpu() - cpu) / (time.monotonic() - since)
                    row = [
                        f"{count:,}",
                        f"{ended - begun:.1f} s",
                        f"{spent:.1f} s",
                        share(rest, limits),
                        memory(watch.rss(), limits),
                        f"{watch.peak():.0f} MB",
                        ms(statistics.median(walls)),
                        ms(max(walls)),
                        f"{watch.throttled():.1f} s",
                    ]
                    yield Figures(row, limits, watch.for_real)
                    setting.end()
            finally:
                watch.release()


def _reversers(folder: Path) -> Limits:
    """As the chart gives them by default."""
    for one in Helm(folder).template({"reverser": {"enabled": True}}):
        pod = one["spec"]["template"]["spec"] if one["kind"] == "Deployment" else {}
        for container in pod.get("containers", []):
            if container["args"][0] == "reverser":
                return Limits.of(container["resources"])
    raise SystemExit("the chart has no reverser")


def shown(what: str, head: list[str], found: list[Figures]) -> str:
    held = (
        "held by a cgroup" if all(one.for_real for one in found) else "not held: no cgroup could be made here"
    )
    return f"{what}: {found[0].limits}, {held}.\n\n{table([head, *(one.row for one in found)])}"


def main(options: argparse.Namespace) -> None:
    parts = []
    found: list[Figures] = []
    for text in filter(None, options.sizes.split(",")):
        size = Size.parse(text)
        print(f"the controller with {size} …", flush=True)
        found.append(asyncio.run(controller(size, options)))
        print(shown("The controller", CONTROLLER, found), flush=True)
    if found:
        parts.append(shown("The controller", CONTROLLER, found))
    found = []
    counts = [int(each) for each in options.objects.split(",") if each]
    for figures in reverser(counts, options) if counts else ():
        found.append(figures)
        print(shown("The reverser", REVERSER, found), flush=True)
    if found:
        parts.append(shown("The reverser", REVERSER, found))
    if not options.only_look:
        keep("scale", "\n\n".join(parts), "capacity.md")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", default=SIZES, help="RESOURCES/GATEWAYS[/SHARDS], with commas between")
    parser.add_argument("--objects", default=OBJECTS, help="for the reverser, rising")
    parser.add_argument("--idle", type=float, default=60.0, help="seconds in which nothing changes")
    parser.add_argument("--settle", type=float, default=65.0, help="seconds over which looks at git spread")
    parser.add_argument("--calls", type=int, default=100, help="webhooks")
    parser.add_argument("--changes", type=int, default=15, help="single changes of objects")
    parser.add_argument("--pause", type=float, default=0.05, help="seconds between two webhooks")
    parser.add_argument("--only-look", action="store_true", help="print, and keep nothing")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that everything is ended in order
    sys.path.insert(0, str(HERE))
    main(parser.parse_args())
