"""What is measured of the way back by `bench/delivery.py`, in a process of its own.

A folder is synced, sixteen of its files are changed by another sync, and then it goes
back: from the request until the files are in place and the ledger is written. No gateway.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import sys
import time
from pathlib import Path

from harness import cpu_seconds
from stoker.agent.rollback.restore import restore_snapshot
from stoker.agent.rollback.setup import open_rollback
from stoker.agent.sync.jobs import SyncJob, SyncOptions
from stoker.agent.sync.open_source import open_keeper
from stoker.domain.clock import SystemClock
from stoker.domain.intent.files import FileMapping, FilesIntent
from stoker.domain.intent.policies import SnapshotPolicy
from stoker.domain.intent.source import SourceIntent
from stoker.domain.intent.template_values import TemplateValues
from stoker.domain.refs import GitRef, RepoUrl
from stoker_testkit.repositories.bare_repository import Repository

CHANGED = 16
RUNS = 7


def job_of(repository: Repository, folder: Path) -> SyncJob:
    (folder / "data").mkdir(parents=True)
    return SyncJob(
        SourceIntent(RepoUrl(repository.path.as_uri()), GitRef("main"), allow_rewrite=True),
        FilesIntent((FileMapping("s", "projects"),)),
        TemplateValues(),
        folder / "data",
        folder / "cache",
    )


async def measured(repository: Repository, folder: Path, *, whole: bool) -> dict[str, float]:
    job = job_of(repository, folder)
    undoing = open_rollback(
        SnapshotPolicy(enabled=True),
        (),
        data_dir=job.data_dir,
        gateway="line",
        clock=SystemClock(),
        asked=True,
    )
    assert undoing is not None
    tended = open_keeper(job, hooks=undoing.hooks, rollback=undoing)
    await tended.sync(SyncOptions())
    first = repository.tip()
    names = repository.git("ls-tree", "-r", "--name-only", "--full-tree", "main").decode().split()
    paths = sorted(path for path in names if path.endswith("view.json"))[:CHANGED]
    seconds, cpu = [], []
    for run in range(RUNS):
        repository.commit({path: json.dumps({"changed": run}) for path in paths})
        report = await tended.sync(SyncOptions(walk=False))
        assert report.files_changed == CHANGED
        taken = undoing.standing.taken
        (store,) = undoing.stores()
        began, used = time.perf_counter(), cpu_seconds()
        done = await restore_snapshot(job, store, taken, (), whole=whole)
        seconds.append(time.perf_counter() - began)
        cpu.append(cpu_seconds() - used)
        assert len(done.applied.modified) == CHANGED
        repository.set_branch("main", str(first))
        await tended.sync(SyncOptions(walk=False))
    return {"seconds": statistics.median(seconds), "cpu": statistics.median(cpu)}


if __name__ == "__main__":
    where = Path(sys.argv[2])
    kinds = {"changed": False, "whole": True}
    found = {
        name: asyncio.run(measured(Repository(Path(sys.argv[1])), where / name, whole=whole))
        for name, whole in kinds.items()
    }
    sys.stdout.write(json.dumps(found) + "\n")
