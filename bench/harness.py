"""How everything is measured here: each subject in a process of its own, several times, medians.

A subject is a function of `bench/<area>_cases.py`. It does its set-up, calls
`go()` when the part to be measured begins, and returns when that has ended. What
counts is CPU time, because the machines are shared; peak memory is the whole
process's, interpreter and libraries included.
"""

from __future__ import annotations

import json
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

HERE = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Sample:
    """What one run of a subject cost."""

    cpu_seconds: float
    wall_seconds: float
    peak_mb: float
    value: float = 0.0
    """What the subject itself counted, such as objects or events."""


def cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def measured(subject: Callable[[Callable[[], None]], float]) -> Sample:
    """Run a subject in this process."""
    begun = [0.0, 0.0]

    def go() -> None:
        begun[:] = [cpu_seconds(), time.monotonic()]

    value = subject(go)
    cpu, wall = cpu_seconds() - begun[0], time.monotonic() - begun[1]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return Sample(cpu, wall, peak, value)


def median_of(area: str, subject: str, arguments: Sequence[str], *, runs: int) -> Sample:
    """The median of several fresh processes, field by field."""
    samples = [_run(area, subject, arguments) for _ in range(runs)]
    fields = Sample.__dataclass_fields__
    return Sample(**{name: statistics.median(getattr(sample, name) for sample in samples) for name in fields})


def _run(area: str, subject: str, arguments: Sequence[str]) -> Sample:
    script = HERE / f"{area}_cases.py"
    done = subprocess.run(
        [sys.executable, str(script), subject, *arguments], stdout=subprocess.PIPE, check=True, timeout=600
    )
    return Sample(**json.loads(done.stdout.splitlines()[-1]))


def report(sample: Sample) -> None:
    """Hand a sample to the process that asked for it."""
    print(json.dumps(asdict(sample)))


def table(rows: Sequence[Sequence[str]]) -> str:
    """Rows as a Markdown table, the first one as its head."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |"
        for row in rows
    ]
    rule = "|" + "|".join("-" * (width + 2) for width in widths) + "|"
    return "\n".join([lines[0], rule, *lines[1:]])


def keep(area: str, text: str, where: str = "benchmarks.md") -> None:
    """Put the last table of an area into a page of docs, in the place of the one before."""
    page = HERE.parent / "docs" / where
    begin, end = f"<!-- {area}: begin -->", f"<!-- {area}: end -->"
    old = page.read_text()
    head, found, rest = old.partition(begin)
    if not found:
        raise SystemExit(f"{page} has no place for {area}: {begin}")
    _, _, tail = rest.partition(end)
    page.write_text(f"{head}{begin}\n\n{text}\n\n{end}{tail}")
