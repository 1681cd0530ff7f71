"""One running process that keeps a folder, told step by step what to do and answering with what it cost.

It imports nothing but the product, so that its memory is the product's. Each line
of standard input names a step; each line of standard output is a sample. What git
costs as our child counts; what the server costs does not.
"""

from __future__ import annotations

import asyncio
import json
import resource
import sys
import time
from pathlib import Path

from stoker.agent.sync.folder import FolderSync
from stoker.agent.sync.jobs import SyncJob, SyncOptions
from stoker.agent.sync.open_source import open_keeper
from stoker.domain.intent.files import FileMapping, FilesIntent, MissingSourcePolicy
from stoker.domain.intent.source import SourceIntent
from stoker.domain.intent.template_values import TemplateValues
from stoker.domain.refs import GitRef, RepoUrl


def cpu_seconds() -> float:
    """Ours and that of every child that has ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def written_bytes() -> int:
    """By our own threads; the counter of the whole process has that of its children in it."""
    counters = [
        dict(line.split(": ") for line in (task / "io").read_text().splitlines())
        for task in Path("/proc/self/task").iterdir()
    ]
    return sum(int(one["wchar"]) for one in counters)


def own_peak_mb() -> float:
    """Of this process alone: `ru_maxrss` also remembers the size of whoever started it."""
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(status["VmHWM"].split()[0]) / 1024


def child_peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024


STEPS = {"sync": SyncOptions(), "trust": SyncOptions(walk=False), "dry": SyncOptions(dry_run=True)}


async def obey(url: str, data: Path, cache: Path) -> None:
    files = FilesIntent((FileMapping("services/gateway", "gateway", when_missing=MissingSourcePolicy.FAIL),))
    job = SyncJob(SourceIntent(RepoUrl(url), GitRef("main")), files, TemplateValues(), data, cache)
    folder_sync = open_keeper(job)
    for line in sys.stdin:
        print(json.dumps(await measured(folder_sync, STEPS[line.strip()])), flush=True)


async def measured(folder_sync: FolderSync, wish: SyncOptions) -> dict[str, float]:
    """One pass; like the agent, nobody holds on to its report."""
    before = cpu_seconds(), time.monotonic(), written_bytes()
    done = (await folder_sync.sync(wish)).done
    return {
        "cpu": cpu_seconds() - before[0],
        "wall": time.monotonic() - before[1],
        "wrote": written_bytes() - before[2],
        "changed": len(done.added) + len(done.modified) + len(done.deleted),
        "own_peak": own_peak_mb(),
        "child_peak": child_peak_mb(),
    }


if __name__ == "__main__":
    asyncio.run(obey(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])))
