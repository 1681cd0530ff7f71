"""Git to a folder, measured beside `git` with `rsync -a --delete`, in one run on one machine.

`make bench-sync` prints the tables and keeps them in docs/benchmarks.md. A user
without Stoker clones, fetches, checks out and copies; both sides read the same
repository from the same server over http, whose own work is billed to nobody.
What counts is CPU time with that of all children; wall time stands beside it.
"""

from __future__ import annotations

import argparse
import atexit
import inspect
import json
import os
import random
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from pathlib import Path

from harness import HERE, keep, table
from stoker_testkit.repositories.bare_repository import Repository, git_environment

SOURCE = "services/gateway"
WORDS = (
    "Motor",
    "Pump",
    "Valve",
    "Level",
    "Flow",
    "Pressure",
    "Tank",
    "Filler",
    "Speed",
    "Alarm",
    "Count",
    "Fault",
)
MB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Size:
    """How much of what is synced."""

    name: str
    files: int
    smallest: int
    largest: int
    big: int
    runs: int

    def path(self, number: int) -> str:
        """Two files to a resource, twenty resources to a folder, as a project of views has them."""
        view, kind = divmod(number, 2)
        name = ("view.json", "resource.json")[kind]
        return f"{SOURCE}/projects/p{view // 500}/perspective/views/area{view // 20}/view{view}/{name}"


SIZES = {
    "10k": Size("10,000 files, 100 MB", 10_000, 1_024, 14 * 1_024, 5, 5),
    "100k": Size("100,000 files", 100_000, 256, 2_048, 5, 3),
}


