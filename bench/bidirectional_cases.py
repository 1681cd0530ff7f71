"""The way back at a gateway of 10,000 files, measured in a process of its own: one edit, and rest.

It takes a repository and a folder to work in, and prints one JSON object: seconds of an
edit from the end of its write to the set that is ready to be sent, CPU of one such edit, of
one whole comparison, and of a while in which nothing happens.
"""

from __future__ import annotations

import asyncio
import json
import resource
import statistics
import sys
import time
from pathlib import Path

from stoker.agent.bidirectional.capture import ChangeCapture
from stoker.agent.bidirectional.outbox import OutboxSender
from stoker.agent.bidirectional.types import OutboxAddress
from stoker.agent.bidirectional.watch import CaptureLoop
from stoker.agent.sync.jobs import SyncJob
from stoker.agent.sync.open_source import open_keeper
from stoker.domain.clock import SystemClock
from stoker.domain.intent.files import FileMapping, FilesIntent
from stoker.domain.intent.policies import BidirectionalPolicy
from stoker.domain.intent.source import SourceIntent
from stoker.domain.intent.template_values import TemplateValues
from stoker.domain.protocol import ChangeSetReply
from stoker.domain.refs import GitRef, RepoUrl
from stoker.fs.watch.paths import ChangedPaths
from stoker.ignition.content.noise import ResourceNoise
from stoker_testkit.repositories.git_http_server import GitHttpServer
from stoker_testkit.wait_until import eventually_async

EDITS = 9
IDLE_SECONDS = 20.0


def cpu_seconds() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


class Ready(OutboxSender):
    """Takes the time at which a set is handed over; there is no API server here."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, float]] = []

    async def send(self, key: str, set_id: str, chunks: object) -> None:
        self.sent.append((set_id, time.perf_counter()))

    async def is_there(self, key: str, set_id: str) -> bool:
        return True


async def measure(url: str, folder: Path) -> dict[str, float]:
    data = folder / "data"
    data.mkdir()
    files = FilesIntent((FileMapping("s", "projects"),))
    job = SyncJob(SourceIntent(RepoUrl(url), GitRef("main")), files, TemplateValues(), data, folder / "cache")
    folder_sync = open_keeper(job, noise=ResourceNoise())
    await folder_sync.sync()
    policy = BidirectionalPolicy(enabled=True, watch_paths=("projects/**",), debounce=0.0)
    ready, clock = Ready(), SystemClock()
    capturing = ChangeCapture(
        policy, folder_sync, ready, OutboxAddress("g", "g"), clock, noise=ResourceNoise(), tell=lambda _: None
    )
    watch = CaptureLoop(capturing, data, clock, debounce=0.0)
    watch.start()
    await eventually_async(lambda: watch.rests, 60.0)
    places = sorted(data.glob("projects/*/*/view.json"))
    seconds, cpu = [], []
    for number in range(EDITS):
        before, spent = len(ready.sent), cpu_seconds()
        places[number * 100].write_text(f'{{"edit": {number}}}')
        closed = time.perf_counter()
        await eventually_async(lambda: len(ready.sent) > before, 30.0, interval=0.002)  # noqa: B023
        set_id, at = ready.sent[-1]
        seconds.append(at - closed)
        cpu.append(cpu_seconds() - spent)
        await capturing.told(ChangeSetReply(set_id))
        await eventually_async(lambda: watch.rests, 30.0)
    compares = []
    for _ in range(5):
        begun = cpu_seconds()
        async with capturing.lock:
            await capturing.step(ChangedPaths(everything=True))
        compares.append(cpu_seconds() - begun)
    begun = cpu_seconds()
    await asyncio.sleep(IDLE_SECONDS)
    idle = cpu_seconds() - begun
    await watch.aclose()
    return {
        "seconds": statistics.median(seconds),
        "worst": max(seconds),
        "cpu": statistics.median(cpu),
        "compare": statistics.median(compares),
        "idle": idle / IDLE_SECONDS,
        "watches": float(watch.notices.watches),
        "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def main() -> None:
    with GitHttpServer.start(Path(sys.argv[1])) as server:
        print(json.dumps(asyncio.run(measure(server.url("plant.git"), Path(sys.argv[2])))))


if __name__ == "__main__":
    main()
