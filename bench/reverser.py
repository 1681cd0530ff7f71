"""The cluster to git, measured on the real API server, with git's own http backend as the remote.

`make bench-reverser` prints the tables and keeps them in docs/benchmarks.md. A user
without Stoker runs a script every minute that writes what `kubectl get` says and
pushes it; it stands beside ours where there is something to compare.
"""

from __future__ import annotations

import argparse
import resource
import signal
import statistics
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from agent_setup import Server
from harness import keep, table
from reverser_setup import (
    CRDS,
    HOME,
    Cluster,
    Instead,
    Place,
    Remote,
    Reverser,
    Setting,
    places,
    watched,
)
from stoker_testkit.cluster.control_plane import ControlPlane
from stoker_testkit.repositories.bare_repository import Repository

OBJECTS, MANY_OBJECTS = 2_000, 20_000
FEW_FILES, MANY_FILES = 2_000, 50_000
UPDATES, SECONDS = 1_000, 10.0
DEFAULT_WINDOW = 20.0


@dataclass
class Rows:
    """Rows of the table to come."""

    rows: list[list[str]] = field(default_factory=lambda: [["what", "measured", "target", "a script"]])

    def add(self, what: str, measured: str, target: str = "", instead: str = "") -> None:
        self.rows.append([what, measured, target, instead])
        print(f"{what}: {measured} (wanted {target or '-'})", flush=True)


