"""Safe delivery, measured: what the copy before a sync costs, beside a tar of the same files.

`make bench-delivery` prints the tables and keeps them in docs/benchmarks.md. What counts
is CPU time with that of all children. Ours is that of an agent that runs already: from
the look at each file to the durable manifest and the old snapshots let go.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

from harness import keep, median_of, table
from stoker.agent.bidirectional.watch import COMPARE_SECONDS
from stoker_testkit.repositories.bare_repository import Repository
from sync import MB, children_cpu, content

FILES = 10_000
PICTURES = 400
BIG = 3
RUNS = 5
SECOND = 4
"""Unchanged snapshots after the first, so that there are as many manifests as are usually kept."""


def build(data: Path) -> int:
    """Views and tags as a gateway has them, some pictures that no compression makes smaller; the bytes."""
    chance = random.Random(8)  # noqa: S311 - the same in every run
    size = 0

    def write(path: str, what: bytes) -> None:
        nonlocal size
        place = data / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(what)
        size += len(what)

    for number in range(FILES - PICTURES - BIG):
        view, kind = divmod(number, 2)
        name = ("view.json", "resource.json")[kind]
        where = f"projects/p{view // 500}/perspective/views/area{view // 20}/view{view}/{name}"
        write(where, content(number, chance.randint(1_024, 17 * 1_024)))
    for number in range(PICTURES):
        where = f"projects/p{number % 10}/perspective/views/area{number}/thumbnail.png"
        write(where, chance.randbytes(chance.randint(5_000, 60_000)))
    for number in range(BIG):
        write(f"projects/big/historian{number}.json", content(10**6 + number, 5 * MB))
    return size


def tar(data: Path, target: Path, how: str) -> float:
    """What a tar of the files costs."""
    before = children_cpu()
    subprocess.run(["tar", how, "-cf", str(target), "-C", str(data), "."], check=True)
    return children_cpu() - before


def megabytes(values: list[float]) -> str:
    return f"{statistics.median(values) / MB:.1f} MB" if values else ""


def snapshots(folder: Path) -> str:
    """The first snapshot and those of unchanged files after it, beside tar, run after run."""
    data, store = folder / "data", folder / "store"
    size = build(data)
    cpu: defaultdict[str, list[float]] = defaultdict(list)
    stored: defaultdict[str, list[float]] = defaultdict(list)
    compressors = {"tar -z": "-z"} | ({"tar --zstd": "--zstd"} if shutil.which("zstd") else {})
    for _ in range(RUNS):
        for name, how in compressors.items():
            cpu[name].append(tar(data, folder / "tar", how))
            stored[name].append((folder / "tar").stat().st_size)
        shutil.rmtree(store, ignore_errors=True)
        store.mkdir()
        for turn in range(1 + SECOND):
            sample = median_of("delivery", "snapshot", (str(data), str(store)), runs=1)
            name = "first" if turn == 0 else "unchanged"
            cpu[name].append(sample.cpu_seconds)
            stored[name].append(sample.value)
        cpu["verify"].append(median_of("delivery", "verify", (str(data), str(store)), runs=1).cpu_seconds)
    medians = {name: statistics.median(values) for name, values in cpu.items()}
    rows = [["what", "CPU", "stored", *(f"beside {name}" for name in compressors), "target"]]
    rows += [
        [name, f"{medians[name]:.2f} s", megabytes(stored[name]), *("" for _ in compressors), ""]
        for name in compressors
    ]
    for name, what, target in (
        ("first", "first snapshot", "≤ 1.5 of tar -z"),
        ("unchanged", "snapshot of unchanged files", "≤ 0.2 of tar -z"),
        ("verify", "check of a whole snapshot", ""),
    ):
        ratios = [f"{medians[name] / medians[other]:.2f}" for other in compressors]
        rows.append([what, f"{medians[name]:.2f} s", megabytes(stored[name]), *ratios, target])
    title = f"Snapshot of {FILES:,} files, {size / MB:.0f} MB, medians of {RUNS} runs"
    return f"### {title}\n\n{table(rows)}"


def way_back(folder: Path) -> str:
    """One edit among all files until it is ready to be sent, without a quiet time; and rest."""
    served = folder / "served"
    served.mkdir()
    files = {
        f"s/p{number // 500}/v{number // 2}/{('view.json', 'resource.json')[number % 2]}": content(
            number, 2_000
        )
        for number in range(FILES)
    }
    Repository.create(served / "plant.git").commit(files)
    script = Path(__file__).parent / "bidirectional_cases.py"
    command = [sys.executable, str(script), str(served), str(folder)]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, timeout=300)
    found = json.loads(done.stdout.splitlines()[-1])
    share = found["idle"] + found["compare"] / COMPARE_SECONDS
    rows = [
        ["what", "measured", "target"],
        ["an edit until it is decided, median", f"{found['seconds']:.3f} s", "≤ 1 s"],
        ["the slowest of them", f"{found['worst']:.3f} s", ""],
        ["CPU of one edit, git included", f"{found['cpu']:.3f} s", ""],
        ["CPU of one comparison of everything", f"{found['compare']:.3f} s", ""],
        ["rest, comparisons included", f"{share:.3%} of one CPU", "≤ 0.5 %"],
        ["folders watched", f"{found['watches']:.0f}", ""],
    ]
    return f"### One edited file among {FILES:,}\n\n{table(rows)}"


def rollback(folder: Path) -> str:
    """From the request to files in place and the ledger written, sixteen files among few and among many."""
    rows = [["16 files among", "how", "time", "CPU", "target"]]
    script = Path(__file__).parent / "rollback_cases.py"
    for count in (16, FILES):
        files = {
            f"s/p{number // 500}/v{number}/{('view.json', 'code.py')[number % 2 and count > 16]}": content(
                number, 2_000
            )
            for number in range(count)
        }
        repository = Repository.create(folder / str(count) / "plant.git")
        repository.commit(files)
        command = [sys.executable, str(script), str(repository.path), str(folder / str(count))]
        done = subprocess.run(command, stdout=subprocess.PIPE, check=True, timeout=300)
        found = json.loads(done.stdout.splitlines()[-1])
        for name, how in (("changed", "by itself"), ("whole", "asked for, wholly checked")):
            target = "≤ 0.3 s" if count == 16 or name == "changed" else ""
            said = found[name]
            rows.append([f"{count:,}", how, f"{said['seconds']:.3f} s", f"{said['cpu']:.3f} s", target])
    return f"### Rollback of 16 files, without a gateway, medians of 7 runs\n\n{table(rows)}"


PARTS: dict[str, Callable[[Path], str]] = {
    "snapshots": snapshots,
    "way-back": way_back,
    "rollback": rollback,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--part", choices=sorted(PARTS), action="append", help="these alone, kept nowhere")
    parser.add_argument("--volume", type=Path, help="where the files lie; a temporary folder unless told")
    asked = parser.parse_args()
    texts = []
    for name in asked.part or PARTS:
        with tempfile.TemporaryDirectory(prefix="stoker-bench-", dir=asked.volume) as folder:
            texts.append(PARTS[name](Path(folder)))
            print(f"\n{texts[-1]}", flush=True)
    if not asked.part:
        keep("delivery", "\n\n".join(texts))


if __name__ == "__main__":
    main()