def content(seed: int, size: int) -> bytes:
    """Tags as a gateway exports them: valid JSON of about that size, no two files alike."""
    chance = random.Random(seed)  # noqa: S311 - the same in every run
    tags = [
        {
            "name": f"{chance.choice(WORDS)}{chance.randrange(100)}",
            "tagType": "AtomicTag",
            "dataType": chance.choice(("Float8", "Int4", "Boolean", "String")),
            "valueSource": "opc",
            "opcItemPath": f"ns=1;s=[{chance.choice(WORDS)}]{chance.choice(WORDS)}.{chance.randrange(1000)}",
            "historyEnabled": chance.random() < 0.5,
        }
        for _ in range(max(1, size // 230))
    ]
    return json.dumps({"version": seed, "tags": tags}, indent=2).encode()


def build(folder: Path, size: Size) -> Repository:
    repository = Repository.create(folder / "plant.git")
    chance = random.Random(1)  # noqa: S311
    files: dict[str, str | bytes | None] = {
        size.path(number): content(number, chance.randint(size.smallest, size.largest))
        for number in range(size.files - size.big)
    }
    files |= {f"{SOURCE}/projects/big/historian{n}.json": content(10**6 + n, 5 * MB) for n in range(size.big)}
    repository.commit(files)
    repository.git("repack", "-adq")  # as a forge has it
    return repository


def change(repository: Repository, size: Size, turn: int) -> int:
    """10 files changed, 3 deleted, 3 added; the bytes of what is new."""
    first = turn * 40
    changed = {size.path(first + n): content(turn * 10**6 + n, 7_000) for n in range(10)}
    added = {f"{SOURCE}/projects/new/view{turn}/file{n}.json": content(turn + n, 7_000) for n in range(3)}
    gone: dict[str, str | bytes | None] = {size.path(first + 20 + n): None for n in range(3)}
    repository.commit({**changed, **added, **gone})
    return sum(map(len, (*changed.values(), *added.values())))


@dataclass(slots=True)
class Samples:
    """What each step cost, run after run."""

    cpu: defaultdict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    wall: defaultdict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    other: defaultdict[str, list[float]] = field(default_factory=lambda: defaultdict(list))

    def add(self, step: str, cpu: float, wall: float) -> None:
        self.cpu[step].append(cpu)
        self.wall[step].append(wall)


def children_cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def timed(samples: Samples, step: str, work: Callable[[], None]) -> None:
    cpu, wall = children_cpu(), time.monotonic()
    work()
    samples.add(step, children_cpu() - cpu, time.monotonic() - wall)


class Instead:
    """What a user takes instead: a clone, and rsync from it to the folder."""

    def __init__(self, url: str, folder: Path) -> None:
        self._url = url
        self._work, self._data = folder / "work", folder / "data"

    def first(self) -> None:
        self._data.mkdir()
        self._git("clone", "--quiet", "--depth=1", self._url, str(self._work), cwd=self._data.parent)
        self._rsync()

    def again(self) -> None:
        self._git("fetch", "--quiet", "origin", "main", cwd=self._work)
        self._git("checkout", "--quiet", "--detach", "FETCH_HEAD", cwd=self._work)
        self._rsync()

    def look(self) -> None:
        self._git("fetch", "--quiet", "origin", "main", cwd=self._work)
        self._git("checkout", "--quiet", "--detach", "FETCH_HEAD", cwd=self._work)
        self._rsync("--dry-run", "--itemize-changes")

    def _rsync(self, *options: str) -> None:
        source = f"{self._work}/{SOURCE}/"
        command = ["rsync", "-a", "--delete", *options, source, f"{self._data}/gateway/"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)

    @staticmethod
    def _git(*arguments: str, cwd: Path) -> None:
        subprocess.run(["git", *arguments], check=True, cwd=cwd, env=git_environment())


class Command:
    """`stoker sync` as a process of its own each time."""

    def __init__(self, url: str, folder: Path) -> None:
        self._data, cache = folder / "data", folder / "cache"
        self._arguments = ["--repo", url, "--ref", "main", "--data-dir", str(self._data)]
        self._arguments += ["--cache-dir", str(cache), "--map", f"{SOURCE}:gateway", "--output", "json"]

    def first(self) -> None:
        self._data.mkdir()
        self.run()

    def run(self, *options: str) -> None:
        stoker(["sync", *self._arguments, *options])


def stoker(arguments: list[str]) -> None:
    command = [str(Path(sys.executable).with_name("stoker")), *arguments]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=as_installed())


@cache
def as_installed() -> dict[str, str]:
    """An environment with all modules compiled, as an installer leaves them and a checkout may not."""
    folder = tempfile.mkdtemp(prefix="stoker-bench-")
    atexit.register(shutil.rmtree, folder)
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": folder}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    for name in ("stoker", "click", "msgspec", "typing_extensions"):
        place = Path(inspect.getfile(import_module(name)))
        place = place.parent if place.name == "__init__.py" else place
        subprocess.run([sys.executable, "-m", "compileall", "-q", str(place)], check=True, env=environment)
    return environment


class Running:
    """Ours as a process that stays: the subject, told what to do line by line."""

    def __init__(self, url: str, folder: Path) -> None:
        (folder / "data").mkdir()
        script = [
            sys.executable,
            str(HERE / "sync_worker.py"),
            url,
            str(folder / "data"),
            str(folder / "cache"),
        ]
        self._process = subprocess.Popen(
            script, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=as_installed()
        )

    def step(self, name: str) -> dict[str, float]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(name + "\n")
        self._process.stdin.flush()
        return dict(json.loads(self._process.stdout.readline()))

    def end(self) -> None:
        self._process.communicate(timeout=60)


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """The repository behind a server in a process of its own."""
    command = [sys.executable, "-m", "stoker_testkit.repositories.git_http_server", str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            yield server.stdout.readline().strip() + "/plant.git"
        finally:
            server.terminate()


def measure(size: Size, volume: Path) -> tuple[Samples, Samples, Samples]:
    """All steps of all three, interleaved, so that what else the machine does hits them alike."""
    instead, running, command = Samples(), Samples(), Samples()
    with tempfile.TemporaryDirectory(dir=volume, prefix="stoker-bench-") as name:
        folder = Path(name)
        repository = build(folder / "served", size)
        with served(folder / "served") as url:
            for run in range(size.runs):
                one_run(repository, size, url, folder / f"run{run}", run, (instead, running, command))
                shutil.rmtree(folder / f"run{run}")
    return instead, running, command


def one_run(
    repository: Repository,
    size: Size,
    url: str,
    folder: Path,
    run: int,
    samples: tuple[Samples, Samples, Samples],
) -> None:
    instead, running, command = samples
    for name in ("instead", "running", "command"):
        (folder / name).mkdir(parents=True)
    theirs, ours = Instead(url, folder / "instead"), Running(url, folder / "running")
    once = Command(url, folder / "command")

    def step(name: str, what: str) -> None:
        sample = ours.step(what)
        running.add(name, sample["cpu"], sample["wall"])
        running.other[f"{name}: changed"].append(sample["changed"])
        running.other[f"{name}: written"].append(sample["wrote"])
        running.other["own peak"].append(sample["own_peak"])
        running.other["child peak"].append(sample["child_peak"])

    timed(instead, "first", theirs.first)
    step("first", "sync")
    timed(command, "first", once.first)
    theirs.again()  # the first no-op: git's index is racy just after a clone, and so is our ledger
    ours.step("sync")
    timed(instead, "nothing", theirs.again)
    step("nothing, walk", "sync")
    step("nothing, trust", "trust")
    timed(command, "nothing", once.run)
    for turn, (name, what, cold) in enumerate(
        (
            ("changed, trust", "trust", ("--trust-ledger",)),
            ("changed, walk", "sync", ()),
        )
    ):
        new = change(repository, size, 2 * run + turn)
        timed(instead, "changed", theirs.again)
        step(name, what)
        running.other[f"{name}: new bytes"].append(new)
        timed(command, name, lambda options=cold: once.run(*options))  # type: ignore[misc]
    timed(instead, "dry", theirs.look)
    step("dry", "dry")
    timed(command, "dry", lambda: once.run("--dry-run"))
    ours.end()


ROWS = (
    # what, our step, theirs, target running on tmpfs / disk / 100k, target of the command
    ("first sync", "first", "first", (0.7, 0.8, 1.0), 0.8),
    ("nothing changed, drift walk", "nothing, walk", "nothing", (0.35, 0.35, 0.35), 0.65),
    ("nothing changed, commit check", "nothing, trust", "nothing", (0.08, 0.08, 0.08), None),
    ("16 changed, trusting the ledger", "changed, trust", "changed", (0.15, 0.15, 0.15), 0.5),
    ("16 changed, drift walk", "changed, walk", "changed", (0.35, 0.35, 0.35), None),
    ("dry run, drift walk", "dry", "dry", (0.45, 0.45, 0.45), 0.8),
)


def ratio_table(size: Size, volume: str, instead: Samples, running: Samples, command: Samples) -> str:
    which = 2 if size.files > 50_000 else 0 if volume == "tmpfs" else 1
    rows = [
        ["what", "git + rsync", "running", "ratio", "target", "command", "ratio", "target", "wall ratios"]
    ]
    for what, ours, theirs, targets, cold_target in ROWS:
        base, base_wall = statistics.median(instead.cpu[theirs]), statistics.median(instead.wall[theirs])
        warm, warm_wall = statistics.median(running.cpu[ours]), statistics.median(running.wall[ours])
        cold_step = "nothing" if ours == "nothing, walk" else ours
        cold = statistics.median(command.cpu[cold_step]) if command.cpu[cold_step] else None
        cold_wall = statistics.median(command.wall[cold_step]) if cold is not None else 0.0
        walls = f"{warm_wall / base_wall:.2f}" + (
            f", {cold_wall / base_wall:.2f}" if cold is not None else ""
        )
        rows.append(
            [what, ms(base), ms(warm), f"{warm / base:.2f}", f"≤ {targets[which]:g}"]
            + ([ms(cold), f"{cold / base:.2f}"] if cold is not None else ["", ""])
            + [f"≤ {cold_target:g}" if cold_target is not None else "", walls]
        )
    return f"**{size.name}, {volume}** (CPU, medians of {size.runs})\n\n{table(rows)}"


def ms(seconds: float) -> str:
    return f"{seconds * 1000:,.0f} ms"


def memory_and_writes(size: Size, running: Samples) -> list[list[str]]:
    wrote = statistics.median(running.other["changed, trust: written"])
    new = statistics.median(running.other["changed, trust: new bytes"])
    limit = 60 if size.files <= 50_000 else 150
    return [
        [f"own process, {size.name}", f"{max(running.other['own peak']):.0f} MB", f"≤ {limit} MB"],
        [f"largest git child, {size.name}", f"{max(running.other['child peak']):.0f} MB", "≤ 256 MB"],
        [f"written when nothing changed, {size.name}", f"{idle(running):.0f} bytes", "0, pipes to git aside"],
        [f"written for 16 changes, {size.name}", f"{wrote / new:.2f}x the new bytes", "≤ 2x"],
    ]


def idle(running: Samples) -> float:
    return statistics.median(running.other["nothing, trust: written"])


def one_huge_file(volume: Path, megabytes: int = 1024) -> list[list[str]]:
    """A file that must pass through in pieces, on our side and on git's."""
    with tempfile.TemporaryDirectory(dir=volume, prefix="stoker-bench-") as name:
        folder = Path(name)
        repository = Repository.create(folder / "served/plant.git")
        huge = folder / "huge"
        with huge.open("wb") as file:
            for _ in range(megabytes):
                file.write(os.urandom(MB))
        blob = repository.git("-c", "core.compression=0", "hash-object", "-w", str(huge)).decode().strip()
        huge.unlink()
        tree = f"100644 blob {blob}\thuge.bin\n"
        for part in reversed(SOURCE.split("/")):
            inner = repository.git("mktree", stdin=tree.encode()).decode().strip()
            tree = f"040000 tree {inner}\t{part}\n"
        root = repository.git("mktree", stdin=tree.encode()).decode().strip()
        who = {
            f"GIT_{role}_{what}": "bench@example.test"
            for role in ("AUTHOR", "COMMITTER")
            for what in ("NAME", "EMAIL")
        }
        commit = repository.git("commit-tree", root, stdin=b"Huge\n", env=who).decode().strip()
        repository.set_branch("main", commit)
        with served(folder / "served") as url:
            (folder / "running").mkdir()
            ours = Running(url, folder / "running")
            sample = ours.step("sync")
            ours.end()
    return [
        [f"own process, one file of {megabytes} MB", f"{sample['own_peak']:.0f} MB", "≤ 60 MB"],
        [f"largest git child, one file of {megabytes} MB", f"{sample['child_peak']:.0f} MB", "≤ 256 MB"],
    ]


def version_row() -> list[str]:
    samples = Samples()
    as_installed()
    for _ in range(9):
        timed(samples, "version", lambda: stoker(["--version"]))
    return ["`stoker --version`, CPU", ms(statistics.median(samples.cpu["version"])), "≤ 90 ms"]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--sizes", nargs="*", default=list(SIZES))
    parser.add_argument("--volumes", nargs="*", default=["tmpfs", "disk"])
    parser.add_argument("--large-volumes", nargs="*", default=["tmpfs"], help="for more than 50,000 files")
    parser.add_argument("--only-look", action="store_true", help="print, and keep nothing")
    parser.add_argument("--no-huge", action="store_true")
    chosen = parser.parse_args()
    if shutil.which("rsync") is None:
        raise SystemExit("rsync is what this is measured against: apt-get install rsync")
    volumes = {"tmpfs": Path("/dev/shm"), "disk": Path(tempfile.gettempdir())}  # noqa: S108
    parts, facts = [], [["what", "measured", "target"], version_row()]
    flat: dict[str, float] = {}
    for name in chosen.sizes:
        large = SIZES[name].files > 50_000
        for volume in chosen.large_volumes if large else chosen.volumes:
            instead, running, command = measure(SIZES[name], volumes[volume])
            parts.append(ratio_table(SIZES[name], volume, instead, running, command))
            print(parts[-1], flush=True)
            if volume == "tmpfs":
                facts += memory_and_writes(SIZES[name], running)
                flat[name] = statistics.median(running.cpu["changed, trust"])
    if len(flat) == 2:
        growth = flat["100k"] / flat["10k"]
        facts.append(["16 changed: 100,000 files against 10,000", f"{growth:.2f}x", "≤ 1.5x"])
    if not chosen.no_huge:
        facts += one_huge_file(volumes["tmpfs"])
    parts.append(table(facts))
    print(parts[-1])
    if not chosen.only_look:
        keep("sync", "\n\n".join(parts))


if __name__ == "__main__":
    main()