class Bench:
    """One control plane, one git server, and as many reversers as there are things to measure."""

    def __init__(self, plane: ControlPlane, folder: Path, stage: ExitStack, changes: int) -> None:
        self._plane, self._folder, self._stage, self._changes = plane, folder, stage, changes
        self._git = stage.enter_context(Server.start(folder / "git.log", "git", folder / "served"))
        self._cluster = Cluster(plane)
        stage.callback(self._cluster.close)
        self._turn = 0
        self.rows = Rows()

    def repository(self, name: str, files: int = 0) -> tuple[Remote, str]:
        """An empty one, or one in which somebody else keeps so many files."""
        made = Repository.create(self._folder / f"served/{name}.git")
        if files:
            made.commit(
                {f"apps/{number // 100}/file-{number}.yaml": f"n: {number}\n" for number in range(files)}
            )
            made.git("repack", "-adq")
        return Remote(made), f"{self._git.url}/{name}.git"

    def fill(self, wanted: list[Place]) -> None:
        print(f"filling the cluster with {len(wanted):,} ConfigMaps …", flush=True)
        self._cluster.fill(wanted)

    def script(self) -> tuple[float, float, float]:
        """Wall and CPU seconds of a first run of the script, and the wall seconds of a later one."""
        _, url = self.repository("script")
        instead = Instead(self._folder / "script", url, self._plane)
        begun, cpu = time.monotonic(), _children_cpu()
        instead.run()
        first, cost = time.monotonic() - begun, _children_cpu() - cpu
        again = []
        for place in places(self._changes):
            self._change(place)
            begun = time.monotonic()
            instead.run()
            again.append(time.monotonic() - begun)
        return first, cost, statistics.median(again)

    def main_part(self, wanted: list[Place]) -> None:
        """A new rule, single changes, and a steady stream of them."""
        first, cost, again = self.script()
        remote, url = self.repository("main")
        with Reverser(self._plane, self._folder / "main") as reverser, watched(reverser.pid) as peak:
            setting = Setting(self._plane, url, "0s")
            before = reverser.cpu_seconds()
            begun = setting.begin()
            ended = remote.until_complete(len(wanted), {})
            spent = reverser.cpu_seconds() - before
            self.rows.add(
                f"rule created, {len(wanted):,} ConfigMaps pushed",
                f"{ended - begun:.2f} s",
                "≤ 1.5 s",
                f"{first:.2f} s",
            )
            self.rows.add("the same, CPU", f"{spent:.2f} s", "≤ 1.2 s", f"{cost:.2f} s")
            walls, _ = self.singly(remote, reverser, wanted)
            self.rows.add(
                f"one change, pushed (median of {self._changes})",
                f"{statistics.median(walls) * 1000:.0f} ms",
                "≤ 150 ms",
                f"{again * 1000:.0f} ms",
            )
            self._stream(remote, reverser, wanted)
            self.rows.add(
                f"peak RSS so far, children included, {len(wanted):,} objects",
                f"{peak.mb:.0f} MB",
                "≤ 100 MB",
            )
            setting.end()

    def default_window(self, wanted: list[Place]) -> None:
        remote, url = self.repository("window")
        with Reverser(self._plane, self._folder / "window") as reverser:
            setting = Setting(self._plane, url, f"{DEFAULT_WINDOW:g}s")
            setting.begin()
            remote.until_complete(len(wanted), {})
            time.sleep(1.0)
            before = remote.tip()
            sent = self._change(wanted[0])
            moved = remote.until_moved(before)
            self.rows.add(
                f"one change with the default window of {DEFAULT_WINDOW:g} s",
                f"{moved - sent:.1f} s",
                f"≤ {DEFAULT_WINDOW + 1:g} s",
            )
            setting.end()
            print(f"(reverser used {reverser.cpu_seconds():.2f} s of CPU)")

    def large_repository(self, wanted: list[Place]) -> None:
        """The CPU of a change does not grow with what lies beside it."""
        costs = []
        for files in (FEW_FILES, MANY_FILES):
            remote, url = self.repository(f"files-{files}", files)
            with Reverser(self._plane, self._folder / f"files-{files}") as reverser:
                setting = Setting(self._plane, url, "0s")
                setting.begin()
                remote.until_complete(len(wanted), {})
                _, cpu = self.singly(remote, reverser, wanted)
                costs.append(cpu)
                setting.end()
        self.rows.add(
            f"CPU of a change, {MANY_FILES:,} files in the repository against {FEW_FILES:,}",
            f"{costs[1] / costs[0]:.2f}x ({costs[1] * 1000:.0f} ms)",
            "≤ 1.5x",
        )

    def many_objects(self, wanted: list[Place]) -> None:
        remote, url = self.repository("many")
        with Reverser(self._plane, self._folder / "many") as reverser, watched(reverser.pid) as peak:
            setting = Setting(self._plane, url, "0s")
            begun = setting.begin()
            ended = remote.until_complete(len(wanted), {})
            self.rows.add(f"rule created, {len(wanted):,} ConfigMaps pushed", f"{ended - begun:.1f} s")
            self.rows.add("the same, CPU", f"{reverser.cpu_seconds():.1f} s")
            self.singly(remote, reverser, wanted)
            self.rows.add(
                f"peak RSS, children included, {len(wanted):,} objects", f"{peak.mb:.0f} MB", "≤ 130 MB"
            )
            setting.end()

    def singly(self, remote: Remote, reverser: Reverser, wanted: list[Place]) -> tuple[list[float], float]:
        """Wall seconds of each change, and the CPU seconds of one."""
        walls = []
        cpu = reverser.cpu_seconds()
        for number in range(self._changes):
            before = remote.tip()
            sent = self._change(wanted[number * 7 % len(wanted)])
            walls.append(remote.until_moved(before) - sent)
        time.sleep(0.5)  # until the children of the last have been waited for
        return walls, (reverser.cpu_seconds() - cpu) / self._changes

    def _stream(self, remote: Remote, reverser: Reverser, wanted: list[Place]) -> None:
        chosen, before = wanted[:UPDATES], remote.blobs()
        cpu = reverser.cpu_seconds()
        self._turn += 1
        last = self._cluster.change_steadily(chosen, self._turn, SECONDS)
        ended = remote.until_complete(len(chosen), before)
        time.sleep(0.5)
        spent = reverser.cpu_seconds() - cpu
        self.rows.add(
            f"{UPDATES:,} updates in {SECONDS:g} s, remote complete after the last",
            f"{max(0.0, ended - last):.2f} s",
            "≤ 1 s",
        )
        self.rows.add("the same, CPU", f"{spent:.1f} s", "≤ 8 s")

    def _change(self, place: Place) -> float:
        self._turn += 1
        return self._cluster.change(place, self._turn)


def _children_cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--changes", type=int, default=15, help="single changes that are timed")
    parser.add_argument("--volume", type=Path, default=Path(tempfile.gettempdir()))
    parser.add_argument("--parts", default="main,window,files,many")
    parser.add_argument("--only-look", action="store_true", help="print, and keep nothing")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that everything is ended in order
    parts = options.parts.split(",")
    with (
        ControlPlane.start() as plane,
        tempfile.TemporaryDirectory(dir=options.volume) as folder,
        ExitStack() as stage,
    ):
        plane.kubectl("apply", "--server-side", "-f", str(CRDS))
        plane.create_namespace(HOME)
        bench = Bench(plane, Path(folder), stage, options.changes)
        wanted = places(OBJECTS)
        bench.fill(wanted)
        if "main" in parts:
            bench.main_part(wanted)
        if "window" in parts:
            bench.default_window(wanted)
        if "files" in parts:
            bench.large_repository(wanted)
        if "many" in parts:
            bench.fill(places(MANY_OBJECTS)[OBJECTS:])
            bench.many_objects(places(MANY_OBJECTS))
    text = table(bench.rows.rows)
    print(text)
    if not options.only_look:
        keep("reverse", text)


if __name__ == "__main__":
    main()
