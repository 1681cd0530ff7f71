"""One candidate for a lease, as a process of its own, for `test_leader_election`.

While it leads it counts up in a ConfigMap, as fast as the server lets it, through
the fenced client and against the resourceVersion that it read. Before each write
it notes the moment in its journal, by the clock that all processes of this machine
share, so that the test knows when it believed it might act.

A `deaf` candidate does not hear that its work is cancelled, like one that is busy
in a thread: nothing but the fence can stop it.
"""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from stoker.domain.clock import SystemClock
from stoker.kube.client.client import KubeClient
from stoker.kube.client.errors import ApiError, ApiServerUnreachable
from stoker.kube.client.resources import CONFIG_MAPS
from stoker.kube.config import config
from stoker.kube.leader.elector import LeaderElector
from stoker.kube.leader.fencing import FencedClient, Leadership
from stoker.kube.leader.lease import LeaseTerms
from stoker.kube.runtime.process import run_process
from stoker.telemetry import logs

LEASE = "election"
COUNTER = "counter"
PAUSE = 0.01


class ConfigMap(msgspec.Struct):
    metadata: dict[str, Any]
    data: dict[str, str] = {}


@dataclass
class Candidate:
    kubeconfig: Path
    identity: str
    duration: int
    renew: float
    journal: Path
    manner: str

    async def main(self) -> None:
        settings = config.load_config(self.kubeconfig)
        async with KubeClient(settings) as client:
            terms = LeaseTerms(self.identity, self.duration, self.renew)
            elector = LeaderElector(client, LEASE, settings.namespace, terms)
            await elector.run(lambda leadership: self.work(FencedClient(client, leadership), leadership))

    async def work(self, client: KubeClient, leadership: Leadership) -> None:
        counting = asyncio.create_task(self.count(client, leadership))
        await (asyncio.shield(counting) if self.manner == "deaf" else counting)

    async def count(self, client: KubeClient, leadership: Leadership) -> None:
        clock, namespace = SystemClock(), client.config.namespace
        with self.journal.open("a", buffering=1) as journal:
            while True:
                try:
                    found = await client.get(CONFIG_MAPS, COUNTER, namespace, into=ConfigMap)
                    found.data = {"writer": self.identity, "count": str(int(found.data["count"]) + 1)}
                    leadership.check()
                    journal.write(f"{clock.monotonic()}\n")
                    await client.replace(CONFIG_MAPS, found, COUNTER, namespace, into=ConfigMap)
                except (ApiError, ApiServerUnreachable):
                    pass  # the next turn reads again
                await clock.sleep(PAUSE)


if __name__ == "__main__":
    kubeconfig, identity, duration, renew, journal, manner = sys.argv[1:]
    logs.configure_logging(level="debug", log_format="json")
    run_process(
        Candidate(Path(kubeconfig), identity, int(duration), float(renew), Path(journal), manner).main
    )
